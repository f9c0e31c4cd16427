"""Exact arithmetic for networks, kernels and norms side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from wlkernelnn.kernels.composition import Series

from .series import PowerSeries, mpmath, norms, number, series_sum


class State(NamedTuple):
    """One state of a network beside its kernel, at all nodes of all graphs, or all tokens of all strings.

    Attributes:
        kind: ``"c"`` before the activation, ``"h"`` after it, or ``"sum"`` over the nodes of a graph.
        what: For messages.
        values: The network's values, ``[N, channels]``.
        kernel: The kernel, ``[N, N]``.
        norms: Gram of the channels' functions in the kernel's space, ``[channels, channels]``.
    """

    kind: str
    what: str
    values: np.ndarray
    kernel: np.ndarray
    norms: np.ndarray


def exact(values: Tensor | np.ndarray) -> np.ndarray:
    """The same numbers as mpmath's, in an object array."""
    array = values.detach().numpy() if isinstance(values, Tensor) else values
    return np.asarray(np.frompyfunc(mpmath.mpf, 1, 1)(array.astype(object)), dtype=object)


def _each(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(function, 1, 1)(values), dtype=object)


class Activated:
    r"""An activation: σ of values, :math:`K_\sigma` of a kernel, and :math:`\hat\sigma` of norms.

    One object is good for one precision: coefficients are kept with the digits they were made in.
    """

    def __init__(self, activation: PowerSeries, composition: Series) -> None:
        self._value = activation.exact
        self._hat = norms(activation, composition)
        self._coefficient = cache(lambda a: number(composition.coefficient(a)))
        self._last = composition.last

    def values(self, values: np.ndarray) -> np.ndarray:
        return _each(self._value, values)

    def kernel(self, kernel: np.ndarray) -> np.ndarray:
        return _each(lambda k: series_sum(self._coefficient, self._last, k), kernel)

    def norms(self, gram: np.ndarray) -> np.ndarray:
        return _each(self._hat, gram)


def rkhs_norm(values: np.ndarray, kernel: np.ndarray) -> tuple[Any, Any]:
    """The squared norm of the smallest function of a kernel's space that has these values.

    Args:
        values: mpmath's numbers ``[N]``.
        kernel: mpmath's numbers ``[N, N]``.

    Returns:
        fᵀK⁺f, and r² / d: what is left of the values, beside what is left of K's diagonal, where K has no
        more rank within half the working precision. A function of squared norm B leaves r² ≤ B d.
    """
    rest, k, norm = values.copy(), kernel.copy(), mpmath.mpf(0)
    # Elimination with the largest diagonal entry first: what remains is known without the nodes done so far.
    floor = mpmath.power(10, -(mpmath.mp.dps // 2)) * max([*np.diagonal(k), mpmath.mpf(0)])
    for _ in range(len(rest)):
        pivot = max(range(len(rest)), key=lambda i: k[i, i])
        if k[pivot, pivot] <= floor:
            break
        column, share = k[:, pivot] / k[pivot, pivot], rest[pivot]
        norm += share * share / k[pivot, pivot]
        rest, k = rest - column * share, k - np.outer(column, k[pivot])
    left = max([value * value for value in rest], default=mpmath.mpf(0))
    return norm, left / floor if floor else left
