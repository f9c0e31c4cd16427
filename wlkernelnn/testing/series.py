"""Activations as power series, and their norm in the space of a composition (lemma 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module
from math import factorial
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.kernels.composition import Series


class _MpMath:
    """The package mpmath, imported when first used: only exact arithmetic needs it."""

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(import_module("mpmath"), name)
        except ModuleNotFoundError as error:
            raise ImportError("exact arithmetic needs mpmath: pip install 'wlkernelnn[theorems]'") from error


mpmath = _MpMath()

# A series that has not come to rest after so many terms is taken for a divergent one.
_TERMS = 2000


@dataclass(frozen=True)
class PowerSeries:
    r"""An activation :math:`\sigma(z) = \sum_a s_a z^a`, for layers (tensors) and for exact arithmetic.

    Args:
        name: For messages.
        coefficient: a ↦ :math:`s_a`, as anything that mpmath takes for a number.
        tensor: σ of tensors. Pass the whole object as ``act`` of a layer.
        exact: σ of mpmath's numbers.
        last: The highest power, ``None`` for a series without end.
    """

    name: str
    coefficient: Callable[[int], Any]
    tensor: Callable[[Tensor], Tensor]
    exact: Callable[[Any], Any]
    last: int | None = None

    def __call__(self, z: Tensor) -> Tensor:
        return self.tensor(z)


def number(value: Any) -> Any:
    """mpmath's number of a fraction, an integer, a float or such a number."""
    return (
        mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpf(value)
    )


def series_sum(coefficient: Callable[[int], Any], last: int | None, z: Any) -> Any:
    """Σ_a coefficient(a) z^a to the working precision.

    Raises:
        OverflowError: A series without end does not come to rest.
    """
    total, power, at_rest = mpmath.mpf(0), mpmath.mpf(1), 0
    for a in range((_TERMS if last is None else last) + 1):
        term = coefficient(a) * power
        total, power = total + term, power * z
        # Odd and even series have a 0 between any two terms.
        at_rest = at_rest + 1 if abs(term) <= abs(total) * mpmath.eps else 0
        if last is None and at_rest > 4:
            return total
    if last is None:
        raise OverflowError(f"the series at {mpmath.nstr(z, 6)} does not come to rest in {_TERMS} terms")
    return total


def norms(activation: PowerSeries, composition: Series) -> Callable[[Any], Any]:
    r""":math:`\hat\sigma(k) = \sum_a (s_a^2 / b_a) k^a`, for mpmath's numbers.

    If :math:`c = \langle \phi, \psi \rangle` with :math:`\|\psi\|^2 = k`, then :math:`\sigma(c)` has the
    squared norm :math:`\hat\sigma(k)` in the space of :math:`K_\sigma = \sum_a b_a k^a`: the numbers of lemma
    1.

    Raises:
        ValueError: σ has a power that K_σ lacks, or (when called) an infinite norm.
    """

    @cache
    def weight(a: int) -> Any:
        s, b = number(activation.coefficient(a)), number(composition.coefficient(a))
        if s != 0 and b == 0:
            raise ValueError(
                f"{activation.name} has a term of degree {a}, {composition} has none: "
                "the activation does not lie in its space"
            )
        return s * s / b if s != 0 else mpmath.mpf(0)

    def hat(k: Any) -> Any:
        try:
            return series_sum(weight, activation.last, k)
        except OverflowError as error:
            raise ValueError(
                f"{activation.name} has no finite norm in the space of {composition} for weights of squared "
                f"norm {mpmath.nstr(k, 6)}: use smaller weights"
            ) from error

    return hat


def _odd(coefficient: Callable[[int], Any]) -> Callable[[int], Any]:
    """Coefficients of Σ_k coefficient(k) z^(2k+1)."""
    return lambda a: coefficient(a // 2) if a % 2 else 0


def _of_mpmath(name: str) -> Callable[[Any], Any]:
    return lambda z: getattr(mpmath, name)(z)


def _tanh(k: int) -> Any:
    n = 2 * k + 2
    return mpmath.mpf(2) ** n * (mpmath.mpf(2) ** n - 1) * mpmath.bernoulli(n) / mpmath.factorial(n)


ACTIVATIONS: dict[str, PowerSeries] = {
    series.name: series
    for series in (
        PowerSeries("linear", lambda a: int(a == 1), lambda z: z, lambda z: z, last=1),
        PowerSeries("square", lambda a: int(a == 2), torch.square, lambda z: z * z, last=2),
        PowerSeries(
            "quadratic",
            lambda a: Fraction((1, 2, 1)[a], 4) if a < 3 else 0,
            lambda z: (1 + z) ** 2 / 4,
            lambda z: (1 + z) ** 2 / 4,
            last=2,
        ),
        PowerSeries("exp", lambda a: Fraction(1, factorial(a)), torch.exp, _of_mpmath("exp")),
        PowerSeries(
            "sin",
            _odd(lambda k: Fraction((-1) ** k, factorial(2 * k + 1))),
            torch.sin,
            lambda z: mpmath.sin(z),
        ),
        # Sigmoids from −1 to 1: erf is entire, the series of tanh ends at |z| = π/2.
        PowerSeries(
            "erf",
            _odd(lambda k: (-1) ** k * 2 / mpmath.sqrt(mpmath.pi) / (factorial(k) * (2 * k + 1))),
            torch.erf,
            _of_mpmath("erf"),
        ),
        PowerSeries("tanh", _odd(_tanh), torch.tanh, _of_mpmath("tanh")),
    )
}
