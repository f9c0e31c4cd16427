"""The table of joint models: rows, figures and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wlkernelnn.bench.harness.cells import Cell, Record, out_of
from wlkernelnn.bench.harness.runs import Table

LEGEND = """* RMSE of {folds}-fold cross-validation **on training parts alone**: no validation or test part is
  read. These are development sets, on which choices are made. "cep-1000" and "cep-4000" are so many molecules
  of CEP's training part, drawn.
* beside the process: the geometric mean over the sets of RMSE / that of the process.
* The process has the eight kernels of counts and that of descriptors, an amplitude each. Boosted trees
  (HistGradientBoostingRegressor, defaults) and randomised ones (ExtraTreesRegressor, 300 trees, 0.3 of the
  columns a split) see Morgan counts and the same descriptors, which networks see beside atoms and bonds.
* Networks: {epochs} epochs, learning rate 0.002, moving average of weights, the last epoch; the WL network
  with 176 channels, the stack with four layers of 64. "networks": so many in each fold, which predict by
  their mean.
* "with a kernel of": one more kernel in the sum, linear or RBF (length scale 1), of the network's out-of-fold
  predictions, standardised. Weights are those of the least squared error of the other folds' predictions.
  **In both cases networks that predicted a molecule of another fold had seen this fold's targets**: few
  numbers are fitted to them, so little leaks, but some does. Means have no such leak.
* seconds: of a processor, for all folds of all members, the mean over the sets.
"""


@dataclass(frozen=True)
class Joined:
    """A row: what predicts together, and how.

    Attributes:
        title: Of the row.
        members: Names; the process first where there is one.
        how: ``"linear"`` and ``"rbf"``: the others are one more kernel of the process; ``"mean"``;
            ``"nnls"``: weights ≥ 0 of least squares; ``"convex"``: such of sum 1.
    """

    title: str
    members: tuple[str, ...]
    how: str = "mean"


Rows = Mapping[str, Joined]


def table_of(rows: Rows, sets: Sequence[str], folds: int, epochs: int) -> Table:
    """A column for each set, and the means."""
    return Table(
        "Joint models",
        [
            ("model", lambda runs: rows[runs[0]["model"]].title),
            ("networks", lambda runs: _networks(rows[runs[0]["model"]], runs, epochs)),
            *((name, _error(name)) for name in sets),
            ("sets", lambda runs: out_of(len(runs), len(sets))),
            ("beside the process", _beside),
            ("weights", _weights),
            ("seconds", lambda runs: f"{np.mean([run['seconds'] for run in runs]):.0f}"),
        ],
        lambda run: (list(rows).index(run["model"]),),
        LEGEND.format(folds=folds, epochs=epochs),
        which=lambda run: (list(sets).index(run["data"]),),
    )


def _error(name: str) -> Cell:
    def of_runs(runs: list[Record]) -> str:
        values = [run["rmse"] for run in runs if run["data"] == name]
        return f"{values[0]:.3f}" if values else "–"

    return of_runs


def _networks(row: Joined, runs: list[Record], whole: int) -> str:
    """How many there are, and their epochs, if the recipe has more."""
    if not {"wl", "stack"} & {*row.members}:
        return "–"
    counts = " or ".join(map(str, sorted({run["networks"] for run in runs})))
    epochs = runs[0].get("recipe", {}).get("epochs", whole)
    return counts if epochs == whole else f"{counts}, {epochs} of {whole} epochs"


def _beside(runs: list[Record]) -> str:
    return f"{np.exp(np.mean(np.log([run['beside_process'] for run in runs]))):.3f}"


def _weights(runs: list[Record]) -> str:
    """Means over the sets."""
    if runs[0]["weights"] is None:
        return "–"
    return " / ".join(f"{weight:.2f}" for weight in np.mean([run["weights"] for run in runs], axis=0))
