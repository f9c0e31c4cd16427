from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.molecules import assert_same_weights, quick, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions, fit


@pytest.mark.parametrize(
    ("metric", "scores"),
    [("rmse", [0.5, 0.1, 0.3, 0.2, 0.05]), ("r2", [0.5, 0.9, 0.7, 0.8, 0.95])],
    ids=["minimize", "maximize"],
)
def test_early_stopping_in_the_direction_of_the_metric(
    parts: tuple[PackedGraphs, PackedGraphs],
    scored: Callable[[list[float]], None],
    metric: str,
    scores: list[float],
) -> None:
    scored(scores)
    options = quick(epochs=5, patience=2, metric=metric)
    result = fit(small_network(parts[0]), *parts, options, progress=False)
    assert len(result.history) == 4
    assert (result.metric, result.epoch) == (metric, 1)
    assert result.score == pytest.approx(scores[1])


def test_epochs_without_a_score_are_no_better(
    parts: tuple[PackedGraphs, PackedGraphs], scored: Callable[[list[float]], None]
) -> None:
    """Such as the rank correlation of equal predictions."""
    scored([math.nan, 0.3, math.nan, 0.2, math.nan, math.nan, 0.9])
    result = fit(small_network(parts[0]), *parts, quick(epochs=7, patience=2), progress=False)
    assert (result.epoch, result.score, len(result.history)) == (3, pytest.approx(0.2), 6)


def test_a_run_that_lost_patience_is_over(tmp_path: Path) -> None:
    data = regression_set()

    def trained(patience: int) -> list[dict[str, float]]:
        options = quick(epochs=20, patience=patience, lr=1e-9, lr_min=0.0, ema_decay=0.0)
        net = small_network(data)
        return fit(
            net, data[:40], data[40:], options, directory=tmp_path, resume=True, progress=False
        ).history

    first = trained(2)
    assert len(first) < 20
    assert trained(2) == first
    assert len(trained(3)) > len(first)


def test_resuming_the_training_of_something_else(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path
) -> None:
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)

    def resumed(net: GraphKernelNetwork, *data: PackedGraphs, **options: Any) -> None:
        fit(net, *data, quick(epochs=2, **options), directory=tmp_path, resume=True, progress=False)

    net = small_network(parts[0])
    for given, options, message in (
        ((net, *parts), {"lr": 0.5}, "has lr .*, and this is 0.5"),
        ((net, *parts), {"seed": 7}, "has seed 0, and this is 7"),
        ((net, parts[0][:-1], parts[1]), {}, "has train "),
        ((net, parts[0], parts[1][:-1]), {}, "has valid "),
        (
            (small_network(parts[0], dropout=0.5), *parts),
            {},
            r"has network \{'kind': 'GraphKernelNetwork', .*'dropout': 0",
        ),
    ):
        with pytest.raises(ValueError, match=rf"last\.ckpt: the training to resume {message}"):
            resumed(*given, **options)
    resumed(net, *parts, patience=5)


@pytest.mark.parametrize("done", [2, 3], ids=["interrupted", "ended"])
def test_resuming_in_a_folder_that_was_moved(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, done: int
) -> None:
    """With the best epoch of before."""
    options = {"lr": 0.3, "schedule": "constant", "warmup_epochs": 0, "ema_decay": 0.0}
    for folder in ("there", "moved"):
        place = tmp_path / folder
        fit(small_network(parts[0]), *parts, quick(epochs=done, **options), directory=place, progress=False)
    (tmp_path / "moved").rename(tmp_path / "here")
    nets = [small_network(parts[0]) for _ in range(2)]
    there, here = (
        fit(net, *parts, quick(epochs=3, **options), directory=tmp_path / name, resume=True, progress=False)
        for net, name in zip(nets, ("there", "here"), strict=True)
    )
    assert_same_weights(*nets)
    assert (here.epoch, here.score, here.history) == (there.epoch, there.score, there.history)
    assert here.epoch < 2  # or nothing would have been forgotten


def test_a_line_per_epoch_without_a_terminal(
    parts: tuple[PackedGraphs, PackedGraphs],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        result = fit(small_network(parts[0]), *parts, quick(epochs=2))
    assert [record.message.partition(":")[0] for record in caplog.records] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert f"valid_rmse {result.history[1]['valid_rmse']:.4g}" in caplog.messages[1]
    assert "train_loss" in caplog.messages[1]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("validated", [True, False], ids=["valid", "no_valid"])
def test_diverged_training(parts: tuple[PackedGraphs, PackedGraphs], validated: bool) -> None:
    data = parts if validated else parts[:1]
    options = FitOptions(lr=1e30, epochs=3, gradient_clip=0.0, warmup_epochs=0)
    with pytest.raises(ValueError, match=r"training diverged: .*(lr=1e\+30|valid_rmse)"):
        fit(small_network(parts[0]), *data, options=options, progress=False)
