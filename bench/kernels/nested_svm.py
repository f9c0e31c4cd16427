"""Support vector machines on Weisfeiler-Lehman kernels, in nested cross-validation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel

KERNELS = ("WL subtree", "vertex histogram")
DEPTHS = tuple(range(7))
CS = tuple(10.0**k for k in range(-3, 4))
OUTER_FOLDS = 10
INNER_FOLDS = 5
# Where a support vector machine gives up: a few seconds on 4,000 graphs.
MAX_ITER = 1_000_000

Record = dict[str, Any]


def wl_grams(data: PackedGraphs) -> list[np.ndarray]:
    """Normalised Gram matrix ``[G, G]`` of every depth, by node labels only."""
    return [WLSubtreeKernel(depth, edge_labels=False, normalize=True).gram(data) for depth in DEPTHS]


def count_right(
    gram: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, Cs: Sequence[float]
) -> tuple[np.ndarray, int]:
    """How many graphs of ``test`` a machine fitted on ``train`` gets right, for every C; and how many
    machines gave up after ``MAX_ITER`` iterations.
    """
    inside, across = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
    right, given_up = [], 0
    for C in Cs:
        machine = SVC(kernel="precomputed", C=C, max_iter=MAX_ITER).fit(inside, y[train])
        right.append((machine.predict(across) == y[test]).sum())
        given_up += int(machine.fit_status_ != 0)
    return np.array(right), given_up


def nested_fold(
    grams: Sequence[np.ndarray], y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> Record:
    """Choose depth and C by cross-validation inside ``train``, fit on it, and look at ``test`` once.

    Args:
        grams: ``[G, G]`` of every depth.
        y: Classes ``[G]``.
        train, test: Indices of the outer fold.
        seed: Of the inner folds.
    """
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    right, given_up = np.zeros((len(grams), len(CS)), dtype=np.int64), 0
    for fitted, held_out in inner.split(train, y[train]):
        for depth, gram in enumerate(grams):
            counts, stopped = count_right(gram, y, train[fitted], train[held_out], CS)
            right[depth] += counts
            given_up += stopped
    record: Record = {}
    for kernel, depths in zip(KERNELS, (len(grams), 1), strict=True):
        depth, c = divmod(int(right[:depths].argmax()), len(CS))
        counts, stopped = count_right(grams[depth], y, train, test, [CS[c]])
        record[kernel] = {"right": int(counts[0]), "depth": DEPTHS[depth], "C": CS[c]}
        given_up += stopped
    return record | {"given_up": given_up}


def cross_validate(grams: Sequence[np.ndarray], y: np.ndarray, seed: int, n_jobs: int) -> Record:
    """One repetition: accuracy of each kernel over all outer folds, and what was chosen in them."""
    start = time.perf_counter()
    outer = StratifiedKFold(OUTER_FOLDS, shuffle=True, random_state=seed)
    # libsvm works without the interpreter's lock: threads share the Grams.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # those that gave up are counted
        folds = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(nested_fold)(grams, y, train, test, seed) for train, test in outer.split(y, y)
        )
    record: Record = {
        "given_up": sum(fold["given_up"] for fold in folds),
        "seconds": time.perf_counter() - start,
    }
    for kernel in KERNELS:
        chosen = {key: [fold[kernel][key] for fold in folds] for key in ("depth", "C")}
        record[kernel] = {"accuracy": sum(fold[kernel]["right"] for fold in folds) / len(y), **chosen}
    return record
