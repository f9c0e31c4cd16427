"""Lightning's loop: the best weights are kept, runs resume, errors are plain."""

from __future__ import annotations

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import rich
import torch
from pytorch_lightning.callbacks import Callback, RichProgressBar
from pytorch_lightning.plugins.environments import ClusterEnvironment
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from torch import Tensor

from wlkernelnn.utils.checks import not_finite
from wlkernelnn.utils.files import alone_in

from .allocator import freed_memory_kept
from .callbacks import Checkpoint, DivergedError, History, Origin, Patience, Watchdog, WholeFiles, whole
from .group import connected, environment_of, is_started_outside, share
from .module import TrainedModule
from .options import LoopOptions
from .processes import is_follower, together

_HINTS = (
    ".*(does not have many workers|Checkpoint directory .* exists and is not empty|LeafSpec"
    "|number of training batches|no `val_dataloader`|sync_dist=True"
    "|AccumulateGrad node's stream)"  # of CUDA graphs
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
        origin: What a training to resume must be of, beside its options: data, the network, and JSON.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.
        callbacks, logger: More of Lightning's callbacks, and one or several of its loggers.

    Raises:
        ValueError, FileExistsError, DivergedError, ChildProcessError: As of :func:`~wlkernelnn.training.fit`.
    """
    if resume and directory is None:
        raise ValueError("resume=True needs the directory of the run that was interrupted")
    options, validated = module.options, valid_batches is not None
    check_patience(options, validated)
    if options.devices * options.num_nodes > 1 and not module.shares_batches:
        raise ValueError(f"devices={options.devices}: this training runs in one process")
    start = time.perf_counter()
    dtypes = {name: tensor.dtype for name, tensor in _tensors(module)}
    if options.precision in ("64", "64-true"):  # Lightning would read a checkpoint's weights into float32
        module.double()
    module.train()  # a network that was trained before is in evaluation mode
    console = rich.get_console()
    training = Training(
        module,
        batches,
        valid_batches,
        bar=progress and (console.is_terminal or console.is_jupyter),
        callbacks=callbacks,
        logger=logger,
    )
    if is_follower(options):  # the first process keeps the files
        together(training.run, options)
        kept, trained = share(None)
    else:
        # Without need for it, a temporary folder that cannot be written stops nothing.
        place = tempfile.TemporaryDirectory() if directory is None else nullcontext(directory)
        with place as where, alone_in(where):
            training.begin(Path(where), None if directory is None else origin, resume)
            trained = together(training.run, options)
            kept = torch.load(trained.kept, map_location="cpu", weights_only=True)
        if is_started_outside(environment_of(options)):
            with connected():
                share((kept, trained))
    epochs = trained.epochs
    module.load_state_dict(kept["state_dict"])
    for name, tensor in _tensors(module):  # precisions such as "64-true" have converted them
        tensor.data = tensor.data.to(dtypes[name])
    if name := not_finite(dict(_tensors(module))):
        raise DivergedError(f"training diverged: {name} has values that are not finite", len(epochs) - 1)
    module.eval()
    if math.isinf(trained.score):  # Lightning's value for NaN
        message = f"training diverged: valid_{module.metric} was a number in no epoch"
        raise DivergedError(message, len(epochs) - 1)
    return FitResult(
        metric=module.metric,
        score=trained.score,
        epoch=int(kept["epoch"]),
        history=epochs,
        seconds=time.perf_counter() - start,
        epoch_seconds=trained.seconds,
    )


class Trained(NamedTuple):
    """What came of a training.

    Attributes:
        kept: The checkpoint with the weights to keep.
        score: Their score.
        epochs, seconds: See :class:`History`.
    """

    kept: str
    score: float
    epochs: list[dict[str, float]]
    seconds: list[float]


@dataclass
class Training:
    """A training as every process does it, in a folder."""

    module: TrainedModule
    batches: Iterable[Any]
    valid_batches: Iterable[Any] | None
    bar: bool
    callbacks: Sequence[Callback]
    logger: Any
    folder: Path = Path()
    origin: Origin | None = None
    begun: Path | None = None

    def begin(self, folder: Path, origin: Mapping[str, Any] | None, resume: bool) -> None:
        """Say where, and clear or check what lies there."""
        self.folder, last = folder, folder / "last.ckpt"
        if not resume:
            last.unlink(missing_ok=True)  # of an earlier training, which this one must not be taken for
        if origin is not None:
            self.origin = Origin(origin, self.module.options, last)
        self.begun = whole(last) if resume and last.exists() else None

    def run(self, environment: ClusterEnvironment) -> Trained:
        """Train in this process, and in others if there are some."""
        options, validated = self.module.options, self.valid_batches is not None
        monitor, mode = f"valid_{self.module.metric}", "max" if self.module.maximize else "min"
        history = History(tell=not self.bar)
        best = newest = Checkpoint(
            self.folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        callbacks: list[Callback] = [Watchdog(options), history]
        if self.origin is not None:
            callbacks.insert(0, self.origin)
        if validated:
            best = Checkpoint(
                self.folder, filename="best", monitor=monitor, mode=mode, enable_version_counter=False
            )
            callbacks.append(best)
        if self.origin is not None or not validated:  # else nobody reads it
            # The newest checkpoint comes last: it also keeps what the others remember of this epoch.
            callbacks.append(newest)
        callbacks += self.callbacks
        if options.patience:
            # An epoch without a score, such as a rank correlation of equal predictions, is not a better one.
            callbacks.append(Patience(monitor, patience=options.patience, mode=mode, check_finite=False))
        if self.bar:
            callbacks.append(RichProgressBar())
        on_gpu = options.accelerator != "cpu" and torch.cuda.is_available()
        with (
            _lightning(),
            # What is drawn afterwards does not depend on the training.
            torch.random.fork_rng([environment.local_rank()] if on_gpu else []),
            _matmul_precision(options.matmul_precision),
            freed_memory_kept(),
        ):
            trainer = pl.Trainer(
                max_epochs=options.epochs,
                **_devices(options, environment),
                precision=options.precision,
                gradient_clip_val=options.gradient_clip or None,
                callbacks=callbacks,
                logger=self.logger or False,
                enable_progress_bar=self.bar,
                enable_model_summary=False,
                inference_mode=False,  # EdgeIndex cannot be used in it
                num_sanity_val_steps=0,
                default_root_dir=self.folder,
            )
            trainer.fit(
                self.module, self.batches, self.valid_batches, ckpt_path=self.begun, weights_only=True
            )
        score = float("nan") if best.best_model_score is None else float(best.best_model_score)
        return Trained(best.best_model_path, score, history.epochs, history.seconds)


def check_patience(options: LoopOptions, validated: bool) -> None:
    """Refuse patience without a validation score."""
    if options.patience and not validated:
        raise ValueError(f"patience={options.patience} needs valid, whose score it watches")


def check_accelerator(options: LoopOptions) -> None:
    """Refuse an accelerator that Lightning does not know or this machine lacks, or as many of it."""
    with _lightning():
        pl.Trainer(**_devices(options, environment_of(options)), logger=False, enable_progress_bar=False)


def _devices(options: LoopOptions, environment: ClusterEnvironment) -> dict[str, Any]:
    """Arguments of a trainer in these processes, whatever other variables a cluster has set."""
    several = options.devices * options.num_nodes > 1
    return {
        "accelerator": options.accelerator,
        "devices": options.devices,
        "num_nodes": options.num_nodes,
        "strategy": "ddp" if several else "auto",
        "use_distributed_sampler": False,  # loaders share batches themselves
        # Else Lightning looks for SLURM, MPI and others, and counts their tasks.
        "plugins": [environment, WholeFiles()],
    }


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
