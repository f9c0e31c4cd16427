from __future__ import annotations

import copy
import importlib
import logging
import math
import signal
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich
import torch
from rich.console import Console

from tests.molecules import (
    assert_same_weights,
    classification_set,
    quick,
    regression_set,
    small_network,
)
from wlkernelnn.datasets import BucketResampler, PackedGraphs
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import DivergedError, FitOptions, FitResult, fit, predict, score
from wlkernelnn.training.module import NetworkModule


@pytest.fixture
def parts() -> tuple[PackedGraphs, PackedGraphs]:
    data = regression_set()
    return data[:45], data[45:]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second batch of epoch 2."""
    step = NetworkModule.training_step

    def interrupted(self: NetworkModule, batch: Any, batch_idx: int) -> torch.Tensor:
        if (self.current_epoch, batch_idx) == (2, 1):
            raise KeyboardInterrupt
        return step(self, batch, batch_idx)

    monkeypatch.setattr(NetworkModule, "training_step", interrupted)


def scored(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Let validation find these scores, epoch after epoch."""
    scores = iter(values)
    monkeypatch.setattr("wlkernelnn.training.module.score", lambda *_: next(scores))


# What is learned and kept


def sized_set() -> PackedGraphs:
    """Molecules and how many atoms they have, which any network can learn."""
    data = regression_set()
    return data.with_targets(data.arrays.node_ptr.diff().unsqueeze(1).numpy())


@pytest.mark.parametrize("make", [sized_set, classification_set])
def test_loss_goes_down(make: Any) -> None:
    data = make()
    net = small_network(data, readout="sum", hidden_channels=16)
    result = fit(net, data[:40], data[40:], quick(epochs=20, lr=2e-2), progress=False)
    losses = [epoch["train_loss"] for epoch in result.history]
    assert losses[-1] < 0.8 * losses[0]
    assert [epoch["epoch"] for epoch in result.history] == list(range(20))
    assert result.history[0].keys() == {"epoch", "train_loss", "valid_loss", f"valid_{result.metric}"}
    assert not net.training
    assert result.seconds > 0


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
@pytest.mark.parametrize(
    ("make", "metric"), [(regression_set, "rmse"), (classification_set, "roc_auc")], ids=["rmse", "roc_auc"]
)
def test_keeps_the_weights_of_the_best_epoch(make: Any, metric: str, ema_decay: float) -> None:
    data = make()
    valid = data[35:]
    net = small_network(data)
    options = quick(epochs=8, lr=0.05, schedule="constant", ema_decay=ema_decay)
    result = fit(net, data[:35], valid, options, progress=False)
    scores = [epoch[f"valid_{metric}"] for epoch in result.history]
    assert result.metric == metric
    assert result.score == (max if metric == "roc_auc" else min)(scores)
    assert scores[result.epoch] == result.score
    assert score(metric, valid.y.numpy(), predict(net, valid)) == pytest.approx(result.score, rel=1e-6)


def test_the_best_epoch_need_not_be_the_last(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = small_network(parts[0]), small_network(parts[0])
    options = quick(epochs=2, schedule="constant", ema_decay=0.5)
    fit(short, parts[0], options=options, progress=False)
    scored(monkeypatch, [0.5, 0.1, 0.3, 0.2])
    result = fit(long, *parts, replace(options, epochs=4), progress=False)
    assert (result.epoch, result.score) == (1, pytest.approx(0.1))
    assert_same_weights(long, short)


@pytest.mark.parametrize(
    ("metric", "scores"),
    [("rmse", [0.5, 0.1, 0.3, 0.2, 0.05]), ("r2", [0.5, 0.9, 0.7, 0.8, 0.95])],
    ids=["minimize", "maximize"],
)
def test_early_stopping_in_the_direction_of_the_metric(
    parts: tuple[PackedGraphs, PackedGraphs],
    monkeypatch: pytest.MonkeyPatch,
    metric: str,
    scores: list[float],
) -> None:
    scored(monkeypatch, scores)
    options = quick(epochs=5, patience=2, metric=metric)
    result = fit(small_network(parts[0]), *parts, options, progress=False)
    assert len(result.history) == 4
    assert (result.metric, result.epoch) == (metric, 1)
    assert result.score == pytest.approx(scores[1])


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
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch, ema_decay: float
) -> None:
    options = quick(epochs=2, ema_decay=ema_decay)
    net, validated = small_network(parts[0]), small_network(parts[0])
    result = fit(net, parts[0], options=options, progress=False)
    assert math.isnan(result.score)
    assert result.epoch == 1
    assert result.history[0].keys() == {"epoch", "train_loss"}
    scored(monkeypatch, [0.2, 0.1])
    fit(validated, *parts, options, progress=False)
    assert_same_weights(net, validated)


def test_average_of_the_weights() -> None:
    """One batch an epoch: after two steps, the average is w_1 + (1 − 2/11) (w_2 − w_1)."""
    data = regression_set()[:16]
    nets = {}
    for epochs in (1, 2):
        for ema_decay in (0.0, 0.999):
            net = small_network(data)
            options = quick(epochs=epochs, schedule="constant", ema_decay=ema_decay)
            fit(net, data, options=options, progress=False)
            nets[epochs, ema_decay] = net.encoder.table.weight
    torch.testing.assert_close(nets[1, 0.999], nets[1, 0.0])
    torch.testing.assert_close(nets[2, 0.999], torch.lerp(nets[1, 0.0], nets[2, 0.0], 1 - 2 / 11))


# The options do what they say


def test_seeds(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    nets = [small_network(parts[0], dropout=0.3) for _ in range(3)]
    results = []
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        torch.rand(seed)  # what was drawn before does not matter
        results.append(fit(net, *parts, quick(seed=seed), progress=False))
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

    module = importlib.import_module("wlkernelnn.training.fit")  # its function hides it in the package
    monkeypatch.setattr(module, "BucketResampler", Recorded)
    fit(small_network(parts[0]), *parts, quick(epochs=2, bucket_width=0.5, seed=3), progress=False)
    kwargs, resampler = made[-1]  # one was made to see whether it can be
    assert kwargs == {"width": 0.5, "seed": 3}
    assert resampler.num_buckets == len(np.unique(np.floor(parts[0].y.numpy() / 0.5)))
    assert set(resampler.epochs) == {0, 1}


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_precision(parts: tuple[PackedGraphs, PackedGraphs], precision: str) -> None:
    net = small_network(parts[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*CPU autocast.*")
        result = fit(net, *parts, quick(epochs=8, precision=precision), progress=False)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    assert {value.dtype for value in net.state_dict().values()} == {torch.float32}
    exact = score("rmse", parts[1].y.numpy(), predict(net, parts[1]))
    assert exact == pytest.approx(result.score, rel=1e-5 if precision == "64-true" else 0.05)


def test_matmul_precision_is_for_training_only(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    start = NetworkModule.on_train_epoch_start

    def spy(self: NetworkModule) -> None:
        seen.append(torch.get_float32_matmul_precision())
        start(self)

    monkeypatch.setattr(NetworkModule, "on_train_epoch_start", spy)
    fit(small_network(parts[0]), *parts, quick(epochs=1, matmul_precision="medium"), progress=False)
    assert seen == ["medium"]
    assert torch.get_float32_matmul_precision() == "highest"


# Interrupted and resumed


@pytest.mark.parametrize(
    "kwargs",
    [{"ema_decay": 0.9, "patience": 3}, {"ema_decay": 0.0, "bucket_width": 0.5, "schedule": "exponential"}],
    ids=["average", "buckets"],
)
@pytest.mark.usefixtures("interrupt")
def test_resumed_training_equals_uninterrupted_training(
    parts: tuple[PackedGraphs, PackedGraphs],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kwargs: dict[str, Any],
) -> None:
    options = quick(epochs=5, warmup_epochs=1, lr_decay_samples=50, **kwargs)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(small_network(parts[0], dropout=0.3), *parts, options, directory=tmp_path, progress=False)
    assert signal.getsignal(signal.SIGINT) is handler
    monkeypatch.undo()

    torch.rand(7)
    resumed, straight = small_network(parts[0], dropout=0.3), small_network(parts[0], dropout=0.3)
    resumed.reset_parameters()  # nothing of these weights is used
    again = fit(resumed, *parts, options, directory=tmp_path, resume=True, progress=False)
    result = fit(straight, *parts, options, progress=False)
    assert_same_weights(resumed, straight)
    assert again.history == result.history
    assert (again.epoch, again.score) == (result.epoch, result.score)


def test_resuming_what_has_ended(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    net, again = small_network(parts[0]), small_network(parts[0])
    # Nothing to resume from yet: starts.
    result = fit(net, *parts, quick(), directory=tmp_path, resume=True, progress=False)
    ended = fit(again, *parts, quick(), directory=tmp_path, resume=True, progress=False)
    assert_same_weights(net, again)
    assert (ended.history, ended.score, ended.epoch) == (result.history, result.score, result.epoch)


def test_resuming_from_a_damaged_file(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    last = tmp_path / "last.ckpt"
    last.write_bytes(last.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"last\.ckpt: not a whole checkpoint; delete it"):
        fit(small_network(parts[0]), *parts, quick(), directory=tmp_path, resume=True, progress=False)


def test_a_new_training_in_a_used_directory(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    nets = [small_network(parts[0]) for _ in range(2)]
    results = [fit(net, *parts, quick(), directory=tmp_path, progress=False) for net in nets]
    assert_same_weights(*nets)
    assert results[0].history == results[1].history


# What the user sees


def test_a_line_per_epoch_without_a_terminal(
    parts: tuple[PackedGraphs, PackedGraphs],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        result = fit(small_network(parts[0]), *parts, quick(epochs=2))
    assert [record.message.partition(":")[0] for record in caplog.records] == ["epoch 0 of 2", "epoch 1 of 2"]
    assert f"valid_rmse {result.history[1]['valid_rmse']:.4g}" in caplog.messages[1]
    assert "train_loss" in caplog.messages[1]
    assert capfd.readouterr().out == ""


def test_a_progress_bar_in_a_terminal(
    parts: tuple[PackedGraphs, PackedGraphs],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rich, "_console", Console(force_terminal=True))
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        fit(small_network(parts[0]), *parts, quick(epochs=1))
    assert caplog.messages == []
    assert "Epoch 0/0" in capsys.readouterr().out


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


def test_options_that_do_not_fit(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    with pytest.raises(ValueError, match="metric must be one of rmse, mae, r2 for regression, got 'roc_auc'"):
        fail(*parts, metric="roc_auc")
    with pytest.raises(ValueError, match="patience=3 needs valid"):
        fail(parts[0], patience=3)
    with pytest.raises(ValueError, match=r"one target per molecule, got y of shape \(57, 2\)"):
        fail(classification_set(), bucket_width=0.5)
    with pytest.raises(ValueError, match=r"precision must be one of 64-true, .* got 'half'"):
        fail(*parts, precision="half")
    with pytest.raises(ValueError, match="abacus"):
        fail(*parts, accelerator="abacus")
    with pytest.raises(ValueError, match="resume=True needs the directory"):
        fit(small_network(parts[0]), *parts, resume=True)


def test_an_accelerator_that_is_not_there(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match=r"(?i)no supported gpu"):
        fail(*parts, accelerator="gpu")


def test_validation_without_the_targets_that_the_metric_needs() -> None:
    data = classification_set()
    single = data[np.flatnonzero((data.y.numpy() != 0).all(1))]
    with pytest.raises(ValueError, match=r"roc_auc cannot be computed for the \d+ graphs of valid"):
        fail(data, single)
    assert math.isfinite(fail(data, single, metric="log_loss", epochs=1).score)


@pytest.mark.parametrize("validated", [True, False], ids=["valid", "no_valid"])
def test_diverged_training(parts: tuple[PackedGraphs, PackedGraphs], validated: bool) -> None:
    data = parts if validated else parts[:1]
    with pytest.raises(ValueError, match=r"training diverged: .*(lr=1e\+30|valid_rmse)"):
        fail(*data, lr=1e30, epochs=3, gradient_clip=0.0, warmup_epochs=0)


def test_scores_that_are_never_numbers(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, [math.nan] * 2)
    with pytest.raises(DivergedError, match="training diverged: valid_rmse was a number in no epoch"):
        fail(*parts, epochs=2)


def test_what_is_drawn_later_does_not_depend_on_training() -> None:
    data = regression_set()
    network = small_network(data)
    state = torch.get_rng_state()
    fit(network, data, None, quick(epochs=1), progress=False)
    assert torch.equal(torch.get_rng_state(), state)


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
            r"has network \['GraphKernelNetwork', .*'dropout': 0",
        ),
    ):
        with pytest.raises(ValueError, match=rf"last\.ckpt: the training to resume {message}"):
            resumed(*given, **options)
    resumed(net, *parts, patience=5)


@pytest.mark.parametrize("done", [2, 4], ids=["interrupted", "ended"])
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
        fit(net, *parts, quick(epochs=4, **options), directory=tmp_path / name, resume=True, progress=False)
        for net, name in zip(nets, ("there", "here"), strict=True)
    )
    assert_same_weights(*nets)
    assert (here.epoch, here.score, here.history) == (there.epoch, there.score, there.history)
    assert here.epoch < 3  # or nothing would have been forgotten


def test_an_earlier_training_is_not_resumed_for_a_new_one(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NetworkModule, "training_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    assert not (tmp_path / "last.ckpt").exists()
