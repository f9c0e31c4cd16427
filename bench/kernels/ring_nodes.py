"""Rings as nodes in the kernels of molecules: leave-one-out errors with and without, on training parts."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import root_mean_squared_error as rmse

from wlkernelnn.bench.harness.cells import Cell, Record, out_of
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import ProcessorOptions, chosen, kept
from wlkernelnn.bench.molecules.moleculeace_table import DEVELOPMENT, FOLDER
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels import MoleculeKernel
from wlkernelnn.machines import GaussianProcess
from wlkernelnn.machines.parts import kernels_of

#: The features by the name of the column.
FEATURES = {"without": "ogb+invariants", "with": "ogb+invariants+ring_nodes"}
# Sets of a quick run, and their molecules.
QUICK, ROWS = 2, 60
SETS = ("esol", "freesolv", *DEVELOPMENT)
SIX = MoleculeKernel().parts
#: Titles and kernels of the rows.
MODELS: dict[str, tuple[str, Kernel]] = {
    "wl-ogb": ("WL, OGB's columns, h = 2", SIX[0]),
    "wl-element": ("WL, elements, h = 3", SIX[1]),
    "wl-ecfp": ("WL, invariants of ECFP, h = 3", SIX[2]),
    "wl-fcfp": ("WL, invariants of FCFP, h = 2", SIX[3]),
    "four": ("sum of these four", reduce(operator.add, SIX[:4])),
    "eight": ("sum of the eight of the kernel machine", reduce(operator.add, kernels_of("kernels"))),
}
LEGEND = f"""* RMSE of leave-one-out, in closed form, **on training parts alone**: no other part is read.
  ESOL's and FreeSolv's are those of the random split with seed 0; the means are over the twelve smallest sets
  of MoleculeACE ({", ".join(DEVELOPMENT)}).
* All kernels are min-max kernels of a Gaussian process; in a sum each has an amplitude of its own. Ring nodes
  ("+ring_nodes") are seen by WL colours; the kernels of pairs and paths in the sum of eight leave them out.
* lower: on how many of the sets, ESOL and FreeSolv included, the error is lower with ring nodes. ratio: the
  geometric mean over the sets of the errors with ring nodes divided by those without.
"""


def _error(features: str, sets: tuple[str, ...]) -> Cell:
    """The mean over some sets."""

    def of_runs(runs: list[Record]) -> str:
        values = [run["left_out_rmse"][features] for run in runs if run["data"] in sets]
        return f"{np.mean(values):.4f}" if values else "–"

    return of_runs


def ratios(runs: list[Record]) -> np.ndarray:
    """Errors with ring nodes divided by those without, of each set."""
    return np.array([run["left_out_rmse"]["with"] / run["left_out_rmse"]["without"] for run in runs])


TABLE = Table(
    "Rings as nodes",
    [
        ("kernel", lambda runs: MODELS[runs[0]["model"]][0]),
        *(
            (f"{title}, {name} ring nodes", _error(name, sets))
            for title, sets in (("ESOL", SETS[:1]), ("FreeSolv", SETS[1:2]), ("MoleculeACE", DEVELOPMENT))
            for name in FEATURES
        ),
        ("sets", lambda runs: out_of(len(runs), len(SETS))),
        ("lower", lambda runs: f"{(ratios(runs) < 1).sum()} of {len(runs)}"),
        ("ratio", lambda runs: f"{np.exp(np.log(ratios(runs)).mean()):.4f}"),
    ],
    lambda run: (list(MODELS).index(run["model"]),),
    LEGEND,
    which=lambda run: (SETS.index(run["data"]),),
)


@dataclass
class RingNodesOptions(ProcessorOptions):
    """What is computed, and where results go.

    Args:
        sets: Which sets; by default all.
        quick: A few molecules of two sets: only to see that everything works.
    """

    run_dir: Path = Path("runs/ring_nodes")
    sets: list[str] | None = None


def pages(options: RingNodesOptions) -> Iterator[Page]:
    """The table of all sets."""
    names = chosen("sets", options.sets, SETS)[: QUICK if options.quick else None]
    models = chosen("models", options.models, MODELS)
    parts = {name: training_parts(name, options) for name in names}
    contents = {name: part["with"].digest() for name, part in parts.items()}
    runs = [partial(evaluate, model, name, parts[name]) for name in names for model in models]
    yield Page(TABLE, runs, same_data=on_same_data("data", contents))


def training_parts(name: str, options: RingNodesOptions) -> dict[str, PackedGraphs]:
    """The training part of a set, by the name of the column."""
    source = FOLDER + name if name in DEVELOPMENT else name
    parts = {}
    for column, features in FEATURES.items():
        data = load_molecules(source, options.root, features=features)
        assert data.split_idx is not None
        parts[column] = data[data.split_idx["train"][: ROWS if options.quick else None]]
    return parts


def evaluate(
    model: str, name: str, parts: dict[str, PackedGraphs], options: RingNodesOptions, known: Record
) -> Record:
    """The leave-one-out errors of a kernel on a set, with and without ring nodes."""
    content = parts["with"].digest()

    def fit() -> Record:
        start = time.process_time()
        errors = {}
        for column, part in parts.items():
            y = part.y[:, 0].double().numpy()
            means, _ = GaussianProcess(MODELS[model][1]).fit(part, y).leave_one_out()
            errors[column] = float(rmse(y, means))
        return {
            "model": model,
            "data": name,
            "content": content,
            "molecules": len(parts["with"]),
            "left_out_rmse": errors,
            "seconds": time.process_time() - start,
            **{"epochs": 0, "stopped": True},
            **known,
        }

    return kept(options.folder(f"{name}_{content[:8]}", model), 0, fit, known)


main = Experiment("ring-nodes", __doc__, RingNodesOptions, pages, ("scikit-learn", "scipy")).main
