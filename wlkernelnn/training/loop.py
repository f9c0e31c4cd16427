"""Lightning's loop: the best weights are kept, runs resume, errors are plain."""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import rich
import torch
from pytorch_lightning.callbacks import Callback, RichProgressBar
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from torch import Tensor

from wlkernelnn.utils.checks import not_finite
from wlkernelnn.utils.files import alone_in

from .allocator import freed_memory_kept
from .callbacks import Checkpoint, DivergedError, History, Origin, Patience, Watchdog, WholeFiles, whole
from .module import TrainedModule
from .options import LoopOptions

_HINTS = (
    ".*(does not have many workers|Checkpoint directory .* exists and is not empty|LeafSpec"
    "|number of training batches|no `val_dataloader`|AccumulateGrad node's stream)"  # the last of CUDA graphs
)


@dataclass
class FitResult:
    """What a training did.

    Attributes:
        metric: Name of the validation metric.
        score: Its value at the epoch whose weights were kept; NaN without validation data.
        epoch: That epoch, counted from 0.
        history: One dict per epoch: ``epoch`` and measurements such as ``train_loss``.
        seconds: Wall time.
        epoch_seconds: Wall time of every epoch, also before an interruption.
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
    origin: Mapping[str, Any],
    directory: str | Path | None,
    resume: bool,
    progress: bool,
    callbacks: Sequence[Callback] = (),
    logger: Any = None,
) -> FitResult:
    """Train ``module`` in place; afterwards it holds the weights of the best validation epoch.

    Without ``valid_batches`` the last weights are kept.

    Args:
        module: Trains the model; it logs ``train_loss`` and ``valid_<metric>``, and has the options.
        batches, valid_batches: The input of its steps.
        origin: What a training to resume must be of, beside its options: data (by their digest) and JSON.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.
        callbacks, logger: More of Lightning's callbacks, and one or several of its loggers.

    Raises:
        ValueError, FileExistsError, DivergedError: As of :func:`~wlkernelnn.training.fit`.
    """
    if resume and directory is None:
        raise ValueError("resume=True needs the directory of the run that was interrupted")
    options, validated = module.options, valid_batches is not None
    check_patience(options, validated)
    start = time.perf_counter()
    dtypes = {name: tensor.dtype for name, tensor in _tensors(module)}
    module.train()  # a network that was trained before is in evaluation mode
    monitor, mode = f"valid_{module.metric}", "max" if module.maximize else "min"
    console = rich.get_console()
    bar = progress and (console.is_terminal or console.is_jupyter)
    history = History(tell=not bar)
    # Without need for it, a temporary folder that cannot be written stops nothing.
    place = tempfile.TemporaryDirectory() if directory is None else nullcontext(directory)
    with place as where, alone_in(where):
        folder = Path(where)
        last = folder / "last.ckpt"
        if not resume:
            last.unlink(missing_ok=True)  # of an earlier training, which this one must not be taken for
        best = newest = Checkpoint(
            folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        all_callbacks: list[Callback] = [Watchdog(options), history]
        if directory is not None:
            all_callbacks.insert(0, Origin(origin, options, last))
        if validated:
            best = Checkpoint(
                folder, filename="best", monitor=monitor, mode=mode, enable_version_counter=False
            )
            all_callbacks.append(best)
        if directory is not None or not validated:  # else nobody reads it
            # The newest checkpoint comes last: it also keeps what the others remember of this epoch.
            all_callbacks.append(newest)
        all_callbacks += callbacks
        if options.patience:
            all_callbacks.append(Patience(monitor, patience=options.patience, mode=mode))
        if bar:
            all_callbacks.append(RichProgressBar())
        on_gpu = options.accelerator != "cpu" and torch.cuda.is_available()
        with (
            _lightning(),
            # What is drawn afterwards does not depend on the training.
            torch.random.fork_rng([0] if on_gpu else []),
            _matmul_precision(options.matmul_precision),
            freed_memory_kept(),
        ):
            trainer = pl.Trainer(
                max_epochs=options.epochs,
                **_one_device(options),
                precision=options.precision,
                gradient_clip_val=options.gradient_clip or None,
                callbacks=all_callbacks,
                logger=logger or False,
                enable_progress_bar=bar,
                enable_model_summary=False,
                inference_mode=False,  # EdgeIndex cannot be used in it
                num_sanity_val_steps=0,
                default_root_dir=folder,
            )
            begun = whole(last) if resume and last.exists() else None
            trainer.fit(module, batches, valid_batches, ckpt_path=begun, weights_only=True)
        kept = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    module.load_state_dict(kept["state_dict"])
    for name, tensor in _tensors(module):  # precisions such as "64-true" have converted them
        tensor.data = tensor.data.to(dtypes[name])
    if name := not_finite(dict(_tensors(module))):
        message = f"training diverged: {name} has values that are not finite"
        raise DivergedError(message, len(history.epochs) - 1)
    module.eval()
    best_score = float("nan") if best.best_model_score is None else float(best.best_model_score)
    if math.isinf(best_score):  # Lightning's value for NaN
        message = f"training diverged: {monitor} was a number in no epoch"
        raise DivergedError(message, len(history.epochs) - 1)
    return FitResult(
        metric=module.metric,
        score=best_score,
        epoch=int(kept["epoch"]),
        history=history.epochs,
        seconds=time.perf_counter() - start,
        epoch_seconds=history.seconds,
    )


def check_patience(options: LoopOptions, validated: bool) -> None:
    """Refuse patience without a validation score."""
    if options.patience and not validated:
        raise ValueError(f"patience={options.patience} needs valid, whose score it watches")


def check_accelerator(options: LoopOptions) -> None:
    """Refuse an accelerator that Lightning does not know or this machine lacks."""
    with _lightning():
        pl.Trainer(**_one_device(options), logger=False, enable_progress_bar=False)


def _one_device(options: LoopOptions) -> dict[str, Any]:
    """Arguments of a trainer of this process alone, whatever variables a cluster has set.

    Raises:
        ValueError: ``torchrun`` started several: each would do the same training.
    """
    if torch.distributed.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(
            f"torchrun started {os.environ['WORLD_SIZE']} processes, and a training runs in one: start it "
            "without torchrun"
        )
    # Else Lightning looks for SLURM, MPI and others, and counts their tasks.
    alone = [LightningEnvironment(), WholeFiles()]
    return {"accelerator": options.accelerator, "devices": 1, "plugins": alone}


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


@contextmanager
def _lightning() -> Iterator[None]:
    """Lightning without its hints at what was decided on purpose, and with errors in Python's words.

    What it refuses is a ``ValueError``; Ctrl-C and SIGTERM are a ``KeyboardInterrupt``.
    """
    hints = logging.getLogger("pytorch_lightning")
    level = hints.level
    hints.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _HINTS)
            yield
    except MisconfigurationException as error:
        raise ValueError(" ".join(str(error).split())) from error
    except SIGTERMException as error:  # it would end the process with status 0, as if all had been done
        raise KeyboardInterrupt("by SIGTERM") from error
    except SystemExit as error:  # Lightning's way out, which would end a notebook
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    finally:
        hints.setLevel(level)


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
