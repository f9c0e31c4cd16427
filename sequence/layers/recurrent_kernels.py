"""What the inner products of two strings become in one step of a recurrent kernel machine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from wlkernelnn.utils.checks import check_count, check_finite

# σ_i² + σ_f² = 1 up to rounding.
_SLACK = 1e-9


class RecurrentKernel(ABC):
    r"""One step of a kernel between strings: :math:`k_t = q(\tilde c_t, k_{t-1})`.

    :math:`\tilde c_t` is the inner product of the tokens at t, and :math:`k_{t-1}` the kernel of what was
    before.

    Attributes:
        unit: Whether tokens and filters are scaled to length 1, so that :math:`|\tilde c_t| \le 1`.
    """

    unit: bool = True

    @abstractmethod
    def __call__(self, new: Tensor, memory: Tensor, sigma_i2: float, sigma_f2: float) -> Tensor:
        """q of inner products and of the kernel before, elementwise."""

    def check(self, sigma_i2: float, sigma_f2: float) -> None:
        """Refuse σ's with which k does not stay bounded.

        Raises:
            ValueError: Says which were expected.
        """
        allowed = sigma_i2 >= 0 and sigma_f2 >= 0 and sigma_i2 + sigma_f2 <= 1 + _SLACK
        self._expect("σ_i², σ_f² ≥ 0 with σ_i² + σ_f² ≤ 1", allowed, sigma_i2, sigma_f2)

    def _expect(self, expected: str, allowed: bool, sigma_i2: float, sigma_f2: float) -> None:
        if not allowed:
            name = type(self).__name__
            raise ValueError(f"{name} needs {expected}, got sigma_i2={sigma_i2:g} and sigma_f2={sigma_f2:g}")


class _Weighted(RecurrentKernel):
    r"""q of the weighted sum :math:`c = \sigma_i^2 \tilde c + \sigma_f^2 k`."""

    def __call__(self, new: Tensor, memory: Tensor, sigma_i2: float, sigma_f2: float) -> Tensor:
        return self.of_sum(sigma_i2 * new + sigma_f2 * memory)

    @abstractmethod
    def of_sum(self, c: Tensor) -> Tensor:
        """q(c)."""


@dataclass(frozen=True)
class LinearKernel(_Weighted):
    """q(c) = c, of tokens and filters of any length; bounded for σ_f² < 1 if they are."""

    unit = False

    def of_sum(self, c: Tensor) -> Tensor:
        return c

    def check(self, sigma_i2: float, sigma_f2: float) -> None:
        self._expect("σ_i² ≥ 0 and 0 ≤ σ_f² < 1", sigma_i2 >= 0 and 0 <= sigma_f2 < 1, sigma_i2, sigma_f2)


@dataclass(frozen=True)
class PolynomialKernel(_Weighted):
    """q(c) = ((b + c) / (b + 1))^p: the polynomial kernel, divided by its largest value.

    Args:
        degree: p, an integer of at least 1 (or a ``ValueError`` is raised).
        constant: b, at least 0.
    """

    degree: int = 2
    constant: float = 1.0

    def __post_init__(self) -> None:
        check_count("degree", self.degree)  # b + c may be negative
        check_finite("constant", self.constant)
        if self.constant < 0:
            raise ValueError(f"constant must be at least 0, got {self.constant}")

    def of_sum(self, c: Tensor) -> Tensor:
        return ((self.constant + c) / (self.constant + 1)) ** self.degree


@dataclass(frozen=True)
class GaussianKernel(RecurrentKernel):
    r"""exp((c̃ − 1) / σ_i² + (k − 1) / σ_f²): :math:`\exp(-|x - y|^2 / 2\sigma^2)` of unit vectors."""

    def __call__(self, new: Tensor, memory: Tensor, sigma_i2: float, sigma_f2: float) -> Tensor:
        return torch.exp((new - 1) / sigma_i2 + (memory - 1) / sigma_f2)

    def check(self, sigma_i2: float, sigma_f2: float) -> None:
        self._expect("σ_i², σ_f² > 0", sigma_i2 > 0 and sigma_f2 > 0, sigma_i2, sigma_f2)


@dataclass(frozen=True)
class ArcCosineKernel(_Weighted):
    r"""The arc-cosine kernel of order 0 (steps) or 1 (ReLU) of Cho and Saul 2009, with c = cos θ.

    .. math::
        q_0 = 1 - \theta / \pi \qquad q_1 = (\sin\theta + (\pi - \theta) \cos\theta) / \pi
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (0, 1):
            raise ValueError(f"the arc-cosine kernel is there for order 0 and 1, got {self.order}")

    def of_sum(self, c: Tensor) -> Tensor:
        # Slopes at ±1 are infinite, or differences of infinite ones.
        limit = 1 - torch.finfo(c.dtype).eps
        c = c.clamp(-limit, limit)
        angle = torch.arccos(c)
        if self.order == 0:
            return 1 - angle / math.pi
        return (torch.sqrt((1 - c) * (1 + c)) + (math.pi - angle) * c) / math.pi


@dataclass(frozen=True)
class TanhKernel(_Weighted):
    """q(c) = tanh(c), of tokens and filters of any length.

    **Not a Mercer kernel** (the series of tanh has negative coefficients), but networks use it.
    """

    unit = False

    def of_sum(self, c: Tensor) -> Tensor:
        return torch.tanh(c)

    def check(self, sigma_i2: float, sigma_f2: float) -> None:
        self._expect("σ_i², σ_f² ≥ 0", sigma_i2 >= 0 and sigma_f2 >= 0, sigma_i2, sigma_f2)


RECURRENT_KERNELS: dict[str, Callable[[], RecurrentKernel]] = {
    "linear": LinearKernel,
    "polynomial": PolynomialKernel,
    "gaussian": GaussianKernel,
    "arccos0": lambda: ArcCosineKernel(0),
    "arccos1": lambda: ArcCosineKernel(1),
    "tanh": TanhKernel,
}


def get_recurrent_kernel(kernel: str | RecurrentKernel) -> RecurrentKernel:
    """A kernel by its name, or as it is."""
    if isinstance(kernel, RecurrentKernel):
        return kernel
    if kernel not in RECURRENT_KERNELS:
        known = ", ".join(RECURRENT_KERNELS)
        raise ValueError(f"kernel must be a RecurrentKernel or one of {known}, got {kernel!r}")
    return RECURRENT_KERNELS[kernel]()
