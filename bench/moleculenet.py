"""Networks on the sets of MoleculeNet, by random and by scaffold splits."""

from __future__ import annotations

from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

from .baselines import GINENetwork
from .molecule_table import Model, MoleculeTask, run_table

STACK = {"hidden_channels": 64, "num_layers": 4, "compose": "add", "dropout": 0.1}
DESCRIBED = "ogb+rw16+rdkit"
MODELS = {
    "gine": Model("GINE", {"hidden_channels": 128, "dropout": 0.1}, GINENetwork),
    "wl": Model("WL kernel network", {"dropout": 0.1}, GraphKernelNetwork),
    "stack": Model("deep kernel stack, walk encodings", STACK, features="ogb+rw16"),
    "ensemble": Model("five of these", STACK, features="ogb+rw16", members=5),
    "stack-rdkit": Model("deep kernel stack, walk encodings, descriptors", STACK, features=DESCRIBED),
    "ensemble-rdkit": Model("five of these, with descriptors", STACK, features=DESCRIBED, members=5),
}
_SMALL = FitOptions(epochs=60, lr=2e-3, ema_decay=0.99)
_CLASSES = FitOptions(epochs=30, lr=1e-3, ema_decay=0.99)
_LARGE = FitOptions(epochs=20, lr=1e-3, batch_size=256, ema_decay=0.99)

# Published beside them, on random splits.
LEGEND = """* published: D-MPNN (Yang et al. 2019), from the page of its code, chemprop: one network a split,
  its hyper-parameters chosen on other splits, with RDKit's descriptors where they helped. Of the rows here
  only those "with descriptors" see RDKit's too, nothing is chosen by the set, and an ensemble is several
  networks: it has no published counterpart.
"""
TASKS = {
    "esol": MoleculeTask(_SMALL, MODELS, published={"random": "0.555 (D-MPNN)"}),
    "freesolv": MoleculeTask(_SMALL, MODELS, published={"random": "1.075 (D-MPNN)"}),
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
    """Train, score, print the tables, and write ``moleculenet_<set>.md`` and ``.json`` of every set.

    Args:
        argv: Arguments; default the command line's.
    """
    run_table("moleculenet", "MoleculeNet", TASKS, argv, __doc__, legend=LEGEND)
