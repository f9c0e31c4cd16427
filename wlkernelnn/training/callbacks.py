"""What a training does beside its steps: keep, resume, watch, tell."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from wlkernelnn.utils.configured import described
from wlkernelnn.utils.files import atomic_path

from .options import ON_MACHINES, LoopOptions

logger = logging.getLogger("wlkernelnn")

# The loss is looked at every so many batches: on a GPU this waits for it.
WATCHED_BATCHES = 50
# Options that may change when a training resumes.
MAY_DIFFER = (*ON_MACHINES, "epochs", "patience", "cuda_graphs")


class DivergedError(ValueError):
    """Training led to values that are not numbers, in :attr:`epoch` (counted from 0)."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.epoch), self.__dict__


class Origin(Callback):
    """Refuses to go on with the training of something else: of other data (by their digest), of another
    network (by its arguments, or else by what it prints) or with other options.
    """

    def __init__(self, origin: Mapping[str, Any], options: LoopOptions, path: Path) -> None:
        of = {
            name: part.digest() if hasattr(part, "digest") else described(part)
            for name, part in origin.items()
        }
        told = {name: value for name, value in asdict(options).items() if name not in MAY_DIFFER}
        self.origin = json.loads(json.dumps(of | told, default=_printed))  # as it comes from a file
        self.path = path

    def state_dict(self) -> dict[str, Any]:
        return self.origin

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, value in self.origin.items():
            if name in state_dict and state_dict[name] != value:
                raise ValueError(
                    f"{self.path}: the training to resume has {name} {state_dict[name]}, and this is {value}"
                )


def _printed(value: object) -> str:
    """What a value prints, on one line and without where it lies in memory."""
    return " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).split())


def whole(checkpoint: Path) -> Path:
    """The path, or an error if torch cannot read the file."""
    try:
        torch.load(checkpoint, map_location="meta", weights_only=True)
    except Exception as error:  # of many kinds, by where the file was cut
        raise ValueError(
            f"{checkpoint}: missing or not a whole checkpoint; delete {checkpoint.with_name('last.ckpt')} to "
            "train from the start"
        ) from error
    return checkpoint


class WholeFiles(TorchCheckpointIO):
    """Writes Lightning's checkpoints beside their place, and renames them: a kill leaves the one before.

    Lightning writes into the temporary folder; where that lies on another disk, moving is copying, which a
    kill cuts short.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if not Path(path).parent.is_dir():  # or hours of training go into a new folder
            raise FileNotFoundError(f"{Path(path).parent}: was deleted during the training; start again")
        content = io.BytesIO()  # torch says nothing useful of a full disk
        torch.save(checkpoint, content)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content.getbuffer())


class Checkpoint(ModelCheckpoint):
    """Keeps weights in a folder that may move; on resuming it checks at once that they can be read."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        def here(path: str) -> str:
            assert self.dirpath is not None
            return str(Path(self.dirpath) / Path(path).name)

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        moved: dict[str, Any] = {name: here(state_dict[name]) for name in paths if state_dict[name]}
        moved["best_k_models"] = {here(path): score for path, score in state_dict["best_k_models"].items()}
        if best := moved.get("best_model_path"):
            whole(Path(best))  # else hours of training end with it
        super().load_state_dict({**state_dict, **moved, "dirpath": self.dirpath})


class Watchdog(Callback):
    """Ends a training when its loss is not finite: epochs can be long."""

    def __init__(self, options: LoopOptions) -> None:
        self.options = options

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % WATCHED_BATCHES == 0:
            self._check(trainer.current_epoch, float(outputs["loss"]))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._check(trainer.current_epoch, float(trainer.callback_metrics["train_loss"]))

    def _check(self, epoch: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise DivergedError(
                f"training diverged: the loss of epoch {epoch + 1} is {loss}; lower the learning rate "
                f"(lr={self.options.lr:g}) or bound the gradient "
                f"(gradient_clip={self.options.gradient_clip:g})",
                epoch,
            )


class Patience(EarlyStopping):
    """Remembers, as Lightning does not, that a resumed run was out of patience; its length is given anew."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict | {"patience": self.patience})

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop = self.wait_count >= self.patience


class History(Callback):
    """Keeps what each epoch measured, through interruptions, and logs it unless a bar shows it."""

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
        if self.tell and trainer.is_global_zero:
            values = ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
            logger.info(f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}: {values}")

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs, self.seconds = state_dict["epochs"], state_dict["seconds"]
