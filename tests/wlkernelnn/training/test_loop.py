from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rich
import torch
from rich.console import Console

from tests.inputs.molecules import assert_same_weights, quick, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.training import DivergedError, fit, predict, score
from wlkernelnn.training.molecules.module import NetworkModule


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second batch of epoch 2."""
    step = NetworkModule.training_step

    def interrupted(self: NetworkModule, batch: Any, batch_idx: int) -> torch.Tensor:
        if (self.current_epoch, batch_idx) == (2, 1):
            raise KeyboardInterrupt
        return step(self, batch, batch_idx)

    monkeypatch.setattr(NetworkModule, "training_step", interrupted)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_precision(parts: tuple[PackedGraphs, PackedGraphs], precision: str) -> None:
    net = small_network(parts[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*CPU autocast.*")
        result = fit(net, *parts, quick(epochs=4, precision=precision), progress=False)
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
    options = quick(epochs=4, warmup_epochs=1, lr_decay_samples=50, **kwargs)
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


def test_a_kill_while_a_checkpoint_is_written(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch before is still there: nothing is moved into its place that is not whole."""
    options, count = quick(epochs=2), 0
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        nonlocal count
        count += target.name == "last.ckpt"
        if count == 2:
            source.write_bytes(source.read_bytes()[:1000])
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        fit(small_network(parts[0]), *parts, options, directory=tmp_path, progress=False)
    monkeypatch.undo()
    resumed, straight = small_network(parts[0]), small_network(parts[0])
    again = fit(resumed, *parts, options, directory=tmp_path, resume=True, progress=False)
    result = fit(straight, *parts, options, progress=False)
    assert_same_weights(resumed, straight)
    assert again.history == result.history


def test_checkpoints_need_no_temporary_folder(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on another disk: a move from there is a copy, which a kill cuts short."""

    def moved(*_: Any) -> None:
        raise AssertionError("copied from a temporary folder")

    def unwritable() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("shutil.move", moved)
    monkeypatch.setattr("tempfile.TemporaryDirectory", unwritable)
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "best.ckpt", "last.ckpt"]


def test_a_folder_deleted_during_the_training(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = NetworkModule.training_step

    def deleting(self: NetworkModule, batch: Any, batch_idx: int) -> torch.Tensor:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return step(self, batch, batch_idx)

    monkeypatch.setattr(NetworkModule, "training_step", deleting)
    with pytest.raises(FileNotFoundError, match="run: was deleted during the training"):
        fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path / "run", progress=False)


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "fit", "SLURM_NTASKS": "4", "SLURM_PROCID": "2"},
        {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_SIZE": "2"},
    ],
    ids=["slurm", "ranks"],
)
def test_variables_of_clusters_steer_nothing(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with_them, without = small_network(parts[0]), small_network(parts[0])
    fit(with_them, *parts, quick(epochs=1), progress=False)
    for name in variables:
        monkeypatch.delenv(name)
    fit(without, *parts, quick(epochs=1), progress=False)
    assert_same_weights(with_them, without)


def test_several_processes_of_torchrun(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun started 2 processes, and a training of one device"):
        fit(small_network(parts[0]), *parts, quick(epochs=1), progress=False)


def test_resuming_what_has_ended(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    net, again = small_network(parts[0]), small_network(parts[0])
    # Nothing to resume from yet: starts.
    result = fit(net, *parts, quick(epochs=2), directory=tmp_path, resume=True, progress=False)
    ended = fit(again, *parts, quick(epochs=2), directory=tmp_path, resume=True, progress=False)
    assert_same_weights(net, again)
    assert (ended.history, ended.score, ended.epoch) == (result.history, result.score, result.epoch)


def test_resuming_from_a_damaged_file(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    last = tmp_path / "last.ckpt"
    last.write_bytes(last.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"last\.ckpt: missing or not a whole checkpoint; delete "):
        fit(small_network(parts[0]), *parts, quick(), directory=tmp_path, resume=True, progress=False)


def test_a_damaged_best_file_is_found_before_hours_of_training(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    best = tmp_path / "best.ckpt"
    best.write_bytes(best.read_bytes()[:2000])

    def train(*_: Any) -> None:
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(NetworkModule, "training_step", train)
    with pytest.raises(ValueError, match=r"best\.ckpt: missing or not a whole checkpoint; delete .*last"):
        fit(small_network(parts[0]), *parts, quick(), directory=tmp_path, resume=True, progress=False)


def test_a_new_training_in_a_used_directory(parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path) -> None:
    nets = [small_network(parts[0]) for _ in range(2)]
    results = [fit(net, *parts, quick(epochs=2), directory=tmp_path, progress=False) for net in nets]
    assert_same_weights(*nets)
    assert results[0].history == results[1].history


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


def test_an_accelerator_that_is_not_there(parts: tuple[PackedGraphs, PackedGraphs]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match=r"(?i)no supported gpu"):
        fit(small_network(parts[0]), *parts, quick(accelerator="gpu"))


def test_scores_that_are_never_numbers(
    parts: tuple[PackedGraphs, PackedGraphs], scored: Callable[[list[float]], None]
) -> None:
    scored([math.nan] * 2)
    with pytest.raises(
        DivergedError, match="training diverged: valid_rmse was a number in no epoch"
    ) as raised:
        fit(small_network(parts[0]), *parts, quick(epochs=2), progress=False)
    assert raised.value.epoch == 1


def test_weights_that_overflow_when_they_are_converted(
    parts: tuple[PackedGraphs, PackedGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of "64-true", which float32 cannot hold; no loss is computed any more."""

    def grow(self: NetworkModule) -> None:
        with torch.no_grad():
            next(self.parameters())[0, 0] = 1e300

    monkeypatch.setattr(NetworkModule, "on_train_epoch_end", grow)
    options = quick(epochs=1, precision="64-true", ema_decay=0.0)
    with pytest.raises(DivergedError, match=r"training diverged: model\.\S+ has values that are not finite"):
        fit(small_network(parts[0]), parts[0], None, options, progress=False)


def test_told_to_end(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by ``kill``, ``timeout`` or a queue: nobody must take it for the end of the training."""
    step = NetworkModule.training_step

    def ended(self: NetworkModule, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.current_epoch == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, batch, batch_idx)

    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        patched.setattr(NetworkModule, "training_step", ended)
        with pytest.raises(KeyboardInterrupt, match="by SIGTERM"):
            fit(small_network(parts[0]), *parts, quick(epochs=2), directory=tmp_path, progress=False)
    assert signal.getsignal(signal.SIGTERM) is handler
    again = fit(
        small_network(parts[0]), *parts, quick(epochs=2), directory=tmp_path, resume=True, progress=False
    )
    assert again.history == fit(small_network(parts[0]), *parts, quick(epochs=2), progress=False).history


def test_what_is_drawn_later_does_not_depend_on_training() -> None:
    data = regression_set()
    network = small_network(data)
    state = torch.get_rng_state()
    fit(network, data, None, quick(epochs=1), progress=False)
    assert torch.equal(torch.get_rng_state(), state)


def test_one_training_in_a_directory_at_a_time(
    parts: tuple[PackedGraphs, PackedGraphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wlkernelnn.training.loop.alone_in", _taken)
    with pytest.raises(FileExistsError, match="another process"):
        fit(small_network(parts[0]), *parts, quick(epochs=1), directory=tmp_path, progress=False)
    assert not (tmp_path / "last.ckpt").exists()


def _taken(folder: Path) -> Any:
    raise FileExistsError(f"{folder}: another process works there")
