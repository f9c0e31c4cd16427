"""Scores of folds in a table, and paired differences of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student


def corrected_t_test(differences: ArrayLike, test_share: float) -> tuple[float, float]:
    r"""The corrected resampled t-test of differences between two models on the same folds.

    .. math::
        t = \bar d \Big/ \sqrt{\left(\frac{1}{J} + \frac{n_{\text{test}}}{n_{\text{train}}}\right) s_d^2}

    with J folds, all repeats together, and Student's distribution of J − 1 degrees of freedom. Trainings of
    several folds share molecules, so the plain test finds differences that are not there; the second term is
    for that (Nadeau and Bengio 2003, Machine Learning 52, 239).

    Args:
        differences: Of each fold, ``[J]``.
        test_share: Test molecules in units of training molecules: 1 / (k − 1) of k folds.

    Returns:
        t and the two-sided p; NaN of fewer than two folds, and where all differences are the same.
    """
    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 2 or not np.ptp(d):
        return float("nan"), float("nan")
    t = float(d.mean() / np.sqrt((1 / len(d) + test_share) * d.var(ddof=1)))
    return t, float(2 * student.sf(abs(t), len(d) - 1))


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and deviations over folds, and paired differences.

    Args:
        records: Of each model and fold: ``model``, ``repeat``, ``fold``, ``train`` and ``test`` (molecules)
            and ``scores`` by metric, NaN or ``None`` where there is none.

    Returns:
        ``models``: of each model and metric the ``mean``, the standard deviation ``std`` over the folds and
        their number; ``differences``: of each pair of models and metric the mean of the first minus the
        second, its ``std``, and ``t`` and ``p`` of :func:`corrected_t_test`. Folds without a score do not
        count.
    """
    models = list(dict.fromkeys(record["model"] for record in records))
    metrics = list(records[0]["scores"])
    places = list(dict.fromkeys((record["repeat"], record["fold"]) for record in records))
    by_place = {(record["model"], record["repeat"], record["fold"]): record for record in records}
    scores = {
        (model, metric): np.array(
            [by_place[model, *place]["scores"][metric] for place in places], dtype=float
        )
        for model in models
        for metric in metrics
    }
    share = float(
        np.mean(
            [by_place[models[0], *place]["test"] / by_place[models[0], *place]["train"] for place in places]
        )
    )
    differences = []
    for one, other in combinations(models, 2):
        for metric in metrics:
            d = scores[one, metric] - scores[other, metric]
            d = d[~np.isnan(d)]
            t, p = corrected_t_test(d, share)
            differences.append(
                {"first": one, "second": other, "metric": metric, **_moments(d), "t": t, "p": p}
            )
    return {
        "models": {
            model: {metric: _moments(scores[model, metric]) for metric in metrics} for model in models
        },
        "differences": differences,
    }


def _moments(values: np.ndarray) -> dict[str, Any]:
    values = values[~np.isnan(values)]
    return {
        "mean": float(values.mean()) if len(values) else float("nan"),
        "std": float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
        "folds": len(values),
    }
