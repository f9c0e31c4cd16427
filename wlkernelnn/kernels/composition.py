"""Kernels of kernel values: what an activation makes of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial
from typing import NamedTuple

import numpy as np

from wlkernelnn.utils.checks import check_count, check_finite

# Cosines so close to ±1 differ from it by rounding.
_ROUNDING = 1e-13


class Slopes(NamedTuple):
    """Derivatives of a composed kernel with respect to k(x, y), k(x, x) and k(y, y)."""

    k: np.ndarray
    kxx: np.ndarray | float
    kyy: np.ndarray | float


class Composition(ABC):
    r""":math:`K_\sigma(x, y)` as a function of k(x, y), k(x, x) and k(y, y): Lei et al. 2017, section 2.1."""

    @abstractmethod
    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        """Values from ``k [N, N']``, ``kxx [N, 1]`` and ``kyy [1, N']`` (of any shapes that broadcast)."""

    @abstractmethod
    def slopes(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> Slopes:
        """The derivatives of the values."""


class Series(Composition):
    r"""A power series :math:`\sum_a b_a k^a` with :math:`b_a \ge 0`: a kernel wherever k is one."""

    @property
    def last(self) -> int | None:
        """The highest power, ``None`` for a series without end."""
        return None

    @abstractmethod
    def coefficient(self, a: int) -> Fraction:
        """:math:`b_a`, exactly."""

    @abstractmethod
    def slope(self, k: np.ndarray) -> np.ndarray:
        """The derivative with respect to k; such a series depends on nothing else."""

    def slopes(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> Slopes:
        return Slopes(self.slope(k), 0.0, 0.0)


@dataclass(frozen=True)
class Identity(Series):
    """k itself: no activation."""

    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        return k

    def slope(self, k: np.ndarray) -> np.ndarray:
        return np.asarray(np.ones_like(k))

    @property
    def last(self) -> int:
        return 1

    def coefficient(self, a: int) -> Fraction:
        return Fraction(a == 1)


@dataclass(frozen=True)
class Polynomial(Series):
    """(c + k)^p.

    Args:
        degree: p ≥ 1, an integer.
        constant: c > 0, so that polynomial activations of every degree up to p are covered.

    Raises:
        ValueError: They are not so.
    """

    degree: int = 2
    constant: float = 1.0

    def __post_init__(self) -> None:
        check_count("degree", self.degree)
        check_finite("constant", self.constant)
        if self.constant <= 0:
            raise ValueError(f"(c + k)^p needs c > 0, got constant = {self.constant}")

    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        return np.asarray((self.constant + k) ** self.degree)

    def slope(self, k: np.ndarray) -> np.ndarray:
        return np.asarray(self.degree * (self.constant + k) ** (self.degree - 1))

    @property
    def last(self) -> int:
        return self.degree

    def coefficient(self, a: int) -> Fraction:
        if a > self.degree:
            return Fraction(0)
        return comb(self.degree, a) * Fraction(self.constant) ** (self.degree - a)


@dataclass(frozen=True)
class Inverse(Series):
    """1 / (2 − k/s), the kernel of lemma 1.

    Args:
        scale: s > 0, one constant for all: k(x, x) ≤ s must hold. (Normalising k by its diagonal instead
            would be another space of functions.)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_finite("scale", self.scale)
        if self.scale <= 0:
            raise ValueError(f"1 / (2 − k/s) needs s > 0, got {self.scale}")

    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        largest = max(kxx.max(initial=0.0), kyy.max(initial=0.0))
        if largest > self.scale * (1 + 1e-12):
            raise ValueError(
                f"1 / (2 − k/s) needs k(x, x) ≤ s everywhere: the largest is {largest:.6g}, s is "
                f"{self.scale:.6g}; use Inverse(scale={largest:.6g}) or a smaller decay"
            )
        return np.asarray(1 / (2 - k / self.scale))

    def slope(self, k: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (2 - k / self.scale) ** 2 / self.scale)

    def coefficient(self, a: int) -> Fraction:
        return 1 / (Fraction(self.scale) ** a * 2 ** (a + 1))


@dataclass(frozen=True)
class Exponential(Series):
    """exp(k)."""

    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        return np.exp(k)

    def slope(self, k: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(k))

    def coefficient(self, a: int) -> Fraction:
        return Fraction(1, factorial(a))


@dataclass(frozen=True)
class ArcCosine(Composition):
    r"""The arc-cosine kernel of order 0 (steps) or 1 (ReLU), Cho and Saul 2009, with θ the angle of x and y.

    .. math::
        K_0 = 1 - \theta / \pi \qquad
        K_1 = \tfrac{1}{\pi} \sqrt{k(x,x) k(y,y)} \, (\sin\theta + (\pi - \theta) \cos\theta)

    A vector 0 counts as being at a right angle to everything, as a step function of value 1/2 at 0 would.
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (0, 1):
            raise ValueError(f"the arc-cosine kernel is there for order 0 and 1, got {self.order}")

    def _angle(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """√(k(x,x) k(y,y)) and cos θ."""
        norms = np.sqrt(kxx * kyy)
        cosine = np.divide(k, norms, out=np.zeros_like(norms + k), where=norms > 0)
        # Parallel but for rounding is parallel: arccos would make 1e-8 of 1e-16, and the next layer 1e-4.
        parallel = np.abs(cosine) > 1 - _ROUNDING
        return norms, np.where(parallel, np.sign(cosine), cosine)

    def __call__(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> np.ndarray:
        norms, cosine = self._angle(k, kxx, kyy)
        angle = np.arccos(cosine)
        if self.order == 0:
            return np.asarray(1 - angle / np.pi)
        return np.asarray(norms * (np.sin(angle) + (np.pi - angle) * cosine) / np.pi)

    def slopes(self, k: np.ndarray, kxx: np.ndarray, kyy: np.ndarray) -> Slopes:
        norms, cosine = self._angle(k, kxx, kyy)
        angle = np.arccos(cosine)
        sine = np.sin(angle)
        if self.order == 1:
            by_norms = sine / np.pi
            return Slopes(
                (np.pi - angle) / np.pi, by_norms * _ratio(norms, 2 * kxx), by_norms * _ratio(norms, 2 * kyy)
            )
        # Parallel vectors stay parallel: the kernel stays 1, whatever their lengths do.
        by_k = _ratio(np.ones_like(cosine), np.pi * norms * sine)
        by_norms = -by_k * cosine
        return Slopes(by_k, by_norms * _ratio(norms, 2 * kxx), by_norms * _ratio(norms, 2 * kyy))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 where the denominator is."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator > 0)


COMPOSITIONS: dict[str, Callable[[], Composition]] = {
    "identity": Identity,
    "polynomial": Polynomial,
    "inverse": Inverse,
    "exp": Exponential,
    "arccos0": lambda: ArcCosine(0),
    "arccos1": lambda: ArcCosine(1),
}


def get_composition(composition: str | Composition) -> Composition:
    """A composition from its name, or as it is.

    Raises:
        ValueError: No composition has this name.
    """
    if isinstance(composition, Composition):
        return composition
    if composition not in [*COMPOSITIONS]:
        raise ValueError(
            f"composition must be a Composition or one of {', '.join(COMPOSITIONS)}, got {composition!r}"
        )
    return COMPOSITIONS[composition]()
