"""Linear machines on the Weisfeiler-Lehman subtree kernel, chosen on the validation part."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC
from wlkernelnn.datasets.splits.parts import SplitIndex
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.machines.penalties import PENALTIES
from wlkernelnn.training import get_metric, score

from .molecules import fit_tasks

Record = dict[str, Any]
# A choice, Φ, how many machines were fitted, and their predictions for every part.
Candidate = tuple[Record, sparse.csr_array, int, dict[str, np.ndarray]]


def best_machine(
    data: PackedGraphs, split_idx: SplitIndex, num_iterations: Sequence[int]
) -> tuple[dict[str, np.ndarray], Record]:
    """The machine on the WL subtree kernel with the best score on ``valid``: logistic regression or ridge.

    Each target (NaN = missing) gets a machine, fitted to ``train``. For classes the features are log(1 + #),
    as one more of many atoms of a kind says little.

    Args:
        data: Graphs with targets, their task and metric.
        split_idx: Their parts.
        num_iterations: Of the kernel: those to choose from.

    Returns:
        Predictions of every part, ``[G, tasks]``; and the choice, the score on ``valid`` of everything that
        was tried, the number of colours of the training part, and of weights.
    """
    classes = data.task == "classification"
    metric = data.metric or DEFAULT_METRIC["classification" if classes else "regression"]
    sign = 1 if get_metric(metric).maximize else -1
    y = data.y[split_idx["valid"]].numpy()
    tried: list[Record] = []
    best: tuple[float, dict[str, np.ndarray], Record] | None = None
    for choice, features, machines, predictions in _candidates(data, split_idx, num_iterations):
        valid = score(metric, y, predictions["valid"])
        tried.append({**choice, "valid": valid})
        if best is None or sign * valid > best[0]:
            colours = len(np.unique(features[split_idx["train"]].indices))
            # Logistic regression has a constant beside them.
            weights = machines * (colours + classes)
            best = sign * valid, predictions, {"chosen": tried[-1], "colours": colours, "weights": weights}
    assert best is not None
    return best[1], best[2] | {"tried": tried}


def _candidates(
    data: PackedGraphs, split_idx: SplitIndex, num_iterations: Sequence[int]
) -> Iterator[Candidate]:
    train, index = data[split_idx["train"]], split_idx["train"]
    classes = data.task == "classification"
    lengths = (False,) if classes else (False, True)
    for depth, edge_labels, normalize in product(num_iterations, (False, True), lengths):
        features = WLSubtreeKernel(depth, edge_labels=edge_labels, normalize=normalize).features(data)
        if classes:
            features.data = np.log1p(features.data)
        # The mean of K(G, G).
        scale = float(features[index].multiply(features[index]).sum() / len(index))
        parts = [features[rows] for rows in split_idx.values()]
        choice = {"num_iterations": depth, "edge_labels": edge_labels}
        choice |= {} if classes else {"normalize": normalize}
        for penalty in PENALTIES:
            make = partial(_logistic if classes else _ridge, penalty * scale)
            models, predictions = fit_tasks(make, train, features[index], parts)
            found = dict(zip(split_idx, predictions, strict=True))
            yield choice | {"penalty": penalty}, features, len(models), found


def _ridge(penalty: float) -> BaseEstimator:
    """Ridge regression of the distances from the mean."""
    ridge = Ridge(penalty, fit_intercept=False, solver="sparse_cg", tol=1e-8)
    return TransformedTargetRegressor(ridge, transformer=StandardScaler(with_std=False))


def _logistic(penalty: float) -> BaseEstimator:
    return LogisticRegression(C=1 / penalty, solver="liblinear", max_iter=1000)


def ridge_baseline(data: PackedGraphs, split_idx: SplitIndex, degree: int) -> Record:
    """The record of :func:`best_machine`: RMSE and MAE of ``test``, and what was chosen and tried."""
    start = time.perf_counter()
    predictions, found = best_machine(data, split_idx, (degree,))
    y = data.y.numpy().astype(np.float64)
    test, mean = y[split_idx["test"]], y[split_idx["train"]].mean()
    return {
        "degree": degree,
        **{metric: score(metric, test, predictions["test"]) for metric in ("rmse", "mae")},
        "mean_rmse": score("rmse", test, np.full_like(test, mean)),
        **found,
        "seconds": time.perf_counter() - start,
    }


def fit_machine(split: Split, num_iterations: Sequence[int]) -> Fitted:
    """:func:`best_machine` of a split, as a method of :func:`~.molecule_runs.run_method`."""
    start = time.perf_counter()
    # Positions in the data that are looked at: a quick run leaves most out.
    used = np.concatenate(list(split.index.values()))
    ends = np.cumsum([len(index) for index in split.index.values()])
    index = dict(zip(split.index, np.split(np.arange(len(used)), ends[:-1]), strict=True))
    predictions, found = best_machine(split.data[used], index, num_iterations)
    return Fitted(predictions, found["weights"], time.perf_counter() - start, more=found)
