"""How to train: every number of a run beside the network's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .loop import LoopOptions


@dataclass
class FitOptions(LoopOptions):
    """Options of :func:`~wlkernelnn.training.fit`.

    Args:
        batch_size: Graphs in a batch.
        lr: Learning rate of AdamW (of Adam, at weight decay 0).
        weight_decay: Decoupled weight decay of AdamW.
        schedule: Learning rate after the warm-up: "cosine" to lr_min at the last epoch, "exponential"
            (times lr_decay every lr_decay_samples graphs, down to lr_min), or "constant".
        warmup_epochs: Epochs over which the learning rate rises from 0.
        lr_min: The learning rate never falls below this after the warm-up.
        lr_decay: Factor of the exponential schedule.
        lr_decay_samples: Graphs between two steps of the exponential schedule.
        ema_decay: Decay of the moving average of the weights that is validated and kept, 0 for none. Early
            averages are shorter.
        metric: Validation metric, by default the data set's own.
        bucket_width: Draw training graphs evenly over buckets of the target of this width (Lei et al. 2017,
            section 6.3: 0.05 for the Clean Energy Project), 0 for plain shuffling.
        seed: Seed of the order of graphs and of dropout; :func:`~wlkernelnn.training.train_run` draws initial
            weights from it too.
        epochs, gradient_clip, patience, precision, accelerator, matmul_precision: See :class:`LoopOptions`.

    Raises:
        ValueError: An option is out of its range.
    """

    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 1e-4
    schedule: Literal["cosine", "exponential", "constant"] = "cosine"
    warmup_epochs: int = 2
    lr_min: float = 1e-5
    lr_decay: float = 0.9
    lr_decay_samples: int = 100_000
    ema_decay: float = 0.999
    metric: str | None = None
    bucket_width: float = 0.0

    def ranges(self) -> dict[str, tuple[bool, str]]:
        schedules = ("cosine", "exponential", "constant")
        return super().ranges() | {
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "lr": (self.lr > 0, "above 0"),
            "weight_decay": (self.weight_decay >= 0, "at least 0"),
            "schedule": (self.schedule in schedules, f"one of {', '.join(schedules)}"),
            "warmup_epochs": (self.warmup_epochs >= 0, "at least 0"),
            "lr_min": (0 <= self.lr_min <= self.lr, f"from 0 to lr={self.lr:g}"),
            "lr_decay": (0 < self.lr_decay <= 1, "above 0 and at most 1"),
            "lr_decay_samples": (self.lr_decay_samples >= 1, "at least 1"),
            "ema_decay": (0 <= self.ema_decay < 1, "at least 0 and below 1"),
            "bucket_width": (self.bucket_width >= 0, "at least 0"),
        }
