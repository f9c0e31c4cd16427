"""Ridge regression on the Weisfeiler-Lehman subtree kernel, chosen on the validation part."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.splits import SplitIndex
from wlkernelnn.kernels.wl_subtree import WLSubtreeKernel
from wlkernelnn.training import score

# Penalties of ridge regression, in units of the mean of K(G, G).
PENALTIES = tuple(10.0 ** (k / 2) for k in range(2, -7, -1))

Record = dict[str, Any]


def best_ridge(
    data: PackedGraphs, split_idx: SplitIndex, degree: int
) -> tuple[dict[str, np.ndarray], Record]:
    """Ridge regression on the WL subtree kernel of a degree, with the choices that are best on ``valid``.

    Args:
        data: Graphs with one target.
        split_idx: Their parts; only ``train`` is fitted.
        degree: Iterations.

    Returns:
        Predictions of every part, ``[G, 1]``; and what was chosen, the RMSE of ``valid`` of everything that
        was tried, and the number of colours of the training part, which is that of the weights.
    """
    y = data.y.numpy().astype(np.float64)
    train, valid = split_idx["train"], split_idx["valid"]
    mean = y[train].mean()
    tried: list[Record] = []
    best: tuple[Record, dict[str, np.ndarray], int] | None = None
    for edge_labels, normalize in product((False, True), (False, True)):
        kernel = WLSubtreeKernel(degree, edge_labels=edge_labels, normalize=normalize)
        features = kernel.features(data)
        scale = features.multiply(features).sum() / len(data)
        for penalty in PENALTIES:
            ridge = Ridge(penalty * scale, fit_intercept=False, solver="sparse_cg", tol=1e-8)
            ridge.fit(features[train], y[train, 0] - mean)
            rmse = score("rmse", y[valid], ridge.predict(features[valid])[:, None] + mean)
            record = {"edge_labels": edge_labels, "normalize": normalize, "penalty": penalty, "valid": rmse}
            tried.append(record)
            if best is None or rmse < best[0]["valid"]:
                predictions = {
                    part: ridge.predict(features[index])[:, None] + mean for part, index in split_idx.items()
                }
                best = record, predictions, len(np.unique(features[train].indices))
    assert best is not None
    chosen, predictions, colours = best
    return predictions, {"chosen": chosen, "tried": tried, "colours": colours}


def ridge_baseline(data: PackedGraphs, split_idx: SplitIndex, degree: int) -> Record:
    """The record of :func:`best_ridge`: RMSE and MAE of ``test``, and what was chosen and tried."""
    start = time.perf_counter()
    predictions, found = best_ridge(data, split_idx, degree)
    y = data.y.numpy().astype(np.float64)
    test, mean = y[split_idx["test"]], y[split_idx["train"]].mean()
    return {
        "degree": degree,
        **{metric: score(metric, test, predictions["test"]) for metric in ("rmse", "mae")},
        "mean_rmse": score("rmse", test, np.full_like(test, mean)),
        **found,
        "seconds": time.perf_counter() - start,
    }
