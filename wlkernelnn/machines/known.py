"""What is known of a Gaussian process before it is fitted: Grams, or the weights of its mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import GenericKernelMixin, Kernel


class KnownGram(GenericKernelMixin, Kernel):
    """A kernel whose Gram matrix ``[n, n]`` is known: its structures are the numbers of rows."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __sklearn_clone__(self) -> Self:
        return self

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, eval_gradient: bool = False) -> Any:
        gram = self.values[np.ix_(X, X if Y is None else Y)]
        return (gram, np.zeros((*gram.shape, 0))) if eval_gradient else gram

    def diag(self, X: np.ndarray) -> np.ndarray:
        return self.values.diagonal()[X]

    def is_stationary(self) -> bool:
        return False


@dataclass
class KnownMean:
    """A posterior whose mean alone is known.

    Attributes:
        alpha: What a row of the kernel is multiplied with, ``[n]``, or ``[m]`` of landmarks.
    """

    alpha: np.ndarray

    def mean(self, cross: np.ndarray) -> np.ndarray:
        """As of :class:`ExactPosterior`."""
        return np.asarray(cross @ self.alpha)
