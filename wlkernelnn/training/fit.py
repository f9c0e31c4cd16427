"""Train a network on a packed data set."""

from __future__ import annotations

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import rich
import torch
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    RichProgressBar,
    WeightAveraging,
)
from pytorch_lightning.utilities.exceptions import MisconfigurationException
from torch import Tensor

from wlkernelnn.datasets import BucketResampler, PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork

from .metrics import DEFAULT_METRIC, get_metric, score
from .module import NetworkModule
from .options import FitOptions

logger = logging.getLogger("wlkernelnn")

EVALUATION_BATCH = 512


@dataclass
class FitResult:
    """What :func:`fit` did.

    Attributes:
        metric: Name of the validation metric.
        score: Its value at the epoch whose weights were kept; NaN without validation data.
        epoch: That epoch, counted from 0.
        history: One dict per epoch: ``epoch``, ``train_loss``, ``valid_loss``, ``valid_<metric>``.
        seconds: Wall time.
    """

    metric: str
    score: float
    epoch: int
    history: list[dict[str, float]]
    seconds: float


class _History(Callback):
    """Keeps what was measured, epoch by epoch, through interruptions, and tells it unless a bar does."""

    def __init__(self, tell: bool) -> None:
        self.tell = tell
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        measured = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        self.epochs.append({"epoch": trainer.current_epoch, **measured})
        if self.tell:
            values = ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
            logger.info(f"epoch {trainer.current_epoch} of {trainer.max_epochs}: {values}")

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs = state_dict["epochs"]


def _moving_average(decay: float) -> Any:
    """Exponential averaging whose memory grows with the number of steps, up to ``decay``."""

    @torch.no_grad()
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Tensor) -> None:
        steps = int(num_averaged)
        weight = 1.0 - min(decay, (1 + steps) / (10 + steps))
        # Lightning makes the copy that is averaged before it converts the network to, say, float64.
        alike = [new.to(old.dtype) for old, new in zip(averaged, current, strict=True)]
        torch._foreach_lerp_(list(averaged), alike, weight)

    return update


def fit(
    net: GraphKernelNetwork,
    train: PackedGraphs,
    valid: PackedGraphs | None = None,
    options: FitOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> FitResult:
    """Train ``net`` in place; afterwards it holds the weights of the best validation epoch.

    Without ``valid`` the last weights are kept. The same arguments on the same machine give the same weights,
    also if training was interrupted and resumed.

    Args:
        net: The network.
        train, valid: Graphs with targets (NaN = missing).
        options: How to train.
        directory: Where Lightning keeps its checkpoints of the run, for ``resume``; default nowhere.
        resume: Go on from the last epoch that lies in ``directory``, if there is one.
        progress: Show a progress bar, if there is a terminal or notebook to show it in. Without it, a line
            per epoch goes to the logger ``wlkernelnn``.

    Raises:
        ValueError: No training graphs, targets that don't fit the network, an unknown metric or one that
            ``valid`` cannot be scored by, ``patience`` without ``valid``, ``resume`` without ``directory`` or
            from a damaged file, an accelerator that this machine lacks, or training diverged.
    """
    options = options or FitOptions()
    if resume and directory is None:
        raise ValueError("resume=True needs the directory of the run that was interrupted")
    for name, data in (("train", train), ("valid", valid)):
        if data is not None and (len(data) == 0 or data.num_tasks != net.config["num_tasks"]):
            raise ValueError(
                f"{name} has {len(data)} graphs with {data.num_tasks} targets, expected at least one graph "
                f"with {net.config['num_tasks']}"
            )
    metric = options.metric or train.metric or DEFAULT_METRIC[net.task]
    maximize = get_metric(metric, net.task).maximize
    if valid is not None and math.isnan(score(metric, valid.y.numpy(), np.zeros(valid.y.shape))):
        raise ValueError(
            f"{metric} cannot be computed for the {len(valid)} graphs of valid: no task has the targets that "
            "it needs (two classes, for example); take another split or metric"
        )
    if options.patience and valid is None:
        raise ValueError(f"patience={options.patience} needs valid, whose score it watches")

    start = time.perf_counter()
    dtype = net.target_mean.dtype
    resample = None
    if options.bucket_width:
        resample = BucketResampler(train.y.numpy(), width=options.bucket_width, seed=options.seed)
    loader = PackedLoader(
        train,
        options.batch_size,
        shuffle=resample is None,
        seed=options.seed,
        resample=resample,
        quotient=net.quotient_depth,
    )
    module = NetworkModule(net, options, metric, len(loader))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(directory or scratch)
        monitor, mode = (
            (f"valid_{metric}", "max" if maximize else "min") if valid is not None else (None, "min")
        )
        newest = ModelCheckpoint(
            folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        best = newest
        if monitor is not None:
            best = ModelCheckpoint(
                folder, filename="best", monitor=monitor, mode=mode, enable_version_counter=False
            )
        console = rich.get_console()
        bar = progress and (console.is_terminal or console.is_jupyter)
        history = _History(tell=not bar)
        # The newest checkpoint comes last: it also keeps what the others remember of this epoch.
        callbacks: list[Callback] = [history, *([best] if best is not newest else []), newest]
        if options.ema_decay:
            callbacks.append(
                WeightAveraging(use_buffers=False, multi_avg_fn=_moving_average(options.ema_decay))
            )
        if options.patience and monitor is not None:
            callbacks.append(EarlyStopping(monitor, patience=options.patience, mode=mode))
        if bar:
            callbacks.append(RichProgressBar())
        last = folder / "last.ckpt"
        with _quiet(), _plain_errors(), _matmul_precision(options.matmul_precision):
            trainer = pl.Trainer(
                max_epochs=options.epochs,
                accelerator=options.accelerator,
                devices=1,
                precision=options.precision,  # type: ignore[arg-type]  # checked by Lightning
                gradient_clip_val=options.gradient_clip or None,
                callbacks=callbacks,
                logger=False,
                enable_progress_bar=bar,
                enable_model_summary=False,
                inference_mode=False,  # EdgeIndex cannot be used in it
                num_sanity_val_steps=0,
                default_root_dir=folder,
            )
            trainer.fit(
                module,
                loader,
                None if valid is None else PackedLoader(valid, EVALUATION_BATCH, quotient=net.quotient_depth),
                ckpt_path=_whole(last) if resume and last.exists() else None,
                weights_only=True,
            )
        kept = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    net.to(dtype)  # precisions such as "64-true" have converted it
    net.load_state_dict({name.removeprefix("net."): value for name, value in kept["state_dict"].items()})
    net.eval()
    best_score = float("nan") if best.best_model_score is None else float(best.best_model_score)
    if math.isinf(best_score):  # Lightning's value for NaN
        raise ValueError(f"training diverged: valid_{metric} was a number in no epoch")
    return FitResult(metric, best_score, int(kept["epoch"]), history.epochs, time.perf_counter() - start)


def _whole(checkpoint: Path) -> Path:
    """The path, if torch can read what lies there."""
    try:
        torch.load(checkpoint, map_location="meta", weights_only=True)
    except Exception as error:  # of many kinds, by where the file was cut
        raise ValueError(
            f"{checkpoint}: not a whole checkpoint; delete it to train from the start"
        ) from error
    return checkpoint


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning's hints at what was decided on purpose stay out of the user's terminal."""
    lightning = logging.getLogger("pytorch_lightning")
    level = lightning.level
    with warnings.catch_warnings():
        for pattern in (
            ".*does not have many workers.*",
            ".*Checkpoint directory .* exists and is not empty.*",
            ".*LeafSpec.*",
            ".*number of training batches.*",
            ".*no `val_dataloader`.*",
        ):
            warnings.filterwarnings("ignore", pattern)
        lightning.setLevel(logging.WARNING)
        try:
            yield
        finally:
            lightning.setLevel(level)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What Lightning refuses is a ``ValueError``, and Ctrl-C stays a ``KeyboardInterrupt``."""
    try:
        yield
    except MisconfigurationException as error:
        raise ValueError(" ".join(str(error).split())) from error
    except SystemExit as error:  # Lightning's way out, which would end a notebook
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
