"""Classes by name: their probabilities, the columns of tables that hold these, and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn import metrics as sk
from torch import Tensor

from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES


def probability_columns(target: str, classes: Sequence[str]) -> list[str]:
    """Names of the columns of probabilities of a target's classes."""
    return [f"{target}_p_{name}" for name in classes]


def output_names(about: Mapping[str, Any]) -> list[str]:
    """What each output of a model is of: a target, or a class with a name (of two the second)."""
    if "classes" not in about:
        return [*about["target_names"]]
    names = [f"{about['target_names'][0]}={name}" for name in about["classes"]]
    return names if about["task"] in SEVERAL_CLASSES else names[1:]


def balanced_weights(y: Tensor, num_classes: int) -> Tensor:
    """Weights by which all classes of a target count alike, ``[num_classes, tasks]``, 1 on average.

    Args:
        y: Classes from 0 on, ``[G, tasks]``, NaN = missing.
        num_classes: Their number; classes without a graph have the weight 0.
    """
    counts = (y.unsqueeze(0) == torch.arange(num_classes).view(-1, 1, 1)).sum(1)
    present = (counts > 0).sum(0).clamp(min=1)
    return torch.where(counts > 0, counts.sum(0) / (present * counts.clamp(min=1)), 0.0)


def class_weights(class_weight: str | Sequence[float] | None, y: Tensor, num_classes: int) -> Tensor | None:
    """Weights of the classes of each target, ``[num_classes, tasks]``, as ``FitOptions.class_weight`` says.

    Args:
        class_weight: ``"balanced"``, a weight of each class, or ``None``.
        y, num_classes: See :func:`balanced_weights`.

    Raises:
        ValueError: There are not as many weights as classes.
    """
    if class_weight is None or isinstance(class_weight, str):
        return balanced_weights(y, num_classes) if class_weight else None
    if len(class_weight) != num_classes:
        raise ValueError(
            f"class_weight has {len(class_weight)} weights, expected one of each of {num_classes} classes"
        )
    return torch.tensor(class_weight, dtype=torch.float32).unsqueeze(1).repeat(1, y.size(1))


def of_all_classes(prediction: np.ndarray) -> np.ndarray:
    """Probabilities of all classes ``[n, C]``, from these or from those of class 1 alone ``[n, 1]``."""
    return np.hstack([1 - prediction, prediction]) if prediction.shape[1] == 1 else prediction


def decided(probability: np.ndarray, ordered: bool) -> np.ndarray:
    """The class that is predicted ``[n]``, from probabilities ``[n, C]``: the most probable one, or of
    classes with an order the median (Cao et al. 2020), which is wrong by the fewest levels.
    """
    if ordered:
        return np.asarray((probability[:, :-1].cumsum(axis=1) < 0.5).sum(axis=1))
    return np.asarray(probability.argmax(axis=1))


def _accuracy(y: np.ndarray, probability: np.ndarray) -> float:
    """The share of graphs whose most probable class is theirs."""
    return float((probability.argmax(1) == y).mean())


def recalls(y: np.ndarray, predicted: np.ndarray) -> float:
    """The balanced accuracy: the mean share that is right of each class that occurs."""
    return float(np.mean([(predicted[y == one] == one).mean() for one in np.unique(y)]))


def _macro_f1(y: np.ndarray, probability: np.ndarray) -> float:
    """The mean over the classes that occur or were predicted."""
    return float(sk.f1_score(y, probability.argmax(1), average="macro"))


def matthews(y: np.ndarray, probability: np.ndarray) -> float:
    """Matthews' coefficient of several classes (Gorodkin 2004), 0 where all have or get the same class."""
    matrix = confusion(y, probability).astype(np.float64)
    found, count, total = matrix.sum(0), matrix.sum(1), matrix.sum()
    squares = (total**2 - found @ found) * (total**2 - count @ count)
    return float((matrix.trace() * total - found @ count) / np.sqrt(squares)) if squares > 0 else 0.0


def _log_loss(y: np.ndarray, probability: np.ndarray) -> float:
    """The mean negative logarithm of the probability of the true class, at least 2⁻⁵² as in scikit-learn."""
    right = probability[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.maximum(right, np.finfo(np.float64).eps)).mean())


def _roc_auc(y: np.ndarray, probability: np.ndarray) -> float:
    """The mean over the classes that some have and some don't, each against all others; NaN without any."""
    number = probability.shape[1]
    truth = np.eye(number, dtype=bool)[y]
    ranked = [
        c for c in ([1] if number == 2 else range(number)) if truth[:, c].any() and not truth[:, c].all()
    ]
    areas = [sk.roc_auc_score(truth[:, c], probability[:, c]) for c in ranked]
    return float(np.mean(areas)) if areas else math.nan


#: Scores of classes ``[n]``, numbered from 0, by probabilities ``[n, C]``.
CLASS_SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": lambda y, p: recalls(y, p.argmax(1)),
    "f1": _macro_f1,
    "mcc": matthews,
    "log_loss": _log_loss,
    "roc_auc": _roc_auc,
}


def _level_error(y: np.ndarray, probability: np.ndarray) -> float:
    """The mean number of levels between the most probable class and the true one."""
    return float(np.abs(probability.argmax(1) - y).mean())


def quadratic_kappa(y: np.ndarray, probability: np.ndarray) -> float:
    """Cohen's kappa of ordered classes (1968): errors count by their squares, against those of chance; NaN
    where all have and get one class.
    """
    matrix = confusion(y, probability).astype(np.float64)
    square = np.subtract.outer(*2 * [np.arange(len(matrix))]) ** 2
    chance = (square * np.outer(matrix.sum(1), matrix.sum(0))).sum() / matrix.sum()
    return float(1 - (square * matrix).sum() / chance) if chance else math.nan


#: Further scores of classes that have an order.
LEVEL_SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mae": _level_error,
    "quadratic_kappa": quadratic_kappa,
}


def class_scores(y: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    """What predicted probabilities of classes are worth.

    Args:
        y: True classes ``[n]``, from 0.
        probability: ``[n, C]``.

    Returns:
        ``accuracy``; ``balanced_accuracy``, the mean recall of the classes that occur; ``f1``, the mean over
        the classes that occur or were predicted; ``mcc``, Matthews' correlation; ``log_loss``; and
        ``roc_auc``, the mean over the classes that some items have and some don't, each against all others
        (of two classes that of the second). NaN where it is not defined.
    """
    return {name: score(y, probability) if len(y) else math.nan for name, score in CLASS_SCORES.items()}


def of_each_class(y: np.ndarray, probability: np.ndarray, classes: Sequence[str]) -> dict[str, Any]:
    """``precision``, ``recall`` and ``count`` of each class by its name; NaN of one that no item has or was
    predicted for.
    """
    matrix = confusion(y, probability)
    found, count = matrix.sum(0), matrix.sum(1)
    return {
        name: {
            "precision": float(right / found[number]) if found[number] else math.nan,
            "recall": float(right / count[number]) if count[number] else math.nan,
            "count": int(count[number]),
        }
        for number, (name, right) in enumerate(zip(classes, matrix.diagonal(), strict=True))
    }


def confusion(y: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """How many of each class are predicted as each class, ``[C, C]``: a row for each true class."""
    number = probability.shape[1]
    return np.bincount(y * number + probability.argmax(1), minlength=number**2).reshape(number, number)
