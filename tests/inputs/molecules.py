"""Molecules, tiny networks and quick options for the tests of models, training and commands."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from wlkernelnn.datasets import Description, PackedGraphs, load_molecules, molecules_from
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

SMALL = {"hidden_channels": 8, "num_iterations": 2}
# The same for the command line, with two epochs.
SMALL_RUN = [
    *("--model", "wl", "--hidden-channels", "8", "--num-iterations", "2"),
    *("--epochs", "2", "--batch-size", "16"),
]

# Rows of a table, and whether they are molecules.
ROWS = {
    "unparsable": ("C1CC", False),
    "good": ("CCO", True),
    "empty": ("", False),
    "blank": ("   ", False),
    "nan": ("nan", False),
    "name_after": ("CC ethane", False),
    "duplicate": ("CCO", True),
    "one_atom": ("C", True),
    "disconnected": ("[Na+].[Cl-]", True),
    "large": ("C" * 500, True),
    "heavy_element": ("[Og]", True),
    "no_element": ("*C", True),
}
MOLECULES = [is_molecule for _, is_molecule in ROWS.values()]


@cache
def whole_set() -> PackedGraphs:
    """The 1,017 molecules with measured activities that come with rdkit."""
    return load_molecules("chembl2321810", split=None, cache=False)


@cache
def regression_set(count: int = 60) -> PackedGraphs:
    """Molecules with measured activities, out of those that come with rdkit."""
    whole = whole_set()
    some = whole[:: len(whole) // count][:count]
    return molecules_from(some.smiles, some.y.numpy(), target_columns=["Act"], name="some", cache=False)


@cache
def classification_set(count: int = 60) -> PackedGraphs:
    """Two yes-or-no questions about the same molecules; a quarter of the answers are missing."""
    data = regression_set(count)
    act = data.y[:, 0].numpy()
    y = np.stack([act > np.median(act), ["n" in smiles for smiles in data.smiles]], axis=1).astype(float)
    y[np.random.default_rng(0).random(y.shape) < 0.25] = np.nan
    return molecules_from(data.smiles, y, target_columns=["active", "aza"], on_invalid="skip", cache=False)


def described(data: PackedGraphs, **description: Any) -> PackedGraphs:
    """The same arrays with another description."""
    return PackedGraphs(data.arrays, Description(**description))


def small_network(data: PackedGraphs, seed: int = 0, **kwargs: Any) -> GraphKernelNetwork:
    torch.manual_seed(seed)
    return GraphKernelNetwork.from_data(data, **{**SMALL, **kwargs})


def quick(**kwargs: Any) -> FitOptions:
    """A few steps that still change something."""
    return FitOptions(**{"epochs": 3, "batch_size": 16, "lr": 1e-2, "warmup_epochs": 0, **kwargs})


def assert_same_weights(a: torch.nn.Module, b: torch.nn.Module) -> None:
    for (name, left), (_, right) in zip(a.state_dict().items(), b.state_dict().items(), strict=True):
        assert torch.equal(left, right), name


def write_table(path: Path, data: PackedGraphs, **columns: Any) -> Path:
    """A CSV or Parquet file with columns ``smiles``, the targets, and any others."""
    targets = dict(zip(data.description.target_names, data.y.T.numpy(), strict=True))
    frame = pd.DataFrame({"smiles": data.smiles, **targets, **columns})
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


@cache
def some_measured(count: int = 150) -> PackedGraphs:
    """Some of the molecules that come with rdkit, in random order."""
    data = whole_set()
    smiles, some = data.smiles, np.random.default_rng(0).permutation(len(data))[:count]
    return load_molecules([smiles[i] for i in some], y=data.y.numpy()[some], cache=False)
