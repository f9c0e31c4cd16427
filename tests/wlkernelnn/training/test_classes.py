from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sk

from wlkernelnn.training import score, score_tasks
from wlkernelnn.training.classes import CLASS_SCORES, confusion, of_each_class
from wlkernelnn.training.molecules.metrics import all_scores

NAN = float("nan")


def probabilities(count: int, number: int) -> np.ndarray:
    return np.random.default_rng(count).dirichlet(np.ones(number), count)


def test_against_scikit_learn() -> None:
    p, y = probabilities(60, 4), np.arange(60) % 4
    found, column = p.argmax(axis=1), y[:, None]
    expected = {
        "accuracy": sk.accuracy_score(y, found),
        "balanced_accuracy": sk.balanced_accuracy_score(y, found),
        "f1": sk.f1_score(y, found, average="macro"),
        "mcc": sk.matthews_corrcoef(y, found),
        "log_loss": sk.log_loss(y, p),
        "roc_auc": sk.roc_auc_score(y, p, multi_class="ovr"),
    }
    assert {name: score(name, column, p) for name in CLASS_SCORES} == pytest.approx(expected)
    np.testing.assert_array_equal(confusion(y, p), sk.confusion_matrix(y, found))
    each = of_each_class(y, p, list("abcd"))
    assert each["c"]["recall"] == pytest.approx(sk.recall_score(y, found, labels=[2], average="macro"))
    assert each["c"]["precision"] == pytest.approx(sk.precision_score(y, found, labels=[2], average="macro"))


@pytest.mark.parametrize("number", [2, 3])
def test_certain_errors_are_those_of_scikit_learn(number: int) -> None:
    p, y = np.eye(number), np.array([0, *[0] * (number - 1)])
    assert CLASS_SCORES["log_loss"](y, p) == pytest.approx(sk.log_loss(y, p, labels=range(number)))


def test_missing_classes_and_classes_that_do_not_occur() -> None:
    p = probabilities(6, 3)
    y = np.array([0, NAN, 2, 0, NAN, 2])[:, None]
    known = ~np.isnan(y[:, 0])
    for name in CLASS_SCORES:
        assert score(name, y, p) == score(name, y[known], p[known])
        assert math.isfinite(score(name, y, p))
    assert math.isnan(score("roc_auc", np.zeros((6, 1)), p))
    assert score("mcc", np.zeros((6, 1)), p) == 0.0
    assert math.isnan(score("accuracy", np.full((6, 1), NAN), p))
    report = all_scores("multiclass", ["kind"], y, p, ["x", "y", "z"])
    assert [each["count"] for each in report["classes"].values()] == [2, 0, 2]
    assert math.isnan(report["classes"]["y"]["recall"])
    assert np.sum(report["confusion"]) == 4
    assert report["mean"].keys() == CLASS_SCORES.keys()


def test_metrics_of_two_classes_alone_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one shape \[G, tasks\]"):
        score_tasks("brier", np.zeros((6, 1)), probabilities(6, 3))
