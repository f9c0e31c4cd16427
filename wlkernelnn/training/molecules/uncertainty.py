"""How far predicted deviations can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from .metrics import rank_correlation

#: Parts of the molecules, by their predicted deviation.
NUM_BINS = 5


def calibration(target: ArrayLike, mean: ArrayLike, std: ArrayLike) -> dict[str, np.ndarray]:
    r"""How far predicted deviations can be trusted, of every task.

    Args:
        target: ``[G, tasks]``, NaN = missing.
        mean, std: Predictions and their standard deviations, ``[G, tasks]``, NaN = missing.

    Returns:
        ``coverage_50``, …: the share of targets within the interval that should hold 50, 80, 90 or 95 % of
        them if errors are normal, ``[tasks]``; ``nll``, the mean negative log-likelihood
        :math:`\tfrac12 \log 2 \pi \sigma^2 + (y - \mu)^2 / 2 \sigma^2`; and ``error_spearman``, the
        rank correlation of absolute errors and deviations. NaN of a task without targets, and the correlation
        where all deviations are the same.
    """
    target, mean, std = (np.asarray(values, dtype=np.float64) for values in (target, mean, std))
    known = ~np.isnan(target) & ~np.isnan(std)
    counts = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # a deviation of 0, of constant targets
        loss = 0.5 * np.log(2 * np.pi * std**2) + ((target - mean) / std) ** 2 / 2
    bounds = {f"coverage_{percent}": norm.ppf(0.5 + percent / 200) for percent in (50, 80, 90, 95)}
    error = np.abs(target - mean)
    result = {name: (known & (error <= bound * std)).sum(axis=0) / counts for name, bound in bounds.items()}
    result["nll"] = np.where(known, loss, 0.0).sum(axis=0) / counts
    ranks = [rank_correlation(error[rows, t], std[rows, t]) for t, rows in enumerate(known.T)]
    return result | {"error_spearman": np.array(ranks)}


def error_by_deviation(
    target: ArrayLike, mean: ArrayLike, std: ArrayLike, num_bins: int = NUM_BINS
) -> dict[str, list[float]]:
    """Errors of one task in parts of equal size, from the least predicted deviations to the largest.

    Args:
        target, mean, std: ``[G]``, NaN = missing.
        num_bins: How many parts; a single one if all deviations are the same.

    Returns:
        ``deviation``, the root of the mean predicted variance, ``rmse`` and ``count`` of each part.
    """
    target, mean, std = (np.asarray(values, dtype=np.float64) for values in (target, mean, std))
    known = np.flatnonzero(~np.isnan(target) & ~np.isnan(std))
    known = known[np.argsort(std[known], kind="stable")]
    if not len(known) or not np.ptp(std[known]):
        num_bins = 1
    bins = [rows for rows in np.array_split(known, num_bins) if len(rows)]
    return {
        "deviation": [float(np.sqrt(np.mean(std[rows] ** 2))) for rows in bins],
        "rmse": [float(np.sqrt(np.mean((target - mean)[rows] ** 2))) for rows in bins],
        "count": [len(rows) for rows in bins],
    }


def uncertainty(names: Sequence[str], target: ArrayLike, mean: ArrayLike, std: ArrayLike) -> dict[str, Any]:
    """All of this as a report: ``mean`` over the tasks, and ``targets``, each by its name."""
    target, mean, std = (np.asarray(values, dtype=np.float64) for values in (target, mean, std))
    each = calibration(target, mean, std)
    means = {name: float(np.nanmean(v)) if np.isfinite(v).any() else np.nan for name, v in each.items()}
    targets = {
        name: {figure: float(values[t]) for figure, values in each.items()}
        | {"by_deviation": error_by_deviation(target[:, t], mean[:, t], std[:, t])}
        for t, name in enumerate(names)
    }
    return {"mean": means, "targets": targets}


def quantile_scores(
    names: Sequence[str], target: ArrayLike, quantiles: ArrayLike, levels: Sequence[float]
) -> dict[str, Any]:
    r"""How far predicted quantiles can be trusted, as a report.

    Args:
        names: Of the targets.
        target: ``[G, tasks]``, NaN = missing.
        quantiles: ``[G, tasks, Q]``.
        levels: Q of them, rising.

    Returns:
        ``levels``; ``mean`` over the tasks, and ``targets``, each by its name, with ``pinball``, the mean
        loss :math:`\max(\tau e, (\tau - 1) e)` of errors e over all levels; ``coverage``, the share of
        targets between the outer quantiles, which should be ``expected``; and ``width``, how far these are
        apart. Of each target also ``below``, the share of its values at or below each quantile.
    """
    target, quantiles, level = (np.asarray(each, np.float64) for each in (target, quantiles, levels))
    targets: dict[str, dict[str, Any]] = {}
    for t, name in enumerate(names):
        y, q = target[:, t, None], quantiles[:, t]
        y, q = y[(known := ~np.isnan(y[:, 0]))], q[known]
        inside = (q[:, 0] <= y[:, 0]) & (y[:, 0] <= q[:, -1])
        figures = {
            "pinball": np.maximum(level * (y - q), (level - 1) * (y - q)),
            "coverage": inside,
            "width": q[:, -1] - q[:, 0],
        }
        targets[name] = {name: float(each.mean()) if len(y) else np.nan for name, each in figures.items()}
        targets[name]["below"] = (y <= q).mean(axis=0).tolist() if len(y) else []
    figures = {name: np.array([each[name] for each in targets.values()]) for name in figures}
    means = {name: float(np.nanmean(v)) if np.isfinite(v).any() else np.nan for name, v in figures.items()}
    expected = float(level[-1] - level[0])
    return {"levels": level.tolist(), "expected": expected, "mean": means, "targets": targets}
