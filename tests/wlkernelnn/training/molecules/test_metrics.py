from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.metrics import cohen_kappa_score

from wlkernelnn.training import METRICS, get_metric, score, score_tasks, unscored
from wlkernelnn.training.molecules.metrics import all_scores, metrics_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "target", "prediction", "expected"),
    [
        ("rmse", [1, 2, 3], [1, 2, 6], math.sqrt(3)),
        ("mae", [1, 2, 3], [1, 0, 7], 2.0),
        ("r2", [1, 2, 3], [1, 2, 2], 0.5),
        ("spearman", [1, 2, 3, 4], [0, 0.1, 0.9, 0.2], 0.8),
        ("roc_auc", [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.75),
        ("average_precision", [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], 0.5 * 1 + 0.5 * 2 / 3),
        ("accuracy", [0, 0, 1, 1], [0.1, 0.6, 0.7, 0.5], 0.5),
        ("balanced_accuracy", [0, 1, 1, 1], [0.1, 0.8, 0.7, 0.2], (1 + 2 / 3) / 2),
        ("f1", [0, 1, 1, 1], [0.9, 0.8, 0.7, 0.2], 2 / 3),
        ("mcc", [0, 0, 0, 1, 1], [0.1, 0.2, 0.8, 0.7, 0.6], (2 * 2 - 1 * 0) / math.sqrt(3 * 2 * 3 * 2)),
        ("brier", [1, 0], [0.8, 0.5], (0.2**2 + 0.5**2) / 2),
        ("log_loss", [1, 0], [0.8, 0.5], -(math.log(0.8) + math.log(0.5)) / 2),
        ("ece", [1, 0, 1, 1], [0.11, 0.17, 0.95, 1.0], (2 * (0.5 - 0.14) + 2 * (1 - 0.975)) / 4),
    ],
)
def test_by_hand(name: str, target: list[float], prediction: list[float], expected: float) -> None:
    columns = np.array(target, dtype=np.float32)[:, None], np.array(prediction, dtype=np.float32)[:, None]
    assert score(name, *columns) == pytest.approx(expected)


def test_tensors() -> None:
    target, prediction = torch.tensor([[1.0], [NAN], [3.0]]), torch.tensor([[1.0], [5.0], [5.0]])
    assert score("rmse", target, prediction) == score("rmse", target.numpy(), prediction.numpy())


@pytest.mark.parametrize("name", METRICS)
def test_missing_targets_are_left_out(name: str) -> None:
    rng = np.random.default_rng(0)
    prediction = rng.random((50, 2))
    target = np.round(rng.random((50, 2)))
    target[rng.random(target.shape) < 0.3] = np.nan
    each = score_tasks(name, target, prediction)
    for task in range(2):
        known = ~np.isnan(target[:, task])
        alone = score(name, target[known][:, [task]], prediction[known][:, [task]])
        assert each[task] == alone
    assert score(name, target, prediction) == pytest.approx(each.mean())


def test_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y, p = np.round(rng.random(40)), rng.random(40)
    assert score("roc_auc", y[:, None], p[:, None]) == sk.roc_auc_score(y, p)
    assert score("f1", y[:, None], p[:, None]) == sk.f1_score(y, p > 0.5)
    assert score("r2", y[:, None], p[:, None]) == sk.r2_score(y, p)
    assert score("mcc", y[:, None], p[:, None]) == pytest.approx(sk.matthews_corrcoef(y, p > 0.5))
    assert score("brier", y[:, None], p[:, None]) == pytest.approx(sk.brier_score_loss(y, p))


@pytest.mark.parametrize(
    ("target", "prediction"),
    [([1, 2], [1, 2]), ([1, 2, NAN], [1, 2, 3]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 1, 1])],
)
def test_no_rank_correlation(target: list[float], prediction: list[float]) -> None:
    assert math.isnan(score("spearman", np.array(target)[:, None], np.array(prediction)[:, None]))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *[(name, [NAN, NAN]) for name in METRICS if name != "spearman"],
        ("r2", [1.0, NAN]),
        ("roc_auc", [1.0, 1.0]),
        ("roc_auc", [0.0, NAN]),
        ("average_precision", [0.0, 0.0]),
    ],
)
def test_too_few_targets(name: str, target: list[float]) -> None:
    prediction = np.full((2, 2), 0.3)
    assert math.isnan(score(name, np.array(target)[:, None], prediction[:, :1]))
    # A task without a score does not count in the mean.
    both = np.stack([target, [0.0, 1.0]], axis=1)
    alone = score(name, np.array([[0.0], [1.0]]), prediction[:, :1])
    assert score(name, both, prediction) == alone
    tasks = score_tasks(name, both, prediction)
    assert unscored(name, ["a", "b"], tasks).endswith("too few values, or a single class, have a")
    assert unscored(name, ["a"], tasks[:1]) == (
        f"{name} of a cannot be computed: too few values, or a single class"
    )
    assert not math.isnan(alone)


def test_f1_without_positives_is_zero() -> None:
    assert score("f1", np.zeros((3, 1)), np.zeros((3, 1))) == 0.0


def test_prediction_that_is_no_number() -> None:
    for value in [np.nan, np.inf]:
        prediction = np.array([[0.0, 1.0], [value, 1.0]])
        assert score_tasks("rmse", np.zeros((2, 2)), prediction).tolist() == pytest.approx(
            [NAN, 1.0], nan_ok=True
        )
        # The mean is not that of the others, unless the target was missing anyway.
        assert np.isnan(score("rmse", np.zeros((2, 2)), prediction))
        assert score("rmse", np.array([[0.0, 0.0], [NAN, 0.0]]), prediction) == 0.5


@pytest.mark.parametrize(("name", "expected"), [("rmse", (2 / 1 + 30 / 10) / 2), ("r2", None)])
def test_scores_of_several_targets_in_their_deviations(name: str, expected: float | None) -> None:
    target, prediction = np.array([[1.0, 5.0], [2.0, 9.0]]), np.array([[3.0, 35.0], [4.0, 39.0]])
    found = score(name, target, prediction, deviation=np.array([1.0, 10.0]))
    assert found == pytest.approx(expected or score(name, target, prediction))


def test_directions_and_tasks() -> None:
    smaller_is_better = {name for name, metric in METRICS.items() if not metric.maximize}
    assert smaller_is_better == {"rmse", "mae", "log_loss", "brier", "ece"}
    for_regression = {name for name, metric in METRICS.items() if metric.task == "regression"}
    assert for_regression == {"rmse", "mae", "r2", "spearman"}


def test_ordered_classes() -> None:
    random = np.random.default_rng(0)
    y, p = random.integers(0, 4, (50, 1)).astype(float), random.dirichlet(np.ones(4), 50)
    y[3] = NAN
    known, level = y[~np.isnan(y[:, 0]), 0], (p[~np.isnan(y[:, 0])].cumsum(1) < 0.5).sum(1)
    found = all_scores("ordinal", ["y"], y, p, "abcd")["mean"]
    assert {*metrics_of("multiclass"), "mae", "quadratic_kappa"} == {*found}
    assert found["mae"] == pytest.approx(np.abs(known - level).mean())
    assert found["quadratic_kappa"] == pytest.approx(cohen_kappa_score(known, level, weights="quadratic"))
    assert found["accuracy"] == pytest.approx((known == level).mean())
    assert found["log_loss"] == pytest.approx(sk.log_loss(known, p[~np.isnan(y[:, 0])]))
    assert np.isnan(score("quadratic_kappa", np.zeros((3, 1)), np.eye(3)[[0, 0, 0]]))


def test_unknown_metrics() -> None:
    with pytest.raises(ValueError, match="mae, r2, spearman for regression, got 'roc_auc'"):
        get_metric("roc_auc", "regression")
    with pytest.raises(ValueError, match=r"must be one of rmse, .*ece, quadratic_kappa, got 'auc'"):
        get_metric("auc")


@pytest.mark.parametrize("shape", [(4,), (4, 2), (3, 1)], ids=str)
def test_shapes_must_agree(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"one shape \[G, tasks\], got .*4, 1"):
        score_tasks("rmse", np.zeros((4, 1)), np.zeros(shape))
