"""Gaussian processes on exact kernels on the 30 sets of MoleculeACE, beside forests and published figures."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import root_mean_squared_error as rmse

from wlkernelnn.bench.baselines.molecules import random_forest
from wlkernelnn.bench.baselines.regressors import sklearn_process, support_vectors
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.runs import on_same_data
from wlkernelnn.bench.harness.trained import ProcessorOptions, chosen, kept
from wlkernelnn.datasets import MOLECULE_SETS, PackedGraphs, load_molecules, read_table
from wlkernelnn.datasets.files.download import require_file
from wlkernelnn.kernels import DescriptorKernel, MoleculeKernel, PathKernel, ShortestPathKernel
from wlkernelnn.machines import GaussianProcess

from .moleculeace_table import BEST, FOLDER, SIZES, draw, published, table_of

FEATURES = "ogb+invariants+descriptors"
# Sets of a quick run, and rows of their parts.
QUICK, ROWS = 2, {"train": 80, "test": 30}

# From the training and the test part: means and, if the method has them, deviations and leave-one-out.
Method = Callable[[PackedGraphs, PackedGraphs], tuple[Any, ...]]


def process(kernel: Kernel, train: PackedGraphs, test: PackedGraphs) -> tuple[Any, ...]:
    """Our Gaussian process on a kernel."""
    machine = GaussianProcess(kernel).fit(train, train.y[:, 0].numpy())
    return *machine.predict(test, return_std=True), machine.leave_one_out


def forest(train: PackedGraphs, test: PackedGraphs) -> tuple[np.ndarray]:
    """A random forest on Morgan counts."""
    return (random_forest(train, test).prediction[:, 0],)


SIX = MoleculeKernel().parts
PAIRS = ShortestPathKernel(normalize="minmax", coding="fcfp")
PATHS = PathKernel(6, normalize="minmax", coding="ogb")
EIGHT = reduce(operator.add, [*SIX, PAIRS, PATHS])
#: Titles and methods of the rows.
MODELS: dict[str, tuple[str, Method]] = {
    "wl-ogb": ("WL, OGB's columns, h = 2", partial(process, SIX[0])),
    "wl-element": ("WL, elements, h = 3", partial(process, SIX[1])),
    "wl-ecfp": ("WL, invariants of ECFP, h = 3", partial(process, SIX[2])),
    "wl-fcfp": ("WL, invariants of FCFP, h = 2", partial(process, SIX[3])),
    "pairs": ("atom pairs", partial(process, SIX[4])),
    "paths": ("paths of 4 atoms", partial(process, SIX[5])),
    "six": ("mean of the six (`MoleculeKernel`)", partial(process, MoleculeKernel())),
    "eight": ("sum of eight parts", partial(process, EIGHT)),
    "descriptors": ("descriptors", partial(process, DescriptorKernel())),
    "all": ("sum of eight parts and descriptors", partial(process, EIGHT + DescriptorKernel())),
    "sklearn": ("mean of the six, scikit-learn's process", sklearn_process),
    "svr": ("support vector machine, ECFP", support_vectors),
    "forest": ("random forest, Morgan counts", forest),
}
TABLE = table_of({name: title for name, (title, _) in MODELS.items()})
#: Labels and markers of the rows in the picture.
SHOWN = {
    "all": ("sum of eight parts and descriptors", "o"),
    "forest": ("random forest", "x"),
    BEST: ("best published method for the set", "_"),
}


@dataclass
class MoleculeAceOptions(ProcessorOptions):
    """What is computed, and where results go.

    Args:
        sets: Which sets, such as CHEMBL204_Ki; by default all.
        quick: A few rows of two sets: only to see that everything works.
    """

    run_dir: Path = Path("runs/moleculeace")
    sets: list[str] | None = None


def pages(options: MoleculeAceOptions) -> Iterator[Page]:
    """The table of all sets."""
    models = chosen("models", options.models, MODELS)
    names = chosen("sets", options.sets, SIZES)[: QUICK if options.quick else None]
    stores = {name: load_molecules(FOLDER + name, options.root, features=FEATURES) for name in names}
    contents = {name: store.digest() for name, store in stores.items()}
    least, records = published(options.root)
    runs = [partial(_published, record) for record in records]
    runs += [partial(_run, model, name, stores[name], least.get(name)) for name in names for model in models]
    yield Page(TABLE, runs, same_data=on_same_data("data", contents), draw=partial(draw, SHOWN))


def _published(record: Record, _: MoleculeAceOptions, known: Record) -> Record:
    return known | record


def _run(
    model: str, name: str, data: PackedGraphs, least: float | None, options: MoleculeAceOptions, known: Record
) -> Record:
    """The record of a row on a set, which is kept, beside the least published error."""
    assert data.split_idx is not None
    rows = {part: data.split_idx[part][: most if options.quick else None] for part, most in ROWS.items()}
    spec = MOLECULE_SETS[FOLDER + name]
    on_cliff = read_table(require_file(spec.file, options.root, spec.source), ["cliff_mol"])["cliff_mol"]
    cliff = on_cliff.to_numpy(float)[data.row.numpy()[rows["test"]]] == 1
    content = data.digest()

    def fit() -> Record:
        train, test = data[rows["train"]], data[rows["test"]]
        start = time.process_time()
        mean, std, left_out = (*MODELS[model][1](train, test), None, None)[:3]
        seconds = time.process_time() - start
        y = test.y[:, 0].double().numpy()
        return {
            "model": model,
            "data": name,
            "content": content,
            "counts": {part: len(index) for part, index in rows.items()},
            "rmse": float(rmse(y, mean)),
            "cliff_rmse": float(rmse(y[cliff], mean[cliff])) if cliff.any() else None,
            "covered": None if std is None else float(np.mean(abs(mean - y) <= norm.ppf(0.95) * std)),
            "left_out_rmse": None if left_out is None else float(rmse(train.y[:, 0], left_out()[0])),
            "seconds": seconds,
            **{"epochs": 0, "stopped": True},
            **known,
        }

    return kept(options.folder(f"{name}_{content}", model), 0, fit, known) | {"published": least}


main = Experiment("moleculeace", __doc__, MoleculeAceOptions, pages, ("scikit-learn", "scipy")).main
