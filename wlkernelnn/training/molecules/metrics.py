"""Metrics of predictions with missing targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import spearmanr
from sklearn import metrics as sk

from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.training.classes import (
    CLASS_SCORES,
    LEVEL_SCORES,
    confusion,
    decided,
    matthews,
    of_all_classes,
    of_each_class,
    quadratic_kappa,
    recalls,
)


class Metric(NamedTuple):
    """A score of one task.

    Attributes:
        score: Maps targets and predictions ``[n]`` to a float.
        maximize: Larger is better.
        task: ``"regression"``, ``"classification"`` or ``"ordinal"``.
    """

    score: Callable[[np.ndarray, np.ndarray], float]
    maximize: bool
    task: str


def _at_half(score: Callable[..., float]) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda y, p: score(y, p > 0.5)


def reliability(
    target: np.ndarray, probability: np.ndarray, num_bins: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often class 1 is right, by its predicted probability.

    Args:
        target: 0 and 1 ``[n]``.
        probability: Of class 1, ``[n]``.
        num_bins: Bins of equal width from 0 to 1.

    Returns:
        Of each bin that holds any: the mean probability, the share of class 1, and how many there are.
    """
    place = np.clip((probability * num_bins).astype(int), 0, num_bins - 1)
    counts = np.bincount(place, minlength=num_bins)
    some = counts > 0
    sums = [np.bincount(place, values, num_bins)[some] for values in (probability, target)]
    return sums[0] / counts[some], sums[1] / counts[some], counts[some]


def calibration_error(target: np.ndarray, probability: np.ndarray) -> float:
    """The expected calibration error: |mean probability − share of class 1|, the mean over ten bins
    (Naeini et al. 2015).
    """
    predicted, share, count = reliability(target, probability)
    return float(count @ np.abs(predicted - share) / count.sum())


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation; NaN of less than three values, and where all values are the same."""
    if len(one) < 3 or not np.ptp(one) or not np.ptp(other):
        return float("nan")
    return float(spearmanr(one, other).statistic)


def _of_two(score: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray, np.ndarray], float]:
    """Apply a score of several classes to two, given the probability of class 1."""
    return lambda y, p: score(y.astype(int), of_all_classes(p[:, None]))


METRICS = {
    "rmse": Metric(sk.root_mean_squared_error, False, "regression"),
    "mae": Metric(sk.mean_absolute_error, False, "regression"),
    "r2": Metric(sk.r2_score, True, "regression"),
    "spearman": Metric(rank_correlation, True, "regression"),
    "roc_auc": Metric(sk.roc_auc_score, True, "classification"),
    "average_precision": Metric(sk.average_precision_score, True, "classification"),
    "accuracy": Metric(_at_half(sk.accuracy_score), True, "classification"),
    "balanced_accuracy": Metric(_at_half(recalls), True, "classification"),
    "f1": Metric(_at_half(lambda y, p: sk.f1_score(y, p, zero_division=0.0)), True, "classification"),
    "mcc": Metric(_of_two(matthews), True, "classification"),
    "log_loss": Metric(lambda y, p: sk.log_loss(y, p, labels=[0, 1]), False, "classification"),
    "brier": Metric(lambda y, p: float(np.mean((y - p) ** 2)), False, "classification"),
    "ece": Metric(calibration_error, False, "classification"),
    "quadratic_kappa": Metric(_of_two(quadratic_kappa), True, "ordinal"),
}
_OF_PROBABILITIES = CLASS_SCORES | LEVEL_SCORES
#: Scores in the unit of the target.
IN_UNITS = ("rmse", "mae")


def metrics_of(task: str | None = None) -> list[str]:
    """Names of the metrics of a kind of task, or of all. Those of ``"multiclass"`` are ``CLASS_SCORES``, of
    the same meaning as for two classes; ``"ordinal"`` has ``LEVEL_SCORES`` too.
    """
    if task in SEVERAL_CLASSES:
        of_task = _OF_PROBABILITIES if task == "ordinal" else CLASS_SCORES
        return [name for name in METRICS if name in of_task]
    return [name for name, metric in METRICS.items() if task in (None, metric.task)]


def get_metric(name: str, task: str | None = None) -> Metric:
    """Look a metric up.

    Raises:
        ValueError: There is no such metric, or it is for another kind of task.
    """
    known = metrics_of(task)
    if name not in known:
        kind = "" if task is None else f" for {task}"
        raise ValueError(f"metric must be one of {', '.join(known)}{kind}, got {name!r}")
    return METRICS[name]


def score_tasks(name: str, target: ArrayLike, prediction: ArrayLike, ordered: bool = False) -> np.ndarray:
    """The metric of every task.

    Args:
        name: A key of ``METRICS``.
        target: ``[G, tasks]``, NaN = missing.
        prediction: ``[G, tasks]``: values, or probabilities of class 1; or ``[G, classes]``, those of all
            classes of the only target.
        ordered: The classes have an order, and the median is what is predicted.

    Returns:
        ``[tasks]``, NaN where a task has too few targets (none at all, one for ``r2``, two for ``spearman``,
        a single class for ``roc_auc`` and ``average_precision``) or a prediction that is not finite.

    Raises:
        ValueError: There is no such metric, or the shapes differ.
    """
    metric = get_metric(name)
    target, prediction = np.asarray(target), np.asarray(prediction)
    several = target.shape[1:] == (1,) and name in _OF_PROBABILITIES and prediction.shape[1:] > (1,)
    if target.ndim != 2 or target.shape != ((*prediction.shape[:1], 1) if several else prediction.shape):
        raise ValueError(
            f"expected targets and predictions of one shape [G, tasks], got {target.shape} and "
            f"{prediction.shape}"
        )
    scores = np.full(target.shape[1], np.nan)
    for task in range(target.shape[1]):
        known = ~np.isnan(target[:, task])
        if several:
            if known.any() and np.isfinite(prediction[known]).all():
                p = (
                    prediction[known]
                    if name in ("log_loss", "roc_auc")
                    else _chosen(prediction[known], ordered)
                )
                scores[task] = _OF_PROBABILITIES[name](target[known, 0].astype(int), p)
            continue
        y, p = target[known, task].astype(np.float64), prediction[known, task].astype(np.float64)
        two_classes = name in ("roc_auc", "average_precision")
        enough = len(np.unique(y)) == 2 if two_classes else len(y) > (name == "r2")
        if enough and np.isfinite(p).all():
            scores[task] = metric.score(y, p)
    return scores


def unscored(metric: str, names: Sequence[str], scores: np.ndarray) -> str:
    """What to say of tasks that have no score, and of the mean over the others; ``""`` if all have one.

    Args:
        metric: A key of ``METRICS``.
        names: Of the tasks.
        scores: Of :func:`score_tasks`.
    """
    without = [names[task] for task in np.flatnonzero(np.isnan(scores)).tolist()]
    if not without:
        return ""
    if len(names) == 1:
        return f"{metric} of {names[0]} cannot be computed: too few values, or a single class"
    return (
        f"{metric} is the mean of {len(names) - len(without)} of {len(names)} targets; too few values, or a "
        f"single class, have {', '.join(without)}"
    )


def _chosen(probability: np.ndarray, ordered: bool) -> np.ndarray:
    """Probabilities ``[n, C]`` of the class that is predicted alone: 1, and 0 of the others."""
    return np.asarray(np.eye(probability.shape[1])[decided(probability, ordered)])


def comparable(name: str, scores: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Scores of targets, such that no target's unit makes it count for more: errors in units of deviations.

    Args:
        name: A key of ``METRICS``.
        scores: Of :func:`score_tasks`.
        deviation: ``[tasks]``: standard deviations of the training targets.
    """
    return scores / deviation if name in IN_UNITS else scores


def score(
    name: str,
    target: ArrayLike,
    prediction: ArrayLike,
    ordered: bool = False,
    deviation: np.ndarray | None = None,
) -> float:
    """The mean of :func:`score_tasks` over the tasks that have one.

    NaN if none has, or a prediction is not finite: a task that went wrong does not improve the mean. With
    ``deviation``, a number for each task, the RMSE or MAE of each is divided by it first.
    """
    target, prediction = np.asarray(target), np.asarray(prediction)
    scores = score_tasks(name, target, prediction, ordered)
    scores = scores if deviation is None else comparable(name, scores, deviation)
    wrong = (~np.isnan(target) & ~np.isfinite(prediction)).any()
    return float("nan") if wrong or np.isnan(scores).all() else float(np.nanmean(scores))


def all_scores(
    task: str,
    names: Sequence[str],
    target: ArrayLike,
    prediction: ArrayLike,
    classes: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """Every metric of a kind of task.

    Args:
        task: ``"regression"``, ``"classification"``, ``"multiclass"`` or ``"ordinal"``.
        names: Of the targets.
        target, prediction: See :func:`score_tasks`.
        classes: Names of the classes of the only target, if they have names.

    Returns:
        ``mean``, the mean of each metric over the targets, see :func:`score`; and ``targets``, the metrics of
        each. Of classes with names also ``classes``, precision, recall and count of each, and ``confusion``,
        how many of each (a row) are predicted as each.
    """
    metrics, ordered = metrics_of(task), task == "ordinal"
    each = {name: score_tasks(name, target, prediction, ordered) for name in metrics}
    return _of_classes(np.asarray(target), np.asarray(prediction), classes, ordered) | {
        "mean": {name: score(name, target, prediction, ordered) for name in metrics},
        "targets": {
            target_name: {name: float(values[t]) for name, values in each.items()}
            for t, target_name in enumerate(names)
        },
    }


def _of_classes(
    target: np.ndarray, prediction: np.ndarray, classes: Sequence[str], ordered: bool
) -> dict[str, Any]:
    if not classes:
        return {}
    known = ~np.isnan(target[:, 0]) & np.isfinite(prediction).all(axis=1)
    y, probability = target[known, 0].astype(int), _chosen(of_all_classes(prediction[known]), ordered)
    return {
        "classes": of_each_class(y, probability, classes),
        "confusion": confusion(y, probability).tolist(),
    }
