"""Lightning's loop with what every training here wants: the best weights kept, resumption, plain errors."""

from __future__ import annotations

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import rich
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from .allocator import freed_memory_kept

logger = logging.getLogger("wlkernelnn")


@dataclass
class FitResult:
    """What a training did.

    Attributes:
        metric: Name of the validation metric.
        score: Its value at the epoch whose weights were kept; NaN without validation data.
        epoch: That epoch, counted from 0.
        history: One dict per epoch: ``epoch``, its wall time ``seconds``, and what was measured, such as
            ``train_loss``.
        seconds: Wall time of this call.
    """

    metric: str
    score: float
    epoch: int
    history: list[dict[str, float]]
    seconds: float


class Watched(NamedTuple):
    """What decides which epoch is the best.

    Attributes:
        metric: Its name, logged as ``valid_<metric>``.
        maximize: Whether more is better.
        patience: Stop after that many epochs without a better value, 0 for never.
    """

    metric: str
    maximize: bool
    patience: int = 0


def train_module(
    module: pl.LightningModule,
    batches: Iterable[Any],
    valid_batches: Iterable[Any] | None,
    watched: Watched,
    *,
    epochs: int,
    gradient_clip: float,
    precision: str,
    accelerator: str,
    matmul_precision: str,
    directory: str | Path | None,
    resume: bool,
    progress: bool,
    callbacks: Sequence[Callback] = (),
) -> FitResult:
    """Train ``module`` in place; afterwards it holds the weights of the best validation epoch.

    Without ``valid_batches`` the last weights are kept.

    Args:
        module: What is trained; it logs ``valid_<metric>``.
        batches, valid_batches: What goes to its steps.
        watched: See :class:`Watched`.
        epochs, gradient_clip, precision, accelerator, matmul_precision: As in
            :class:`~wlkernelnn.training.FitOptions`.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.
        callbacks: More of Lightning's.

    Raises:
        ValueError: ``resume`` without ``directory`` or from a damaged file, an accelerator that this machine
            lacks, or training diverged.
    """
    if resume and directory is None:
        raise ValueError("resume=True needs the directory of the run that was interrupted")
    start = time.perf_counter()
    monitor, mode = None, "min"
    if valid_batches is not None:
        monitor, mode = f"valid_{watched.metric}", "max" if watched.maximize else "min"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(directory or scratch)
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
        all_callbacks = [history, *([best] if best is not newest else []), newest, *callbacks]
        if watched.patience and monitor is not None:
            all_callbacks.append(EarlyStopping(monitor, patience=watched.patience, mode=mode))
        if bar:
            all_callbacks.append(RichProgressBar())
        last = folder / "last.ckpt"
        with _quiet(), _plain_errors(), _matmul_precision(matmul_precision), freed_memory_kept():
            trainer = pl.Trainer(
                max_epochs=epochs,
                accelerator=accelerator,
                devices=1,
                precision=precision,  # type: ignore[arg-type]  # checked by Lightning
                gradient_clip_val=gradient_clip or None,
                callbacks=all_callbacks,
                logger=False,
                enable_progress_bar=bar,
                enable_model_summary=False,
                inference_mode=False,  # EdgeIndex cannot be used in it
                num_sanity_val_steps=0,
                default_root_dir=folder,
            )
            trainer.fit(
                module,
                batches,
                valid_batches,
                ckpt_path=_whole(last) if resume and last.exists() else None,
                weights_only=True,
            )
        kept = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    module.load_state_dict(kept["state_dict"])
    module.eval()
    best_score = float("nan") if best.best_model_score is None else float(best.best_model_score)
    if math.isinf(best_score):  # Lightning's value for NaN
        raise ValueError(f"training diverged: valid_{watched.metric} was a number in no epoch")
    return FitResult(
        watched.metric, best_score, int(kept["epoch"]), history.epochs, time.perf_counter() - start
    )


def seed_epoch(seed: int, epoch: int) -> None:
    """Dropout depends on the seed and the epoch alone: a resumed run draws what one run would have drawn."""
    torch.manual_seed(int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0]))


def check_loss(module: pl.LightningModule, lr: float, gradient_clip: float) -> None:
    """Refuse to go on after an epoch whose ``train_loss`` is not a finite number."""
    loss = float(module.trainer.callback_metrics["train_loss"])
    if not math.isfinite(loss):
        raise ValueError(
            f"training diverged: the loss of epoch {module.current_epoch} is {loss}; lower the learning "
            f"rate (lr={lr:g}) or bound the gradient (gradient_clip={gradient_clip:g})"
        )


class _History(Callback):
    """Keeps what was measured, epoch by epoch, through interruptions, and tells it unless a bar does."""

    def __init__(self, tell: bool) -> None:
        self.tell = tell
        self.epochs: list[dict[str, float]] = []
        self._start = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._start = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        measured = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        seconds = time.perf_counter() - self._start
        self.epochs.append({"epoch": trainer.current_epoch, "seconds": seconds, **measured})
        if self.tell:
            values = ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
            logger.info(f"epoch {trainer.current_epoch} of {trainer.max_epochs}: {values}")

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs = state_dict["epochs"]


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
