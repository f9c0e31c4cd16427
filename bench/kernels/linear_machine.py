"""Speed of the linear machine of classes beside scikit-learn's logistic regression on the same counts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race, Ratio, raced
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels import WLVectorizer
from wlkernelnn.machines import LinearMachine
from wlkernelnn.machines.linear import DEPTHS
from wlkernelnn.machines.penalties import FOLDS, PENALTIES

# For up to so many molecules.
GOAL, MOST = 1.3, 400
QUICK_MOLECULES = 60

LEGEND = f"""Molecules per second, from graphs to weights, on one thread.

* Molecules are drawn. Halves or thirds of them by the measured value are the classes; of three, each is told
  from the other two.
* Both count colours, and choose one of {len(DEPTHS)} depths and of {len(PENALTIES)} penalties by the log loss
  on {FOLDS} folds. Ours chooses a penalty for each class and the depth for all, and has equal molecules in
  one fold.
* scikit-learn: `LogisticRegressionCV` on the columns of `WLVectorizer`, which counts for each depth and fits
  the best penalty of each to all molecules; ours counts once, and fits that of the best depth. lbfgs with a
  tolerance of 1e-4 is its default; newton-cg with 1e-5 is what ours has for more than 400 training molecules.
  For up to so many ours solves for a number of each molecule.
"""

SOLVERS: dict[str, dict[str, Any]] = {
    "scikit-learn": {},
    "scikit-learn, newton-cg": {"solver": "newton-cg", "tol": 1e-5},
}


@dataclass
class LinearSpeedOptions(TableOptions):
    """What is measured, and where results go.

    Args:
        quick: Few molecules and one round: only to see that everything works.
        dataset: A published set of molecules with a number for a target.
        molecules: Numbers of training molecules.
        classes: Numbers of classes.
        rounds: Turns that count.
    """

    dataset: str = "chembl2321810"
    molecules: list[PositiveInt] = field(default_factory=lambda: [100, 200, 400, 800])
    classes: list[PositiveInt] = field(default_factory=lambda: [2, 3])
    rounds: PositiveInt = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quick:
            self.molecules, self.rounds = [QUICK_MOLECULES], 1


def fit(data: PackedGraphs) -> LinearMachine:
    with threadpool_limits(1):
        return LinearMachine().fit(data)


def fit_pipeline(data: PackedGraphs, y: np.ndarray, solver: str) -> list[tuple[WLVectorizer, Any]]:
    """Counting and logistic regression of the best depth, for class 1 or each of several."""
    each = [y == c for c in range(y.max() + 1)]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of defaults that will be others
        found: list[list[tuple[float, WLVectorizer, Any]]] = [[] for _ in each[len(each) == 2 :]]
        for depth in DEPTHS:
            vectorizer = WLVectorizer(depth, log=True)
            x = vectorizer.fit_transform(data)
            unit = x.multiply(x).sum() / len(y)
            for tried, labels in zip(found, each[len(each) == 2 :], strict=True):
                model = LogisticRegressionCV(
                    Cs=1 / (unit * np.array(PENALTIES)),
                    cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0),
                    scoring="neg_log_loss",
                    max_iter=1000,
                    **SOLVERS[solver],
                ).fit(x, labels)
                tried.append((float(np.mean(model.scores_[True], axis=0).max()), vectorizer, model))
    return [max(tried, key=lambda one: one[0])[1:] for tried in found]


def predicted(models: list[tuple[WLVectorizer, Any]], data: PackedGraphs) -> np.ndarray:
    """The most probable class of each molecule."""
    p = np.stack([model.predict_proba(counts.transform(data))[:, 1] for counts, model in models], axis=1)
    return classes_of(p)


def classes_of(p: np.ndarray) -> np.ndarray:
    """The most probable class, from probabilities of class 1 ``[n, 1]`` or of several ``[n, C]``."""
    return (p[:, 0] > 0.5).astype(int) if p.shape[1] == 1 else p.argmax(axis=1)


def measure(options: LinearSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    race = partial(raced, rounds=options.rounds, min_seconds=0.02)
    whole = load_molecules(options.dataset, split=None)
    known |= {"dataset": options.dataset, "rounds": options.rounds}
    order = np.random.default_rng(0).permutation(len(whole))
    value = whole.y[:, 0].numpy()
    for num_classes in options.classes:
        bounds = np.quantile(value, np.arange(1, num_classes) / num_classes)
        kind = np.searchsorted(bounds, value)
        names = tuple(f"part {c + 1}" for c in range(num_classes))
        task: dict[str, Any] = {"task": "classification"}
        if num_classes > 2:
            task = {"task": "multiclass", "classes": names}
        labelled = whole.with_targets(kind.astype(float), **task)
        for size in sorted(options.molecules):
            some, rest = order[:size], order[size:]
            data = labelled[some]
            what = f"{len(data):,} molecules, {num_classes} classes"
            ours = partial(fit, data)
            say(known, f"{what}, ours", classes_of(ours().predict(whole[rest])), kind[rest])
            for solver in SOLVERS:
                theirs = partial(fit_pipeline, data, kind[some], solver)
                yield race(what, solver, ours, theirs, size, GOAL if size <= MOST else None)
                say(known, f"{what}, {solver}", predicted(theirs(), whole[rest]), kind[rest])


def say(known: Known, whose: str, found: np.ndarray, y: np.ndarray) -> None:
    known[whose] = f"test accuracy {100 * accuracy_score(y, found):.1f} %"


TITLE, PACKAGES = "Speed of the linear machine of classes", ("scipy", "scikit-learn")
main = Race("linear-speed", __doc__, LinearSpeedOptions, TITLE, LEGEND, measure, PACKAGES).main
