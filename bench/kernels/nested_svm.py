"""Support vector machines on kernels of counts, in nested cross-validation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import CountKernel, PathKernel, ShortestPathKernel, WLSubtreeKernel

CS = tuple(10.0**k for k in range(-3, 4))
OUTER_FOLDS = 10
INNER_FOLDS = 5
# Where a support vector machine gives up: a few seconds on 4,000 graphs.
MAX_ITER = 1_000_000

Record = dict[str, Any]
# Iterations, the largest distance (None: any), or nodes of a path.
Setting = int | None


@dataclass(frozen=True)
class Family:
    """Kernels that differ in one setting, which each row of the table chooses for itself.

    Attributes:
        kernel: The kernel of a setting. Node labels only.
        rows: By the row's name, the settings it chooses from, those preferred among equally good ones first.
            The first row has all.
    """

    kernel: Callable[[Any], CountKernel]
    rows: Mapping[str, tuple[Setting, ...]]

    @property
    def name(self) -> str:
        """The name of the first row."""
        return next(iter(self.rows))

    def grams(self, data: PackedGraphs) -> dict[Setting, np.ndarray]:
        """The Gram matrix ``[G, G]`` of every setting."""
        return {setting: self.kernel(setting).gram(data) for setting in self.rows[self.name]}


DEPTHS = tuple(range(7))
FAMILIES = {
    "wl": Family(
        lambda depth: WLSubtreeKernel(depth, edge_labels=False, normalize="cosine"),
        {"WL subtree": DEPTHS, "vertex histogram": DEPTHS[:1]},
    ),
    "wl-minmax": Family(
        lambda depth: WLSubtreeKernel(depth, edge_labels=False, normalize="minmax"),
        {"WL min-max": DEPTHS},
    ),
    "shortest-paths": Family(
        lambda distance: ShortestPathKernel(distance, normalize="minmax"),
        {"shortest paths": (1, 2, 3, 4, 6, None)},
    ),
    "paths": Family(
        lambda length: PathKernel(length, edge_labels=False, normalize="minmax"),
        {"paths": (2, 3, 4, 5, 6)},
    ),
}


def count_right(
    gram: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, Cs: Sequence[float]
) -> tuple[np.ndarray, int]:
    """How many graphs of ``test`` a machine fitted on ``train`` gets right, for every C in ascending order;
    and how many machines gave up after ``MAX_ITER`` iterations.
    """
    inside, across = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
    right: list[int] = []
    given_up, is_settled = 0, False
    for C in Cs:
        if is_settled:
            right.append(right[-1])
            continue
        machine = SVC(kernel="precomputed", C=C, max_iter=MAX_ITER).fit(inside, y[train])
        right.append(int((machine.predict(across) == y[test]).sum()))
        given_up += int(machine.fit_status_ != 0)
        # A solution with every weight below its bound C solves the problem of every greater C as well.
        is_settled = machine.fit_status_ == 0 and np.abs(machine.dual_coef_).max() < C
    return np.array(right), given_up


def nested_fold(
    grams: Mapping[Setting, np.ndarray],
    rows: Mapping[str, tuple[Setting, ...]],
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
) -> Record:
    """Choose setting and C by cross-validation inside ``train``, fit on it, and look at ``test`` once.

    Args:
        grams: ``[G, G]`` of every setting.
        rows: See :class:`Family`.
        y: Classes ``[G]``.
        train, test: Indices of the outer fold.
        seed: Of the inner folds.
    """
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    right, given_up = {setting: np.zeros(len(CS), dtype=np.int64) for setting in grams}, 0
    for fitted, held_out in inner.split(train, y[train]):
        for setting, gram in grams.items():
            counts, stopped = count_right(gram, y, train[fitted], train[held_out], CS)
            right[setting] += counts
            given_up += stopped
    record: Record = {}
    for row, settings in rows.items():
        best, c = divmod(int(np.argmax([right[setting] for setting in settings])), len(CS))
        counts, stopped = count_right(grams[settings[best]], y, train, test, [CS[c]])
        record[row] = {"right": int(counts[0]), "setting": settings[best], "C": CS[c]}
        given_up += stopped
    return record | {"given_up": given_up}


def cross_validate(
    grams: Mapping[Setting, np.ndarray],
    rows: Mapping[str, tuple[Setting, ...]],
    y: np.ndarray,
    seed: int,
    n_jobs: int,
) -> Record:
    """One repetition: accuracy of each row over all outer folds, and what was chosen in them."""
    start = time.perf_counter()
    outer = StratifiedKFold(OUTER_FOLDS, shuffle=True, random_state=seed)
    # libsvm works without the interpreter's lock: threads share the Grams.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # those that gave up are counted
        folds = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(nested_fold)(grams, rows, y, train, test, seed) for train, test in outer.split(y, y)
        )
    record: Record = {
        "given_up": sum(fold["given_up"] for fold in folds),
        "seconds": time.perf_counter() - start,
    }
    for row in rows:
        chosen = {key: [fold[row][key] for fold in folds] for key in ("setting", "C")}
        record[row] = {"accuracy": sum(fold[row]["right"] for fold in folds) / len(y), **chosen}
    return record
