"""Train a network on a packed data set."""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    RichProgressBar,
    WeightAveraging,
)
from torch import Tensor

from wlkernelnn.datasets import BucketResampler, PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork

from .metrics import DEFAULT_METRIC, get_metric
from .module import NetworkModule
from .options import FitOptions

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
    """Keeps what was logged, epoch by epoch, through interruptions."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.epochs.append({"epoch": trainer.current_epoch, **logged})

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
        torch._foreach_lerp_(list(averaged), list(current), weight)

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

    Without ``valid`` the last weights are kept.

    Args:
        net: The network.
        train, valid: Graphs with targets (NaN = missing).
        options: How to train.
        directory: Where Lightning keeps its checkpoints of the run, for ``resume``; default nowhere.
        resume: Go on from the last epoch that lies in ``directory``, if there is one.
        progress: Show a progress bar.

    Raises:
        ValueError: No training graphs, targets that don't fit the network, an unknown metric, or ``resume``
            without ``directory``.
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

    start = time.perf_counter()
    torch.set_float32_matmul_precision(options.matmul_precision)
    resample = None
    if options.bucket_width:
        resample = BucketResampler(train.y[:, 0].numpy(), width=options.bucket_width, seed=options.seed)
    loader = PackedLoader(
        train, options.batch_size, shuffle=resample is None, seed=options.seed, resample=resample
    )
    module = NetworkModule(net, options, metric, len(loader))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(directory or scratch)
        monitor, mode = (
            (f"valid_{metric}", "max" if maximize else "min") if valid is not None else (None, "min")
        )
        best = ModelCheckpoint(
            folder, filename="best", monitor=monitor, mode=mode, save_last=True, enable_version_counter=False
        )
        history = _History()
        callbacks: list[Callback] = [best, history]
        if options.ema_decay:
            callbacks.append(
                WeightAveraging(use_buffers=False, multi_avg_fn=_moving_average(options.ema_decay))
            )
        if options.patience and monitor is not None:
            callbacks.append(EarlyStopping(monitor, patience=options.patience, mode=mode))
        if progress:
            callbacks.append(RichProgressBar())
        last = folder / "last.ckpt"
        with _quiet():
            trainer = pl.Trainer(
                max_epochs=options.epochs,
                accelerator=options.accelerator,
                devices=1,
                precision=options.precision,  # type: ignore[arg-type]  # checked by Lightning
                gradient_clip_val=options.gradient_clip or None,
                callbacks=callbacks,
                logger=False,
                enable_progress_bar=progress,
                enable_model_summary=False,
                inference_mode=False,  # EdgeIndex cannot be used in it
                num_sanity_val_steps=0,
                default_root_dir=folder,
            )
            trainer.fit(
                module,
                loader,
                None if valid is None else PackedLoader(valid, EVALUATION_BATCH),
                ckpt_path=last if resume and last.exists() else None,
                weights_only=True,
            )
        if not best.best_model_path:
            raise RuntimeError(f"training wrote no checkpoint: valid_{metric} was never a number")
        kept = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    net.load_state_dict({name.removeprefix("net."): value for name, value in kept["state_dict"].items()})
    net.eval()
    score = float("nan") if best.best_model_score is None else float(best.best_model_score)
    return FitResult(metric, score, int(kept["epoch"]), history.epochs, time.perf_counter() - start)


class _quiet(warnings.catch_warnings):
    """Lightning's hints at what was decided on purpose stay out of the user's terminal."""

    def __enter__(self) -> None:  # type: ignore[override]
        super().__enter__()
        for pattern in (
            ".*does not have many workers.*",
            ".*Checkpoint directory .* exists and is not empty.*",
            ".*LeafSpec.*",
            ".*number of training batches.*",
        ):
            warnings.filterwarnings("ignore", pattern)
        self._level = logging.getLogger("pytorch_lightning").level
        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("pytorch_lightning").setLevel(self._level)
        super().__exit__(*exc)  # type: ignore[arg-type]
