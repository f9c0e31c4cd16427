"""What the numbers of a network's head mean, and the loss that teaches them: a class for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, pad, softplus

from wlkernelnn.datasets.graphs.description import TASKS
from wlkernelnn.utils.checks import check_finite, check_one_of

LOSSES = ("squared", "mve", "quantile")
QUANTILES = (0.05, 0.5, 0.95)
# Least variance of a Gaussian, in units of the targets' variance: 1 % of their deviation.
LEAST_VARIANCE = 1e-4
# Log-odds of ordered classes per unit of the head: numbers of the head begin small, and log-odds of several
# classes span ten units or more.
SLOPE = 4.0


class Values(torch.nn.Module):
    """A number for each target, learned by squared errors in units of the targets' deviations.

    Args:
        num_targets: T.
        width: K, numbers of each.

    Attributes:
        num_raw: How many numbers of the head are read.
        num_values: Columns of :meth:`linear`.
        point: Which of the K numbers of :meth:`described` is the prediction.
        quantiles: Levels of the K numbers that are quantiles.
    """

    point = 0
    quantiles: tuple[float, ...] = ()

    def __init__(self, num_targets: int = 1, width: int = 1) -> None:
        super().__init__()
        self.num_values, self.width, self.num_raw = num_targets, width, num_targets * width

    def forward(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """What the network gives: ``[B, T]``, or ``[B, T, K]`` of a distribution, in the unit of targets.

        Args:
            raw: Numbers of the head, ``[B, num_raw]``.
            mean, std: Of the training targets, ``[T]``.
        """
        return raw * std + mean

    def predictions(self, out: Tensor) -> Tensor:
        """Values, or probabilities of classes, ``[B, T or C]``, from what the network gives."""
        return out

    def described(self, out: Tensor) -> Tensor:
        """All that is predicted of each target, ``[B, T, K]``."""
        return self.predictions(out).unsqueeze(2)

    def variances(self, described: Any) -> Any:
        """The variance of a new measurement ``[…, T]`` from arrays ``[…, T, K]``; 0 where none is learned."""
        return 0 * described[..., 0]

    def linear(self, out: Tensor) -> Tensor:
        """What contributions of nodes are of: values, or log-odds of classes, ``[B, num_values]``."""
        return self.predictions(out)

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        """The loss of each target, ``[B, T]``.

        Args:
            out: What the network gives.
            y: Targets ``[B, T]``, finite.
            std: Of the training targets, ``[T]``.
            censored: Which targets are bounds: 1 lower, −1 upper ones, ``[B, T]``. Of a bound the error
                counts on its wrong side alone (as in Van Belle et al. 2011, there of the absolute error).
        """
        error = (out - y) / std
        if censored is not None:
            error = torch.where(censored * error > 0, 0.0, error)
        return error**2


class MeanVariance(Values):
    r"""The mean and the deviation of a Gaussian for each target (Nix and Weigend 1994): ``[B, T, 2]``.

    The loss is :math:`\log \sigma + (y - \mu)^2 / 2 \sigma^2` in units of the targets' deviations; of a bound
    it is the negative logarithm of the probability beyond it (Tobin 1958).
    """

    def __init__(self, num_targets: int = 1) -> None:
        super().__init__(num_targets, width=2)

    def forward(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        value, variance = raw.unflatten(1, (-1, 2)).unbind(2)
        deviation = (softplus(variance) + LEAST_VARIANCE).sqrt()
        return torch.stack([value * std + mean, deviation * std], dim=2)

    def predictions(self, out: Tensor) -> Tensor:
        return out[..., 0]

    def described(self, out: Tensor) -> Tensor:
        return out

    def variances(self, described: Any) -> Any:
        return described[..., 1] ** 2

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        mean, deviation = out.unbind(2)
        z = (y - mean) / deviation
        losses = (deviation / std).log() + z**2 / 2
        if censored is None:
            return losses
        return torch.where(censored == 0, losses, -torch.special.log_ndtr(-censored * z))


class Quantiles(Values):
    r"""Quantiles of each target at named levels: ``[B, T, Q]``, the median and positive steps from it.

    The pinball loss :math:`\max(\tau e, (\tau - 1) e)` of the error :math:`e = y - q_\tau` (Koenker and
    Bassett 1978), the mean over levels :math:`\tau`.

    Args:
        num_targets: T.
        levels: Rising, with 0.5, whose quantile is the prediction, and others on both sides.

    Raises:
        ValueError: Other levels.
    """

    levels: Tensor

    def __init__(self, num_targets: int = 1, levels: Sequence[float] = QUANTILES) -> None:
        check_levels(levels)
        super().__init__(num_targets, width=len(levels))
        self.quantiles = tuple(levels)
        self.point = self.quantiles.index(0.5)
        # Between the outer levels, in deviations of a normal distribution.
        self._outer = float(ndtri(levels[-1]) - ndtri(levels[0]))
        self.register_buffer("levels", torch.tensor(levels), persistent=False)

    def forward(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        numbers = raw.unflatten(1, (-1, self.width))
        below, median, above = numbers.tensor_split((self.point, self.point + 1), dim=2)
        low = median - softplus(below).flip(2).cumsum(2).flip(2)
        rising = torch.cat([low, median, median + softplus(above).cumsum(2)], dim=2)
        return rising * std.unsqueeze(1) + mean.unsqueeze(1)

    def predictions(self, out: Tensor) -> Tensor:
        return out[..., self.point]

    def described(self, out: Tensor) -> Tensor:
        return out

    def variances(self, described: Any) -> Any:
        """Of the normal distribution with the two outer quantiles."""
        return ((described[..., -1] - described[..., 0]) / self._outer) ** 2

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        if censored is not None:
            raise ValueError("quantiles are not learned from bounds (censored)")
        error = (y.unsqueeze(2) - out) / std.unsqueeze(1)
        return torch.maximum(self.levels * error, (self.levels - 1) * error).mean(dim=2)


class Binary(Values):
    """A logit for each target 0 or 1, learned by cross-entropy."""

    def forward(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return raw

    def predictions(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def linear(self, out: Tensor) -> Tensor:
        return out

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        return binary_cross_entropy_with_logits(out, y, reduction="none")


class Classes(Binary):
    """A logit for each class of one target, learned by cross-entropy: ``[B, C]``."""

    def predictions(self, out: Tensor) -> Tensor:
        return out.softmax(dim=1)

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        return cross_entropy(out, y.long().flatten(), reduction="none").unsqueeze(1)


class Levels(Binary):
    r"""Cumulative logits of ordered classes 0, 1, … of one target: ``[B, C - 1]``.

    One score g and thresholds :math:`b_1 \ge b_2 \ge \dots`: :math:`P(y \ge k) = \sigma(4 (g + b_k))`, the
    proportional odds of McCullagh (1980), learned as the C − 1 questions "beyond this class?" of Frank and
    Hall (2001) with weights in common, as in CORAL (Cao et al. 2020). Sorting the thresholds keeps the
    probabilities of classes from falling below 0.
    """

    def __init__(self, num_levels: int) -> None:
        super().__init__(1)
        self.thresholds = torch.nn.Parameter(torch.empty(num_levels - 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.thresholds.copy_(torch.linspace(1, -1, len(self.thresholds)))

    def fit_frequencies(self, y: Tensor) -> None:
        """Begin with the frequencies of classes ``[G]``, NaN = missing; each has half a graph more."""
        known = y[~y.isnan()]
        counts = torch.bincount(known.long(), minlength=len(self.thresholds) + 1) + 0.5
        share = counts.flip(0).cumsum(0).flip(0)[1:] / counts.sum()
        with torch.no_grad():
            self.thresholds.copy_(share.logit() / SLOPE)

    def forward(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return SLOPE * (raw + self.thresholds.sort(descending=True).values)

    def predictions(self, out: Tensor) -> Tensor:
        beyond = pad(pad(out.sigmoid(), (1, 0), value=1.0), (0, 1))
        return beyond[:, :-1] - beyond[:, 1:]

    def linear(self, out: Tensor) -> Tensor:
        return out[:, :1]  # the others differ by constants

    def losses(self, out: Tensor, y: Tensor, std: Tensor, censored: Tensor | None = None) -> Tensor:
        beyond = (y > torch.arange(out.size(1), device=y.device)).to(out.dtype)
        return binary_cross_entropy_with_logits(out, beyond, reduction="none").sum(dim=1, keepdim=True)


def outputs_of(task: str, num_tasks: int, loss: str, quantiles: Sequence[float] | None) -> Values:
    """The outputs of a network.

    Raises:
        ValueError: Arguments that are not known, or do not go together.
    """
    check_one_of("task", task, TASKS)
    check_one_of("loss", loss, LOSSES)
    if task != "regression" and loss != "squared":
        raise ValueError(f"loss={loss!r} is of numbers (task='regression'), got task={task!r}")
    if quantiles is not None and loss != "quantile":
        raise ValueError(f"quantiles go with loss='quantile', got loss={loss!r}")
    if loss == "quantile":
        return Quantiles(num_tasks, QUANTILES if quantiles is None else quantiles)
    if task == "regression":
        return MeanVariance(num_tasks) if loss == "mve" else Values(num_tasks)
    return {"classification": Binary, "multiclass": Classes, "ordinal": Levels}[task](num_tasks)


def check_levels(levels: Sequence[float]) -> None:
    """Refuse levels of quantiles that do not rise from 0 to 1, with 0.5 and others on both sides of it."""
    for level in levels:
        check_finite("quantiles", level)
    rising = all(one < other for one, other in pairwise([0.0, *levels, 1.0]))
    if not rising or 0.5 not in [*levels][1:-1]:
        raise ValueError(
            "quantiles must be above 0, below 1 and rising, with 0.5 (the prediction) and others on both "
            f"sides of it, such as 0.05 0.5 0.95; got {' '.join(f'{level:g}' for level in levels)}"
        )
