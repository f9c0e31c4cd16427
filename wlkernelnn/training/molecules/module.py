"""The Lightning module: loss, optimizer, schedule, validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.models import GraphNetwork
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.options import FitOptions

from .metrics import get_metric, score


def masked_loss(net: GraphNetwork, out: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean loss of the targets that are there: see :func:`summed_loss`."""
    total, known = summed_loss(net, out, y, weights)
    return total / known.clamp(min=1)


def summed_loss(
    net: GraphNetwork,
    out: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    censored: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Summed loss of the targets that are there (NaN = missing), and their number.

    The loss is that of the outputs of the network, see :mod:`wlkernelnn.models.base.outputs`: errors in
    units of the targets' standard deviations, so that tasks of different scales count alike, or cross
    entropies.

    Args:
        net: The network that made ``out``.
        out: What it gives.
        y: ``[B, tasks]``.
        weights: Of classes, see :func:`balanced_weights`; default 1.
        censored: Which targets are bounds: 1 lower, −1 upper ones, ``[B, tasks]``; default none.
    """
    known = ~y.isnan()
    target = torch.where(known, y, 0.0)
    losses = net.target.losses(out, target, net.target_std, censored)
    if weights is not None:
        losses = losses * weights.gather(0, target.long())
    return torch.where(known, losses, 0.0).sum(), known.sum()


def learning_rate_factor(options: FitOptions, step: int, num_graphs: int) -> float:
    """The schedule: the learning rate at a step of epochs of so many graphs, in units of ``options.lr``."""
    steps_per_epoch = math.ceil(num_graphs / options.batch_size)
    warmup = options.warmup_epochs * steps_per_epoch
    if step < warmup:
        return (step + 1) / warmup
    if options.schedule == "cosine":
        progress = (step - warmup) / max(options.epochs * steps_per_epoch - warmup, 1)
        factor = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
    elif options.schedule == "exponential":
        epoch, batch = divmod(step, steps_per_epoch)
        seen = epoch * num_graphs + batch * options.batch_size
        factor = options.lr_decay ** (seen // options.lr_decay_samples)
    else:
        factor = 1.0
    return max(factor, options.lr_min / options.lr)


class NetworkModule(TrainedModule):
    """Trains a network.

    Args:
        net: What is trained.
        options: How.
        metric: What validation logs as ``valid_<metric>``.
        num_graphs: Of an epoch, for the schedule.
        weights: Of classes in the training loss, see :func:`balanced_weights`; default 1.
        in_deviations: The metric is in units of the targets' deviations.
    """

    shares_batches = True
    weights: Tensor | None

    def __init__(
        self,
        net: GraphNetwork,
        options: FitOptions,
        metric: str,
        num_graphs: int,
        weights: Tensor | None = None,
        in_deviations: bool = False,
    ) -> None:
        super().__init__(net, options, metric, get_metric(metric).maximize)
        self.in_deviations = in_deviations
        self.register_buffer("weights", weights, persistent=False)
        self.num_graphs = num_graphs
        self._seen: list[tuple[np.ndarray, ...]] = []

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        return self.mean_loss(
            *summed_loss(self.model, self.model(batch), batch.y, self.weights, batch.get("censored")),
            len(batch.y),
        )

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        out, y, censored = self.model(batch), batch.y, batch.get("censored")
        self.mean_loss(*summed_loss(self.model, out, y, censored=censored), len(y), "valid_loss")
        values = self.model.predictions(out if out.dtype == torch.float64 else out.float())
        measured = y if censored is None else y.masked_fill(censored != 0, torch.nan)
        self._seen.append((measured.cpu().numpy(), values.cpu().numpy()))

    def on_validation_epoch_end(self) -> None:
        target, prediction = self.gathered(self._seen)
        self._seen.clear()
        net = self.model
        deviation = net.target_std.cpu().numpy() if self.in_deviations else None
        self.log_score(score(self.metric, target, prediction, net.task == "ordinal", deviation))

    def configure_optimizers(self) -> Any:
        optimizer = self.adam(
            list(self.model.parameters()), torch.optim.AdamW, weight_decay=self.options.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(self.options, step, self.num_graphs)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
