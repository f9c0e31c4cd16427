"""Settings of a training by one word."""

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
