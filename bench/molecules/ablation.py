"""What each part of the deep kernel stack is worth: one changed at a time."""

from __future__ import annotations

from typing import Any

from wlkernelnn.training import FitOptions

from .members import MoleculeRow
from .moleculenet import STACK
from .table import MoleculeTask, molecules
from .zinc import load_zinc

LEGEND = """* Every row is the first one with a single change. "parameters" says what a change costs.
"""


def _with(title: str, features: str = "ogb+rw16", members: int = 1, **changed: Any) -> MoleculeRow:
    return MoleculeRow(title, STACK | changed, features=features, members=members)


MODELS = {
    "stack": _with("four deep kernel layers, gated, sums, walk encodings, all layers read"),
    "no-walks": _with("no walk encodings", features="ogb"),
    "rings": _with("ring counts too", features="ogb+rings+rw16"),
    "morgan": _with("Morgan counts too", features="ogb+rw16+morgan"),
    "rdkit": _with("RDKit's descriptors too", features="ogb+rw16+rdkit"),
    "constant": _with("λ = 0.8", decay=0.8),
    "mul": _with("products instead of sums", compose="mul"),
    "last": _with("only the last layer read", jumping="last"),
    "sum": _with("the sum of all layers read", jumping="sum"),
    "shallow": _with("two layers", num_layers=2),
    "mean": _with("mean over the atoms", pooling="mean"),
    "no-residual": _with("nothing added to a layer's result", residual=False),
    "no-norm": _with("no norms in the layers", layer_norm=False),
    "layer-dropout": _with("dropout in the layers", layer_dropout=0.1),
    "virtual-node": _with("virtual nodes", virtual_node=True),
    "ensemble": _with("ensemble of {members}", members=5),
}
# ZINC's target is made of logP, which is one of RDKit's descriptors.
_OF_ZINC = {row: model for row, model in MODELS.items() if row != "rdkit"}
_SMALL = FitOptions(epochs=60, lr=2e-3, ema_decay=0.99)
TASKS = {
    "esol": MoleculeTask(_SMALL, MODELS, ("random",)),
    "freesolv": MoleculeTask(_SMALL, MODELS, ("random",)),
    "zinc": MoleculeTask(
        FitOptions(epochs=40, lr=2e-3, ema_decay=0.999), _OF_ZINC, ("published",), load=load_zinc
    ),
}


main = molecules("ablation", "Parts of the deep kernel stack", TASKS, __doc__, legend=LEGEND, seeds=3).main
