"""Linear machines on the Weisfeiler-Lehman subtree kernel, chosen on the validation part."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC
from wlkernelnn.datasets.graphs.splits import SplitIndex
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.training import get_metric, score

from .molecules import fit_tasks

# Penalties of the squared weights, in units of the mean of K(G, G) over the training part.
PENALTIES = tuple(10.0 ** (k / 2) for k in range(2, -7, -1))

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
    candidates = (_logistic if classes else _ridge)(data, split_idx, num_iterations)
    metric = data.metric or DEFAULT_METRIC["classification" if classes else "regression"]
    sign = 1 if get_metric(metric).maximize else -1
    y = data.y[split_idx["valid"]].numpy()
    tried: list[Record] = []
    best: tuple[float, dict[str, np.ndarray], Record] | None = None
    for choice, features, machines, predictions in candidates:
        valid = score(metric, y, predictions["valid"])
        tried.append({**choice, "valid": valid})
        if best is None or sign * valid > best[0]:
            colours = len(np.unique(features[split_idx["train"]].indices))
            # Logistic regression has a constant beside them.
            weights = machines * (colours + classes)
            best = sign * valid, predictions, {"chosen": tried[-1], "colours": colours, "weights": weights}
    assert best is not None
    return best[1], best[2] | {"tried": tried}


def _ridge(data: PackedGraphs, split_idx: SplitIndex, num_iterations: Sequence[int]) -> Iterator[Candidate]:
    y, train = data.y.numpy().astype(np.float64), split_idx["train"]
    known = ~np.isnan(y[train])
    mean = np.nan_to_num(data.y[train].double().nanmean(0).numpy())
    for depth, edge_labels, normalize in product(num_iterations, (False, True), (False, True)):
        kernel = WLSubtreeKernel(depth, edge_labels=edge_labels, normalize=normalize)
        features = kernel.features(data)
        scale = _scale(features[train])
        for penalty in PENALTIES:
            predicted = {part: np.tile(mean, (len(index), 1)) for part, index in split_idx.items()}
            for task in np.flatnonzero(known.any(0)):
                rows = train[known[:, task]]
                ridge = Ridge(penalty * scale, fit_intercept=False, solver="sparse_cg", tol=1e-8)
                ridge.fit(features[rows], y[rows, task] - mean[task])
                for part, index in split_idx.items():
                    predicted[part][:, task] += ridge.predict(features[index])
            choice = {"edge_labels": edge_labels, "normalize": normalize, "penalty": penalty}
            yield {"num_iterations": depth} | choice, features, int(known.any(0).sum()), predicted


def _logistic(
    data: PackedGraphs, split_idx: SplitIndex, num_iterations: Sequence[int]
) -> Iterator[Candidate]:
    train = data[split_idx["train"]]
    for depth, edge_labels in product(num_iterations, (False, True)):
        features = WLSubtreeKernel(depth, edge_labels=edge_labels).features(data)
        features.data = np.log1p(features.data)
        scale = _scale(features[split_idx["train"]])
        parts = [features[index] for index in split_idx.values()]
        for penalty in PENALTIES:
            make = partial(LogisticRegression, C=1 / (penalty * scale), solver="liblinear", max_iter=1000)
            models, predictions = fit_tasks(make, train, features[split_idx["train"]], parts)
            choice = {"num_iterations": depth, "edge_labels": edge_labels, "penalty": penalty}
            yield choice, features, len(models), dict(zip(split_idx, predictions, strict=True))


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


def _scale(features: sparse.csr_array) -> float:
    """The mean of K(G, G)."""
    return float(features.multiply(features).sum() / features.shape[0])
