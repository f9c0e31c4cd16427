"""Settings of a training by one word, and the ranges in which a search looks for better ones."""

from __future__ import annotations

from typing import Any

#: Options by preset; docs/molecules.md has what each was measured to give.
PRESETS: dict[str, dict[str, Any]] = {
    "fast": {"model": "linear"},
    "balanced": {"model": "auto"},
    "best": {
        "model": "gp+stack",
        "features": "ogb+invariants+rw16+descriptors",
        "hidden_channels": 64,
        "compose": "add",
        "dropout": 0.1,
        "epochs": 40,
        "lr": 2e-3,
        "ema_decay": 0.99,
    },
}


#: What ``wlkernelnn hpopt`` searches of all networks: values to choose from, or the bounds of a number.
_SHARED: dict[str, Any] = {
    "hidden_channels": [32, 64, 128, 176, 256],
    "decay": ["gated", "learned"],
    "pooling": ["sum", "mean"],
    "dropout": {"low": 0.0, "high": 0.4, "step": 0.05},
    "batch_size": [16, 32, 64, 128],
    "lr": {"low": 2e-4, "high": 1e-2, "log": True},
    "weight_decay": {"low": 1e-6, "high": 1e-1, "log": True},
    "ema_decay": [0.0, 0.9, 0.99, 0.999],
}
#: The same by network, with its own options. Every default, and what a preset sets, lies inside.
RANGES: dict[str, dict[str, Any]] = {
    "wl": {
        "num_iterations": {"low": 2, "high": 6},
        "readout": ["last", "sum"],
        "share_walk_weights": [True, False],
        **_SHARED,
    },
    "stack": {
        "num_layers": {"low": 2, "high": 6},
        "compose": ["mul", "add"],
        "jumping": ["cat", "sum", "last"],
        "layer_dropout": {"low": 0.0, "high": 0.3, "step": 0.05},
        **_SHARED,
    },
}


def check_preset(preset: str | None, model: str) -> None:
    """Refuse a preset together with another model than its own, whose options would be mixed.

    Raises:
        ValueError: They do not go together.
    """
    own = model if preset is None else PRESETS[preset]["model"]
    if own != model:
        raise ValueError(
            f"--preset {preset} is --model {own}, but --model {model} is given: give one of both"
        )
