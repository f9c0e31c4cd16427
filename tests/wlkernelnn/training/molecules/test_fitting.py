from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import CSVLogger

from tests.inputs.molecules import (
    assert_same_weights,
    classification_set,
    quick,
    regression_set,
    small_network,
)
from wlkernelnn.datasets import BucketResampler, PackedGraphs
from wlkernelnn.training import FitOptions, FitResult, fit, predict, score
from wlkernelnn.training.molecules import fitting
from wlkernelnn.training.molecules.metrics import score_tasks

# What is learned and kept


def sized_set() -> PackedGraphs:
    """Molecules and how many atoms they have, which any network can learn."""
    data = regression_set()
    return data.with_targets(data.arrays.node_ptr.diff().unsqueeze(1).numpy())


@pytest.mark.parametrize("make", [sized_set, classification_set])
def test_loss_goes_down(make: Any) -> None:
    data = make()
    net = small_network(data, readout="sum", hidden_channels=16)
    result = fit(net, data[:40], data[40:], quick(epochs=10, lr=4e-2), progress=False)
    losses = [epoch["train_loss"] for epoch in result.history]
    assert losses[-1] < 0.8 * losses[0]
    assert [epoch["epoch"] for epoch in result.history] == list(range(10))
    assert result.history[0].keys() == {"epoch", "train_loss", "valid_loss", f"valid_{result.metric}"}
    assert not net.training
    assert result.seconds > 0


def bounded_set() -> PackedGraphs:
    """A target whose higher half is known to lie above a weak bound alone."""
    y = regression_set().y.numpy().astype(float)
    bounds = y > np.median(y)
    return regression_set().with_targets(np.where(bounds, y.min(), y), bounds.astype(int))


@pytest.mark.parametrize(
    ("make", "metric", "ema_decay"),
    [
        (regression_set, "rmse", 0.9),
        (bounded_set, "rmse", 0.0),
        (classification_set, "roc_auc", 0.0),
        (classification_set, "roc_auc", 0.9),
        pytest.param(regression_set, "rmse", 0.0, marks=pytest.mark.slow),
        pytest.param(bounded_set, "rmse", 0.9, marks=pytest.mark.slow),
    ],
)
def test_keeps_the_weights_of_the_best_epoch(make: Any, metric: str, ema_decay: float) -> None:
    data = make()
    valid = data[35:]
    net = small_network(data)
    options = quick(epochs=5, lr=0.05, schedule="constant", ema_decay=ema_decay)
    result = fit(net, data[:35], valid, options, progress=False)
    scores = [epoch[f"valid_{metric}"] for epoch in result.history]
    assert result.metric == metric
    assert result.score == (max if metric == "roc_auc" else min)(scores)
    assert scores[result.epoch] == result.score
    assert score(metric, valid.measured.numpy(), predict(net, valid)) == pytest.approx(result.score, rel=1e-6)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_no_unit_of_a_target_chooses_the_epoch(metric: str) -> None:
    """Of two targets, one in other units; at the start both are predicted with about the same error."""
    data, found = regression_set(), []
    sizes = data.arrays.node_ptr.diff().unsqueeze(1).numpy()
    for unit in (1.0, 1000.0):
        of_both = data.with_targets(np.concatenate([data.y.numpy(), unit * sizes], axis=1))
        net, options = small_network(of_both), quick(epochs=3, lr=0.05, schedule="constant", metric=metric)
        result = fit(net, of_both[:35], of_both[35:], options, progress=False)
        found.append([epoch[f"valid_{metric}"] for epoch in result.history])
        error = score_tasks(metric, of_both[35:].measured.numpy(), predict(net, of_both[35:]))
        assert result.score == pytest.approx(float(np.mean(error / net.target_std.numpy())), rel=1e-4)
    np.testing.assert_allclose(*found, rtol=1e-4)
    of_both.description = replace(of_both.description, metric="mae")  # as QM8, which publishes the mean
    result = fit(net, of_both[:35], of_both[35:], quick(epochs=1), progress=False)
    error = score_tasks("mae", of_both[35:].measured.numpy(), predict(net, of_both[35:]))
    assert result.score == pytest.approx(error.mean(), rel=1e-4)


def test_the_best_epoch_need_not_be_the_last(
    parts: tuple[PackedGraphs, PackedGraphs], scored: Callable[[list[float]], None]
) -> None:
    short, long = small_network(parts[0]), small_network(parts[0])
    options = quick(epochs=2, schedule="constant", ema_decay=0.5)
    fit(short, parts[0], options=options, progress=False)
    scored([0.5, 0.1, 0.3, 0.2])
    result = fit(long, *parts, replace(options, epochs=4), progress=False)
    assert (result.epoch, result.score) == (1, pytest.approx(0.1))
    assert_same_weights(long, short)


def test_the_data_set_says_the_metric_unless_the_options_do(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    train, valid = parts
    train = train.index_select(slice(None))
    train.description = replace(train.description, metric="mae")
    assert fit(small_network(train), train, valid, quick(epochs=1), progress=False).metric == "mae"
    options = quick(epochs=1, metric="r2")
    assert fit(small_network(train), train, valid, options, progress=False).metric == "r2"
    train.description = replace(train.description, metric=None)
    assert fit(small_network(train), train, valid, quick(epochs=1), progress=False).metric == "rmse"


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_without_validation_the_last_weights_are_kept(
    parts: tuple[PackedGraphs, PackedGraphs], scored: Callable[[list[float]], None], ema_decay: float
) -> None:
    options = quick(epochs=2, ema_decay=ema_decay)
    net, validated = small_network(parts[0]), small_network(parts[0])
    result = fit(net, parts[0], options=options, progress=False)
    assert math.isnan(result.score)
    assert result.epoch == 1
    assert result.history[0].keys() == {"epoch", "train_loss"}
    scored([0.2, 0.1])
    fit(validated, *parts, options, progress=False)
    assert_same_weights(net, validated)


def test_average_of_the_weights_and_of_what_batch_norm_measured() -> None:
    """One batch an epoch: after two steps, the average is w_1 + (1 − 2/11) (w_2 − w_1)."""
    data = regression_set()[:16]
    nets = {}
    for epochs in (1, 2):
        for ema_decay in (0.0, 0.999):
            net = small_network(data)
            net.norm = torch.nn.BatchNorm1d(net.norm.normalized_shape[0])
            options = quick(epochs=epochs, schedule="constant", ema_decay=ema_decay)
            fit(net, data, options=options, progress=False)
            nets[epochs, ema_decay] = net.state_dict()
    for name, after in nets[2, 0.0].items():
        if after.is_floating_point():
            before = nets[1, 0.0][name]
            torch.testing.assert_close(nets[1, 0.999][name], before)
            torch.testing.assert_close(nets[2, 0.999][name], torch.lerp(before, after, 1 - 2 / 11))
    assert not torch.equal(nets[1, 0.0]["norm.running_mean"], nets[2, 0.0]["norm.running_mean"])


# The options do what they say


def test_seeds(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    nets = [small_network(parts[0], dropout=0.3) for _ in range(3)]
    results = []
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        torch.rand(seed)  # what was drawn before does not matter
        results.append(fit(net, *parts, quick(seed=seed, epochs=2), progress=False))
    assert_same_weights(nets[0], nets[1])
    assert results[0].history == results[1].history
    assert results[0].history != results[2].history


def test_gradient_clipping(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    """A tiny bound makes Adam's ε swallow the steps; 0 is no bound."""
    moved = []
    for bound in (0.0, 1e6, 1e-14):
        net = small_network(parts[0])
        before = copy.deepcopy(net.encoder.table.weight)
        fit(
            net, *parts, quick(epochs=1, gradient_clip=bound, weight_decay=0.0, ema_decay=0.0), progress=False
        )
        moved.append((net.encoder.table.weight - before).abs().max().item())
    assert moved[0] == moved[1] > 1e-3
    assert moved[2] < 1e-5


def test_bucket_width_resamples(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Recorded(BucketResampler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.epochs: list[int] = []
            made.append((kwargs, self))

        def __call__(self, epoch: int) -> np.ndarray:
            self.epochs.append(epoch)
            return super().__call__(epoch)

    monkeypatch.setattr(fitting, "BucketResampler", Recorded)
    fit(small_network(parts[0]), *parts, quick(epochs=2, bucket_width=0.5, seed=3), progress=False)
    kwargs, resampler = made[-1]  # one was made to see whether it can be
    assert kwargs == {"width": 0.5, "seed": 3}
    assert resampler.num_buckets == len(np.unique(np.floor(parts[0].y.numpy() / 0.5)))
    assert set(resampler.epochs) == {0, 1}


# Errors


def fail(*data: PackedGraphs, net: Any = None, **options: Any) -> FitResult:
    return fit(net or small_network(data[0]), *data, options=FitOptions(**options), progress=False)


def test_data_that_do_not_fit(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    train, valid = parts
    expected = "expected at least one graph with 1"
    with pytest.raises(ValueError, match=f"train has 0 graphs with 1 targets, {expected}"):
        fail(train[:0], valid, net=small_network(train))
    with pytest.raises(ValueError, match=f"valid has 0 graphs with 1 targets, {expected}"):
        fail(train, valid[:0])
    with pytest.raises(ValueError, match=f"train has 45 graphs with 2 targets, {expected}"):
        fail(classification_set()[:45], valid, net=small_network(train))


def test_other_containers(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    train, valid = parts
    net = small_network(train)
    with pytest.raises(TypeError, match=r"train must be PackedGraphs, .* got dict"):
        fit(net, dict(enumerate(train)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"valid must be PackedGraphs, .* got list of str"):
        fit(net, train, valid.smiles)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"data must be PackedGraphs, .* \(of one graph: \[data\]\), got Data"
    ):
        predict(net, train[0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="data set '' has no targets"):
        type(net).from_data([])


def test_options_that_do_not_fit(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    with pytest.raises(ValueError, match="mae, r2, spearman for regression, got 'roc_auc'"):
        fail(*parts, metric="roc_auc")
    with pytest.raises(ValueError, match="patience=3 needs valid"):
        fail(parts[0], patience=3)
    with pytest.raises(ValueError, match=r"one target per molecule, got y of shape \(57, 2\)"):
        fail(classification_set(), bucket_width=0.5)
    with pytest.raises(ValueError, match=r"precision must be one of 64-true, .* got 'half'"):
        fail(*parts, precision="half")
    with pytest.raises(ValueError, match="class_weight is of classes, and the targets are numbers"):
        fail(*parts, class_weight="balanced")
    with pytest.raises(
        ValueError, match="class_weight must be balanced or a weight of each class, got 'even'"
    ):
        fail(*parts, class_weight="even")
    with pytest.raises(ValueError, match="abacus"):
        fail(*parts, accelerator="abacus")
    with pytest.raises(ValueError, match="resume=True needs the directory"):
        fit(small_network(parts[0]), *parts, resume=True)


def test_validation_without_the_targets_that_the_metric_needs() -> None:
    data = classification_set()
    single = data[np.flatnonzero((data.y.numpy() != 0).all(1))]
    with pytest.raises(ValueError, match=r"roc_auc cannot be computed for the \d+ graphs of valid"):
        fail(data, single)
    assert math.isfinite(fail(data, single, metric="log_loss", epochs=1).score)


def test_epochs_chosen_by_ranks(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    net = small_network(parts[0])
    result = fit(net, *parts, quick(metric="spearman", lr=0.05), progress=False)
    assert result.score == max(epoch["valid_spearman"] for epoch in result.history)
    assert score("spearman", parts[1].y, predict(net, parts[1])) == pytest.approx(result.score)
    same = regression_set().with_targets(np.ones((60, 1)))
    with pytest.raises(ValueError, match=r"spearman cannot be computed .* or values that differ"):
        fail(parts[0], same, metric="spearman")


def test_targets_without_a_value_to_learn_from(caplog: pytest.LogCaptureFixture) -> None:
    data = classification_set()
    y = data.y.clone()
    y[:40, 1] = torch.nan
    described_data = data.with_targets(y.numpy())
    with caplog.at_level(logging.WARNING, "wlkernelnn"):
        fit(small_network(data), described_data[:40], described_data[40:], quick(epochs=1), progress=False)
    assert "target aza: no training graph has a value of it" in caplog.text
    caplog.clear()
    fit(small_network(data), data[:40], data[40:], quick(epochs=1), progress=False)
    assert "no training graph" not in caplog.text


def test_targets_that_teach_little(caplog: pytest.LogCaptureFixture) -> None:
    y, sides = np.full((60, 3), 5.0), np.zeros((60, 3), int)
    y[:, 1], sides[:, 1] = np.linspace(300, 302, 60), 1
    y[:, 2], sides[1:, 2] = np.linspace(5, 9, 60), -1
    data = regression_set().with_targets(y, sides, target_names=("same", "bounds", "one"))
    net = small_network(data)
    fit(net, data, None, quick(epochs=1), progress=False)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "target same: all training graphs have 5: nothing is learned",
        "target bounds: all values of training graphs are bounds: what is predicted of it follows from them "
        "alone",
    ]
    # Without measured values that differ, bounds say the scale.
    np.testing.assert_allclose(net.target_mean, [5, 301, 7])
    np.testing.assert_allclose(net.target_std, [1, *y[:, 1:].std(0)], rtol=1e-6)


class Seen(Callback):
    """Counts epochs."""

    epochs = 0

    def on_train_epoch_end(self, trainer: object, pl_module: object) -> None:
        self.epochs += 1


def test_callbacks_and_a_logger_of_lightning(tmp_path: Path) -> None:
    data, seen = regression_set(), Seen()
    log = CSVLogger(tmp_path, name="", version="one")
    result = fit(small_network(data), data[:40], data[40:], quick(), callbacks=[seen], logger=log)
    assert seen.epochs == len(result.history) == 3
    table = pd.read_csv(tmp_path / "one" / "metrics.csv")
    logged = table.groupby("epoch")["valid_rmse"].max().tolist()
    assert logged == pytest.approx([epoch["valid_rmse"] for epoch in result.history], rel=1e-5)


def test_balanced_classes_find_a_rare_one() -> None:
    """One molecule of eight is of class 1: weights make it more probable."""
    data = regression_set()[:40].compact()
    y = (np.arange(40) % 8 == 0).astype(float)
    data = data.with_targets(y, task="classification", metric="log_loss")
    found = []
    for class_weight in (None, "balanced"):
        net = small_network(data)
        fit(net, data, options=quick(class_weight=class_weight, epochs=2), progress=False)
        found.append(predict(net, data)[:, 0])
    assert found[0].mean() < found[1].mean() - 0.03


def test_networks_of_other_classes_are_refused() -> None:
    data = regression_set()[:40].compact()
    three, four = (data.with_targets(np.arange(40) % n, task="multiclass") for n in (3, 4))
    with pytest.raises(ValueError, match="train has 4 classes, expected the 3 of the network"):
        fit(small_network(three), four)
    with pytest.raises(ValueError, match="train has a regression and not classes, expected the 3"):
        fit(small_network(three), data)
