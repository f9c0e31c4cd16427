"""What a training here does beside its steps: keeps, resumes, watches, tells."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint

from .options import LoopOptions

logger = logging.getLogger("wlkernelnn")

# After how many batches the loss is looked at again: on a GPU this waits for it.
WATCHED_BATCHES = 50
# Options that a training which is resumed may have others of.
MAY_DIFFER = ("epochs", "patience", "accelerator")


class DivergedError(ValueError):
    """Training led to values that are no numbers.

    Attributes:
        epoch: In which epoch, counted from 0.
    """

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class Origin(Callback):
    """Refuses to go on with the training of something else: of other data (by their digest) or options."""

    def __init__(self, origin: Mapping[str, Any], options: LoopOptions, path: Path) -> None:
        of = {name: part.digest() if hasattr(part, "digest") else part for name, part in origin.items()}
        told = {name: value for name, value in asdict(options).items() if name not in MAY_DIFFER}
        self.origin = json.loads(json.dumps(of | told))  # as it comes from a file
        self.path = path

    def state_dict(self) -> dict[str, Any]:
        return self.origin

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, value in self.origin.items():
            if name in state_dict and state_dict[name] != value:
                raise ValueError(
                    f"{self.path}: the training to resume has {name} {state_dict[name]}, and this is {value}"
                )


def whole(checkpoint: Path) -> Path:
    """The path, if torch can read what lies there.

    Raises:
        ValueError: It cannot.
    """
    try:
        torch.load(checkpoint, map_location="meta", weights_only=True)
    except Exception as error:  # of many kinds, by where the file was cut
        raise ValueError(
            f"{checkpoint}: missing or not a whole checkpoint; delete {checkpoint.with_name('last.ckpt')} to "
            "train from the start"
        ) from error
    return checkpoint


class Checkpoint(ModelCheckpoint):
    """One that may have been moved: what it remembers lies where it lies, and is looked at at once."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        assert self.dirpath is not None
        folder = Path(self.dirpath)
        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        here = {name: str(folder / Path(state_dict[name]).name) for name in paths if state_dict[name]}
        of_best = {
            str(folder / Path(path).name): score for path, score in state_dict["best_k_models"].items()
        }
        if best := here.get("best_model_path"):
            whole(Path(best))  # else hours of training end with it
        super().load_state_dict({**state_dict, **here, "dirpath": self.dirpath, "best_k_models": of_best})


class Watchdog(Callback):
    """Ends a training, of a module with ``options``, when its loss is not finite: epochs can be long."""

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % WATCHED_BATCHES == 0:
            self._check(pl_module, float(outputs["loss"]))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._check(pl_module, float(trainer.callback_metrics["train_loss"]))

    @staticmethod
    def _check(module: pl.LightningModule, loss: float) -> None:
        if not math.isfinite(loss):
            options = cast(LoopOptions, module.options)
            raise DivergedError(
                f"training diverged: the loss of epoch {module.current_epoch} is {loss}; lower the learning "
                f"rate (lr={options.lr:g}) or bound the gradient (gradient_clip={options.gradient_clip:g})",
                module.current_epoch,
            )


class Patience(EarlyStopping):
    """Remembers, as Lightning does not, that a run which is resumed had run out of patience.

    How much it has is said anew by whoever resumes.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict | {"patience": self.patience})

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop = self.wait_count >= self.patience


class History(Callback):
    """Keeps what was measured, epoch by epoch, through interruptions, and tells it unless a bar does."""

    def __init__(self, tell: bool) -> None:
        self.tell = tell
        self.epochs: list[dict[str, float]] = []
        self.seconds: list[float] = []
        self._start = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._start = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        measured = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        self.epochs.append({"epoch": trainer.current_epoch, **measured})
        self.seconds.append(time.perf_counter() - self._start)
        if self.tell:
            values = ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
            logger.info(f"epoch {trainer.current_epoch} of {trainer.max_epochs}: {values}")

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs, self.seconds = state_dict["epochs"], state_dict["seconds"]
