"""The Lightning module: loss, optimizer, schedule, validation."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.models import GraphNetwork
from wlkernelnn.training.adam import in_one_pass
from wlkernelnn.training.loop import seed_epoch
from wlkernelnn.training.options import FitOptions

from .metrics import score


def masked_loss(net: GraphNetwork, out: Tensor, y: Tensor) -> Tensor:
    """Mean loss of the targets that are there (NaN = missing).

    Squared errors in units of the targets' standard deviations, so that tasks of different scales count
    alike, or cross entropies of logits.

    Args:
        net: The network that made ``out``.
        out: ``[B, tasks]``.
        y: ``[B, tasks]``.
    """
    known = ~y.isnan()
    target = torch.where(known, y, 0.0)
    if net.task == "regression":
        losses = ((out - target) / net.target_std) ** 2
    else:
        losses = torch.nn.functional.binary_cross_entropy_with_logits(out, target, reduction="none")
    return torch.where(known, losses, 0.0).sum() / known.sum().clamp(min=1)


def learning_rate_factor(options: FitOptions, step: int, steps_per_epoch: int) -> float:
    """The schedule: the learning rate at a step, in units of ``options.lr``."""
    warmup = options.warmup_epochs * steps_per_epoch
    if step < warmup:
        return (step + 1) / warmup
    if options.schedule == "cosine":
        progress = (step - warmup) / max(options.epochs * steps_per_epoch - warmup, 1)
        factor = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
    elif options.schedule == "exponential":
        factor = options.lr_decay ** (step * options.batch_size // options.lr_decay_samples)
    else:
        factor = 1.0
    return max(factor, options.lr_min / options.lr)


class NetworkModule(pl.LightningModule):
    """Trains a network.

    Args:
        net: What is trained.
        options: How.
        metric: What validation logs as ``valid_<metric>``.
        steps_per_epoch: For the schedule.
    """

    def __init__(self, net: GraphNetwork, options: FitOptions, metric: str, steps_per_epoch: int) -> None:
        super().__init__()
        self.net = net
        self.options = options
        self.metric = metric
        self.steps_per_epoch = steps_per_epoch
        self._seen: list[tuple[Tensor, Tensor]] = []

    def on_train_epoch_start(self) -> None:
        seed_epoch(self.options.seed, self.current_epoch)

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        loss = masked_loss(self.net, self.net(batch), batch.y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=len(batch.y))
        return loss

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        out = self.net(batch)
        loss = masked_loss(self.net, out, batch.y)
        self.log("valid_loss", loss, batch_size=len(batch.y))
        values = out.float() if self.net.task == "regression" else out.float().sigmoid()
        self._seen.append((batch.y.cpu(), values.cpu()))

    def on_validation_epoch_end(self) -> None:
        target, prediction = (torch.cat(parts).numpy() for parts in zip(*self._seen, strict=True))
        self._seen.clear()
        self.log(f"valid_{self.metric}", score(self.metric, target, prediction), prog_bar=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.net.parameters(),
            lr=self.options.lr,
            weight_decay=self.options.weight_decay,
            fused=in_one_pass(self.net.parameters(), self.options),
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(self.options, step, self.steps_per_epoch)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
