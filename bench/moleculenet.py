"""Networks on the sets of MoleculeNet, by random and by scaffold splits."""

from __future__ import annotations

from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

from .molecule_table import Model, MoleculeTask, run_table

# Weisfeiler-Lehman kernel network, deep kernel stack, and stacks with fingerprints, alone and together.
STACK = {"hidden_channels": 128, "num_layers": 3, "dropout": 0.1, "layer_dropout": 0.1}
MODELS = {
    "wl": Model("WL kernel network", {"dropout": 0.1}, GraphKernelNetwork),
    "stack": Model("deep kernel stack", STACK),
    "stack-morgan": Model("deep kernel stack, Morgan counts", STACK, features="ogb+morgan"),
    "ensemble": Model("five of these", STACK, features="ogb+morgan", members=5),
}
_SMALL = FitOptions(epochs=60, lr=2e-3, ema_decay=0.99)
_CLASSES = FitOptions(epochs=30, lr=1e-3, ema_decay=0.99)
_LARGE = FitOptions(epochs=20, lr=1e-3, batch_size=256, ema_decay=0.99)

# Published: D-MPNN (Yang et al. 2019), tables 1 and 2 of the appendix, without further features.
TASKS = {
    "esol": MoleculeTask(_SMALL, MODELS),
    "freesolv": MoleculeTask(_SMALL, MODELS),
    "lipophilicity": MoleculeTask(_SMALL, MODELS),
    "bbbp": MoleculeTask(_CLASSES, MODELS),
    "bace": MoleculeTask(_CLASSES, MODELS),
    "clintox": MoleculeTask(_CLASSES, MODELS),
    "sider": MoleculeTask(_CLASSES, MODELS),
    "tox21": MoleculeTask(_CLASSES, MODELS),
    "hiv": MoleculeTask(_LARGE, MODELS),
    "qm7": MoleculeTask(_SMALL, MODELS, ("random",)),
    "qm8": MoleculeTask(_SMALL, MODELS, ("random",)),
}


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``moleculenet.md`` and ``moleculenet.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    run_table("moleculenet", "MoleculeNet", TASKS, argv, __doc__)
