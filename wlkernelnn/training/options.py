"""How to train: every number of a run beside the network's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wlkernelnn.utils.checks import check_finite, check_one_of, plain

# Graphs that are predicted at once: the needs of a batch still fit into a processor's caches, more or less.
BATCH = 8192
#: Models of molecules by the names that users give them.
ModelName = Literal["auto", "gp", "linear", "wl", "stack", "gp+wl", "gp+stack", "linear+wl", "linear+stack"]
# Options that say on which machines a run is trained; they may change when it resumes.
ON_MACHINES = ("accelerator", "devices", "num_nodes")
# Weights in float16 alone would lose most steps of an optimizer.
PRECISIONS = ("64-true", "32-true", "bf16-true", "16-mixed", "bf16-mixed", "64", "32", "16", "bf16")

Range = tuple[Callable[[Any], bool], str]
AT_LEAST_0: Range = (lambda value: value >= 0, "at least 0")
AT_LEAST_1: Range = (lambda value: value >= 1, "at least 1")
# Ranges of numbers by their names, which mean the same in every training; all others are at least 0.
RANGES: dict[str, Range] = {
    **dict.fromkeys(("epochs", "batch_size", "bptt", "lr_decay_samples", "devices", "num_nodes"), AT_LEAST_1),
    "seed": (lambda value: 0 <= value < 2**32, "from 0 to 2^32 - 1"),
    "lr": (lambda value: value > 0, "above 0"),
    "lr_decay": (lambda value: 0 < value <= 1, "above 0 and at most 1"),
    "ema_decay": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
}


def check_weights(class_weight: Any) -> None:
    """Refuse a ``class_weight`` that is not a weight of each of two classes or more."""
    if class_weight in (None, "balanced"):
        return
    if not isinstance(class_weight, (list, tuple)) or len(class_weight) < 2:
        raise ValueError(f"class_weight must be balanced or a weight of each class, got {class_weight!r}")
    for weight in class_weight:
        check_finite("class_weight", weight)
    if min(class_weight) < 0 or not any(class_weight):
        raise ValueError(
            f"class_weight must be weights of at least 0, one of them above 0, got {class_weight!r}"
        )


@dataclass
class LoopOptions:
    """What every training has to be told.

    Args:
        epochs: Passes over the training data.
        gradient_clip: Largest norm of the gradient, 0 for no bound.
        patience: Stop after that many epochs without a better validation score, 0 for never.
        seed: Seed of everything that is drawn.
        precision: Lightning's precision: "64-true", "32-true", "bf16-true", "16-mixed" or "bf16-mixed", or in
            short "64", "32", "16" or "bf16" (the last two are mixed).
        accelerator: Lightning's accelerator: "auto", "cpu", "gpu", …
        devices: Processes on this machine that train together, each on a GPU of its own or on processor
            cores. They share each batch.
        num_nodes: Machines that train together, each with so many devices: torchrun or SLURM's srun starts
            the processes.
        matmul_precision: float32 matrix products: "highest", "high" or "medium"; lower may use bfloat16
            inside and is faster on many processors.
        batch_size: Graphs, strings or streams of text in a batch, over all processes.
        lr: Learning rate.

    Raises:
        ValueError: An option is out of its range.
    """

    epochs: int = 100
    gradient_clip: float = 5.0
    patience: int = 0
    seed: int = 0
    precision: str = "32-true"
    accelerator: str = "auto"
    devices: int = 1
    num_nodes: int = 1
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    batch_size: int = 64
    lr: float = 1e-3

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = plain(getattr(self, name))
            setattr(self, name, value)
            if kind is int and not isinstance(value, Integral):
                raise ValueError(f"{name} must be a whole number, got {value!r}")
            if kind is float:
                check_finite(name, value)
            if kind in (int, float):
                fine, expected = RANGES.get(name, AT_LEAST_0)
                if not fine(value):
                    raise ValueError(f"{name} must be {expected}, got {value!r}")
            elif get_origin(kind) is Literal:
                check_one_of(name, value, get_args(kind))
        check_one_of("precision", str(self.precision), PRECISIONS)


@dataclass
class DecayOptions(LoopOptions):
    """Options of a training whose learning rate decays epoch by epoch.

    Args:
        lr_decay: Factor of the learning rate at each decay.
        decay_from: The first epoch, counted from 0, with a decay; each one after it has one too.

    The other options are those of :class:`LoopOptions`.
    """

    lr_decay: float = 1.0
    decay_from: int = 1

    def lr_factor(self, epoch: int) -> float:
        """The learning rate of an epoch, in units of ``lr``."""
        return self.lr_decay ** max(0, epoch - self.decay_from + 1)


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
        lr_decay: Factor of the learning rate at each decay of the exponential schedule.
        lr_decay_samples: Graphs between two decays.
        ema_decay: Decay of the moving average of the weights that is validated and kept, 0 for none. Early
            averages are shorter.
        metric: Score that chooses the epoch of networks and is named first, by default the set's own. The
            RMSE or MAE of several targets is then in units of each one's deviation (of published sets with
            another metric than RMSE, as they publish it). One of rmse, mae, r2, spearman; of classes roc_auc,
            average_precision, accuracy, balanced_accuracy, f1, mcc, log_loss, brier, ece; of ordered ones
            quadratic_kappa too.
        class_weight: "balanced" weights graphs in the training loss so that all classes of a target count
            alike: by the number of graphs over that of classes times that of the graph's class (King and
            Zeng 2001). Probabilities are then those of classes that are equally frequent. Or a weight of
            each class, in their order: sorted, or as --levels has them.
        bucket_width: Draw training graphs evenly over buckets of the target of this width (Lei et al. 2017,
            section 6.3: 0.05 for the Clean Energy Project), 0 for plain shuffling.
        seed: Seed of all that is drawn: the order of graphs, dropout, and in a run initial weights too.

    The other options are those of :class:`LoopOptions`.

    Raises:
        ValueError: An option is out of its range.
    """

    weight_decay: float = 1e-4
    schedule: Literal["cosine", "exponential", "constant"] = "cosine"
    warmup_epochs: int = 2
    lr_min: float = 1e-5
    lr_decay: float = 0.9
    lr_decay_samples: int = 100_000
    ema_decay: float = 0.999
    metric: str | None = None
    class_weight: Literal["balanced"] | list[float] | None = None
    bucket_width: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(self.class_weight)
        if self.lr_min > self.lr:
            raise ValueError(f"lr_min must be from 0 to lr={self.lr:g}, got {self.lr_min!r}")
