"""How to train: every number of a run beside the network's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass
class FitOptions:
    """Options of :func:`~wlkernelnn.training.fit`.

    Args:
        epochs: Passes over the training data.
        batch_size: Graphs in a batch.
        lr: Learning rate of AdamW (of Adam, at weight decay 0).
        weight_decay: Decoupled weight decay of AdamW.
        schedule: Learning rate after the warm-up: "cosine" to lr_min at the last epoch, "exponential"
            (times lr_decay every lr_decay_samples graphs, down to lr_min), or "constant".
        warmup_epochs: Epochs over which the learning rate rises from 0.
        lr_min: The learning rate never falls below this after the warm-up.
        lr_decay: Factor of the exponential schedule.
        lr_decay_samples: Graphs between two steps of the exponential schedule.
        gradient_clip: Largest norm of the gradient, 0 for no bound.
        ema_decay: Decay of the moving average of the weights that is validated and kept, 0 for none. Early
            averages are shorter.
        patience: Stop after that many epochs without a better validation score, 0 for never.
        metric: Validation metric, by default the data set's own.
        bucket_width: Draw training graphs evenly over buckets of the target of this width (Lei et al. 2017,
            section 6.3: 0.05 for the Clean Energy Project), 0 for plain shuffling.
        seed: Seed of initial weights, order of graphs and dropout.
        precision: Lightning's precision, such as "32-true" or "bf16-mixed".
        accelerator: Lightning's accelerator: "auto", "cpu", "gpu", …
        matmul_precision: float32 matrix products: "highest", "high" or "medium"; lower may use bfloat16
            inside and is faster on many processors.

    Raises:
        ValueError: An option is out of its range.
    """

    epochs: int = 100
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 1e-4
    schedule: Literal["cosine", "exponential", "constant"] = "cosine"
    warmup_epochs: int = 2
    lr_min: float = 1e-5
    lr_decay: float = 0.9
    lr_decay_samples: int = 100_000
    gradient_clip: float = 5.0
    ema_decay: float = 0.999
    patience: int = 0
    metric: str | None = None
    bucket_width: float = 0.0
    seed: int = 0
    precision: str = "32-true"
    accelerator: str = "auto"
    matmul_precision: Literal["highest", "high", "medium"] = "highest"

    def __post_init__(self) -> None:
        schedules, precisions = ("cosine", "exponential", "constant"), ("highest", "high", "medium")
        ranges = {
            "epochs": (self.epochs >= 1, "at least 1"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "lr": (self.lr > 0, "above 0"),
            "weight_decay": (self.weight_decay >= 0, "at least 0"),
            "schedule": (self.schedule in schedules, f"one of {', '.join(schedules)}"),
            "warmup_epochs": (self.warmup_epochs >= 0, "at least 0"),
            "lr_min": (0 <= self.lr_min <= self.lr, f"from 0 to lr={self.lr:g}"),
            "lr_decay": (0 < self.lr_decay <= 1, "above 0 and at most 1"),
            "lr_decay_samples": (self.lr_decay_samples >= 1, "at least 1"),
            "gradient_clip": (self.gradient_clip >= 0, "at least 0"),
            "ema_decay": (0 <= self.ema_decay < 1, "at least 0 and below 1"),
            "patience": (self.patience >= 0, "at least 0"),
            "bucket_width": (self.bucket_width >= 0, "at least 0"),
            "seed": (0 <= self.seed < 2**32, "from 0 to 2^32 - 1"),
            "matmul_precision": (self.matmul_precision in precisions, f"one of {', '.join(precisions)}"),
        }
        for name, (fine, expected) in ranges.items():
            if not fine:
                raise ValueError(f"{name} must be {expected}, got {getattr(self, name)!r}")
