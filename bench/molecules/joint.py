"""Kernel machines joined with networks or trees, compared by cross-validation on training parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.metrics import root_mean_squared_error as rmse
from sklearn.model_selection import KFold

from wlkernelnn.bench.baselines.molecules import fingerprints
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.runs import on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, kept
from wlkernelnn.datasets import PackedGraphs, featurize, load_molecules
from wlkernelnn.machines import GaussianProcess
from wlkernelnn.machines.known import KnownGram
from wlkernelnn.machines.parts import FEATURES, kernels_of, summed
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions, fit, predict

from .joint_table import Joined, Rows, table_of
from .moleculenet import STACK

FOLDS = 5
RECIPE = FitOptions(epochs=40, lr=2e-3, ema_decay=0.99)
NETWORKS: dict[str, tuple[type[GraphNetwork], dict[str, Any]]] = {
    "wl": (GraphKernelNetwork, {"dropout": 0.1}),
    "stack": (KernelStackNetwork, STACK),
}
TREES: dict[str, Any] = {
    "hgb": HistGradientBoostingRegressor(),
    "trees": ExtraTreesRegressor(300, max_features=0.3),
}
#: Data set and how many of its training molecules are drawn, by the name of the column.
SETS: dict[str, tuple[str, int | None]] = {
    "esol": ("esol", None),
    "freesolv": ("freesolv", None),
    "CHEMBL2835_Ki": ("moleculeace/CHEMBL2835_Ki", None),
    "CHEMBL2047_EC50": ("moleculeace/CHEMBL2047_EC50", None),
    "CHEMBL4203_Ki": ("moleculeace/CHEMBL4203_Ki", None),
    "cep-1000": ("cep", 1000),
    "cep-4000": ("cep", 4000),
}
#: Titles, members, and how they are joined: see :class:`Joined`.
MODELS: Rows = {
    "gp": Joined("process", ("gp",)),
    "hgb": Joined("boosted trees", ("hgb",)),
    "trees": Joined("extremely randomised trees", ("trees",)),
    "wl": Joined("WL kernel network", ("wl",)),
    "stack": Joined("deep kernel stack", ("stack",)),
    "wl+stack": Joined("both networks", ("wl", "stack"), "mean"),
    "gp+wl-linear": Joined("process with a linear kernel of the WL network", ("gp", "wl"), "linear"),
    "gp+wl-rbf": Joined("process with an RBF kernel of the WL network", ("gp", "wl"), "rbf"),
    "gp+wl-nnls": Joined("process and WL network, weights ≥ 0", ("gp", "wl"), "nnls"),
    "gp+wl-convex": Joined("process and WL network, weights ≥ 0 of sum 1", ("gp", "wl"), "convex"),
    "gp+wl": Joined("process and WL network, mean", ("gp", "wl"), "mean"),
    "gp+stack-linear": Joined("process with a linear kernel of the stack", ("gp", "stack"), "linear"),
    "gp+stack-convex": Joined("process and stack, weights ≥ 0 of sum 1", ("gp", "stack"), "convex"),
    "gp+stack": Joined("process and stack, mean", ("gp", "stack"), "mean"),
    "gp+hgb": Joined("process and boosted trees, weights ≥ 0 of sum 1", ("gp", "hgb"), "convex"),
    "gp+trees": Joined("process and randomised trees, weights ≥ 0 of sum 1", ("gp", "trees"), "convex"),
    "gp+wl+stack": Joined("process and both networks, weights ≥ 0 of sum 1", ("gp", "wl", "stack"), "convex"),
    "gp+wl+trees": Joined(
        "process, WL network and randomised trees, weights ≥ 0 of sum 1", ("gp", "wl", "trees"), "convex"
    ),
}
TABLE = table_of(MODELS, tuple(SETS), FOLDS, RECIPE.epochs)


@dataclass
class JointOptions(TrainedOptions):
    """What is computed, and where results go.

    Args:
        sets: Which columns; by default all.
        seeds: Networks of each fold, which predict by their mean.
        quick: One epoch, a few rows of one set: only to see that everything works.
    """

    run_dir: Path = Path("runs/joint")
    sets: list[str] | None = None


def pages(options: JointOptions) -> Iterator[Page]:
    """The table of all sets."""
    names = chosen("sets", options.sets, SETS)[: 1 if options.quick else None]
    models = chosen("models", options.models, MODELS)
    problems = {name: Problem(name, options) for name in names}
    contents = {name: problem.data.digest() for name, problem in problems.items()}
    runs = [partial(problem.record, model) for problem in problems.values() for model in models]
    yield Page(TABLE, runs, same_data=on_same_data("data", contents))


class Problem:
    """A training part: every molecule is predicted by what was fitted to the other folds."""

    def __init__(self, name: str, options: JointOptions) -> None:
        self.name, self.options = name, options
        source, most = SETS[name]
        self.data = training_part(source, 60 if options.quick else most, options.root)
        self.y = self.data.y[:, 0].double().numpy()
        folds = KFold(FOLDS, shuffle=True, random_state=0)
        self.folds = [fold for _, fold in folds.split(self.y)]

    @cached_property
    def grams(self) -> list[np.ndarray]:
        """Of the eight kernels and of the descriptors, ``[n, n]`` each."""
        *kernels, descriptors = kernels_of("both")
        # Ranks of descriptors are taken over all rows; no target is used.
        return [*(kernel.gram(self.data) for kernel in kernels), descriptors.fit(self.data)(self.data)]

    @cached_property
    def columns(self) -> np.ndarray:
        """What trees see: Morgan counts and the descriptors, ``[n, columns]``."""
        values = self.data.arrays.graph_x.numpy()[self.data.index]
        return np.hstack([fingerprints(self.data), np.nan_to_num(values, posinf=0, neginf=0)])

    def record(self, model: str, options: JointOptions, known: Record) -> Record:
        """The record of a row: its error in cross-validation, and beside that of the process."""
        row = MODELS[model]
        process = self.member("gp", known)
        members = [self.member(member, known) for member in row.members]
        start = time.process_time()
        each = np.array([member["prediction"] for member in members])
        weights = None
        if row.how in ("linear", "rbf"):
            prediction = self.process(each[1:], row.how)
        else:
            prediction, weights = joined(each, self.y, self.folds, row.how)
        return {
            "model": model,
            "data": self.name,
            "content": self.data.digest(),
            "molecules": len(self.y),
            "networks": len(options.all_seeds),
            "recipe": asdict(self.recipe(0)) if {*row.members} & {*NETWORKS} else {},
            "rmse": (error := float(rmse(self.y, prediction))),
            "beside_process": error / float(rmse(self.y, process["prediction"])),
            "weights": weights,
            "seconds": time.process_time() - start + sum(member["seconds"] for member in members),
            **known,
        }

    def member(self, member: str, known: Record) -> Record:
        """Predictions of all folds, and seconds; of networks the mean over the seeds."""
        seeds = self.options.all_seeds if member in NETWORKS else range(1)
        records = [self.kept(member, seed, partial(self.predicted, member, seed), known) for seed in seeds]
        return {
            "prediction": np.mean([record["prediction"] for record in records], axis=0),
            "seconds": sum(record["seconds"] for record in records),
        }

    def predicted(self, member: str, seed: int) -> np.ndarray:
        """Predictions of one member, ``[n]``."""
        if member == "gp":
            return self.process(np.zeros((0, len(self.y))), "linear")
        return self.by_folds(partial(self.network if member in NETWORKS else self.trees, member, seed))

    def kept(self, member: str, seed: int, compute: Callable[[], np.ndarray], known: Record) -> Record:
        def run() -> Record:
            start = time.process_time()
            prediction = compute().tolist()
            seconds = time.process_time() - start
            return {"prediction": prediction, "seconds": seconds, "epochs": 0, "stopped": True, **known}

        name = f"{member}_{seed}"
        if member in NETWORKS:
            recipe = self.recipe(seed)
            name = f"{recipe.epochs}_epochs_{recipe.matmul_precision}_{name}"
        folder = self.options.folder(f"{self.name}_{self.data.digest()[:8]}", name)
        return kept(folder, 0, run, known)

    def by_folds(self, fit_one: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Predictions ``[n]``, from one that fits to some rows and predicts others."""
        prediction = np.empty(len(self.y))
        for fold in self.folds:
            prediction[fold] = fit_one(np.setdiff1d(np.arange(len(self.y)), fold), fold)
        return prediction

    def process(self, more: np.ndarray, how: str) -> np.ndarray:
        """Of the process on all kernels, and on one kernel of each row of further predictions ``[k, n]``."""
        deviations = (more - more.mean(axis=1, keepdims=True)) / more.std(axis=1, keepdims=True)
        further = {
            "linear": lambda z: np.outer(z, z),
            "rbf": lambda z: np.exp(-0.5 * np.subtract.outer(z, z) ** 2),
        }
        kernel = summed([*map(KnownGram, self.grams), *(KnownGram(further[how](z)) for z in deviations)])
        return self.by_folds(
            lambda train, test: np.asarray(GaussianProcess(kernel).fit(train, self.y[train]).predict(test))
        )

    def trees(self, name: str, seed: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = TREES[name].set_params(random_state=seed).fit(self.columns[train], self.y[train])
        return np.asarray(model.predict(self.columns[test]))

    def recipe(self, seed: int) -> FitOptions:
        """How the networks of a seed are trained."""
        return replace(RECIPE, epochs=self.options.limit(RECIPE.epochs), **self.options.of_run(seed))

    def network(self, name: str, seed: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """After the last epoch: no molecule chooses one."""
        kind, arguments = NETWORKS[name]
        torch.manual_seed(seed)
        network = kind.from_data(self.data[train], **arguments)
        fit(network, self.data[train], None, self.recipe(seed), progress=False)
        return predict(network, self.data[test])[:, 0].astype(np.float64)


def training_part(name: str, most: int | None, root: str | None) -> PackedGraphs:
    """The training part of a set, or some of it, drawn, with what kernels and networks see."""
    data = load_molecules(name, root)
    assert data.split_idx is not None
    rows = np.random.default_rng(0).permutation(data.split_idx["train"])[:most]
    part = data[np.sort(rows)]
    described, _ = featurize(part.smiles, features=FEATURES)
    return described.with_targets(part.y, **part.description.of_set())


def joined(
    each: np.ndarray, y: np.ndarray, folds: Sequence[np.ndarray], how: str
) -> tuple[np.ndarray, list[float] | None]:
    """Predictions of members ``[k, n]`` joined, each fold by weights of the others; and the mean weights."""
    if how == "mean":
        return each.mean(axis=0), None
    prediction, weights = np.empty(len(y)), []
    for fold in folds:
        others = np.setdiff1d(np.arange(len(y)), fold)
        centre = y[others].mean()
        weight = shares_of(each[:, others] - centre, y[others] - centre, how)
        prediction[fold] = centre + weight @ (each[:, fold] - centre)
        weights.append(weight)
    return prediction, np.mean(weights, axis=0).tolist()


def shares_of(each: np.ndarray, y: np.ndarray, how: str) -> np.ndarray:
    """The weights ≥ 0 of the least squared error; ``"convex"``: those of sum 1."""
    if how == "nnls":
        return np.asarray(nnls(each.T, y)[0])
    # A row of large numbers for the sum.
    large = 1e4 * np.linalg.norm(y)
    return np.asarray(nnls(np.vstack([each.T, np.full(len(each), large)]), np.append(y, large))[0])


main = Experiment("joint", __doc__, JointOptions, pages, ("scikit-learn", "scipy")).main
