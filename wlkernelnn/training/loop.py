"""Lightning's loop with what every training here wants: the best weights kept, resumption, plain errors."""

from __future__ import annotations

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pytorch_lightning as pl
import rich
import torch
from pytorch_lightning.callbacks import Callback, RichProgressBar
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from torch import Tensor

from wlkernelnn.utils.files import alone_in

from .allocator import freed_memory_kept
from .callbacks import Checkpoint, DivergedError, History, Origin, Patience, Watchdog, whole
from .module import TrainedModule
from .options import LoopOptions


@dataclass
class FitResult:
    """What a training did.

    Attributes:
        metric: Name of the validation metric.
        score: Its value at the epoch whose weights were kept; NaN without validation data.
        epoch: That epoch, counted from 0.
        history: One dict per epoch: ``epoch`` and what was measured, such as ``train_loss``.
        seconds: Wall time.
        epoch_seconds: Wall time of every epoch, those before an interruption too.
    """

    metric: str
    score: float
    epoch: int
    history: list[dict[str, float]]
    seconds: float
    epoch_seconds: list[float]


def train_module(
    module: TrainedModule,
    batches: Iterable[Any],
    valid_batches: Iterable[Any] | None,
    *,
    origin: Callable[[], Mapping[str, Any]],
    directory: str | Path | None,
    resume: bool,
    progress: bool,
    callbacks: Sequence[Callback] = (),
) -> FitResult:
    """Train ``module`` in place; afterwards it holds the weights of the best validation epoch.

    Without ``valid_batches`` the last weights are kept.

    Args:
        module: Trains the model; it logs ``train_loss`` and ``valid_<metric>``, and has the options.
        batches, valid_batches: The input of its steps.
        origin: Says what a training to resume must be of, beside its options: its data, by their content.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.
        callbacks: More of Lightning's.

    Raises:
        ValueError: ``resume`` without ``directory``, from a damaged file, or of a training of another origin
            or with other options, ``patience`` without ``valid_batches``, or an accelerator that this machine
            lacks.
        FileExistsError: Another process trains in ``directory``.
        DivergedError: Training diverged.
    """
    if resume and directory is None:
        raise ValueError("resume=True needs the directory of the run that was interrupted")
    options = module.options
    check_patience(options, valid_batches is not None)
    start = time.perf_counter()
    dtypes = {name: tensor.dtype for name, tensor in _tensors(module)}
    module.train()  # a network that was trained before is in evaluation mode
    monitor, mode = None, "min"
    if valid_batches is not None:
        monitor, mode = f"valid_{module.metric}", "max" if module.maximize else "min"
    with tempfile.TemporaryDirectory() as scratch, alone_in(directory or scratch):
        folder = Path(directory or scratch)
        newest = Checkpoint(
            folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        best = newest
        if monitor is not None:
            best = Checkpoint(
                folder, filename="best", monitor=monitor, mode=mode, enable_version_counter=False
            )
        console = rich.get_console()
        bar = progress and (console.is_terminal or console.is_jupyter)
        history = History(tell=not bar)
        # The newest checkpoint comes last: it also keeps what the others remember of this epoch.
        all_callbacks = [Watchdog(), history, *([best] if best is not newest else []), newest, *callbacks]
        last = folder / "last.ckpt"
        if directory is not None:
            all_callbacks.insert(0, Origin(origin(), options, last))
        if options.patience and monitor is not None:
            all_callbacks.append(Patience(monitor, patience=options.patience, mode=mode))
        if bar:
            all_callbacks.append(RichProgressBar())
        if not resume:
            last.unlink(missing_ok=True)  # of an earlier training, which this one must not be taken for
        with (
            _quiet(),
            _plain_errors(),
            _random_numbers_apart(options.accelerator),
            _matmul_precision(options.matmul_precision),
            freed_memory_kept(),
        ):
            trainer = pl.Trainer(
                max_epochs=options.epochs,
                accelerator=options.accelerator,
                devices=1,
                precision=options.precision,
                gradient_clip_val=options.gradient_clip or None,
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
                ckpt_path=whole(last) if resume and last.exists() else None,
                weights_only=True,
            )
        kept = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    module.load_state_dict(kept["state_dict"])
    for name, tensor in _tensors(module):  # precisions such as "64-true" have converted them
        tensor.data = tensor.data.to(dtypes[name])
    module.eval()
    best_score = float("nan") if best.best_model_score is None else float(best.best_model_score)
    if math.isinf(best_score):  # Lightning's value for NaN
        message = f"training diverged: valid_{module.metric} was a number in no epoch"
        raise DivergedError(message, len(history.epochs) - 1)
    return FitResult(
        metric=module.metric,
        score=best_score,
        epoch=int(kept["epoch"]),
        history=history.epochs,
        seconds=time.perf_counter() - start,
        epoch_seconds=history.seconds,
    )


class _Digested(Protocol):
    """Data that have a name by their content."""

    def digest(self) -> str: ...


def contents(**data: _Digested | None) -> dict[str, Any]:
    """What a training is of, see :func:`train_module`."""
    return {name: None if part is None else part.digest() for name, part in data.items()}


def check_patience(options: LoopOptions, validated: bool) -> None:
    """Refuse patience without a validation score."""
    if options.patience and not validated:
        raise ValueError(f"patience={options.patience} needs valid, whose score it watches")


def check_accelerator(options: LoopOptions) -> None:
    """Refuse an accelerator that Lightning does not know or this machine lacks."""
    with _quiet(), _plain_errors():
        pl.Trainer(
            accelerator=options.accelerator,
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


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
    """What Lightning refuses is a ``ValueError``; Ctrl-C and SIGTERM are a ``KeyboardInterrupt``."""
    try:
        yield
    except MisconfigurationException as error:
        raise ValueError(" ".join(str(error).split())) from error
    except SIGTERMException as error:  # it would end the process with status 0, as if all had been done
        raise KeyboardInterrupt("by SIGTERM") from error
    except SystemExit as error:  # Lightning's way out, which would end a notebook
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


@contextmanager
def _random_numbers_apart(accelerator: str) -> Iterator[None]:
    """What is drawn afterwards does not depend on the training: networks made one after the other differ."""
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    with torch.random.fork_rng([0] if on_gpu else []):
        yield


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
