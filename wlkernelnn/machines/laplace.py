"""Two classes: Laplace's approximation of a Gaussian process's posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import expit, log_expit

from .posterior import ExactPosterior, NystromPosterior

Posterior = TypeVar("Posterior", ExactPosterior, NystromPosterior)

# Kernels are factorised at most so often, and each factor serves at most so many steps.
_FACTORS, _STEPS = 30, 12
# Where no log-odds change by more, it is the mode.
_TOLERANCE = 1e-6
# Steps are not halved below this share of them.
_LEAST = 1e-6
# Least curvature: that of log-odds of about ±14.
_FLAT = 1e-6


@dataclass
class Labels:
    """Rows of two classes.

    Attributes:
        y: 0 or 1, ``[n]``.
        weight: How often each counts, ``[n]``.
        mean: Of the log-odds of class 1 before the rows are seen.
    """

    y: np.ndarray
    weight: np.ndarray
    mean: float

    def log_likelihood(self, f: np.ndarray) -> float:
        """Of log-odds mean + f."""
        return float(self.weight @ log_expit((2 * self.y - 1) * (self.mean + f)))

    def slope(self, f: np.ndarray) -> np.ndarray:
        """Its gradient, w (y − π)."""
        return np.asarray(self.weight * (self.y - expit(self.mean + f)))

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """W = w π (1 − π), its second derivative's negative."""
        p = expit(self.mean + f)
        return np.maximum(self.weight * p * (1 - p), _FLAT)

    def third(self, f: np.ndarray) -> np.ndarray:
        """The curvature's derivative, w π (1 − π) (1 − 2π)."""
        p = expit(self.mean + f)
        return np.asarray(self.weight * p * (1 - p) * (1 - 2 * p))


def laplace(
    posterior_of: Callable[[np.ndarray, np.ndarray], Posterior], labels: Labels
) -> tuple[Posterior, np.ndarray]:
    r"""The Gaussian whose mode and curvature are those of the posterior of f, and its mode ``[n]``.

    It is the posterior of a regression on working targets z with noise 1 / W:

    .. math::
        z = f + W^{-1} \, \nabla \log p(y \mid f), \qquad W = -\nabla \nabla \log p(y \mid f)

    (Rasmussen and Williams 2006, section 3.4). So its leave-one-out means are those of a regression:
    :math:`f_i - \alpha_i \Sigma_{ii} / (1 - W_i \Sigma_{ii})`, with α the gradient and Σ the covariance,
    LA-LOO of Vehtari et al. 2016.

    Newton's method, with several steps for each factor of the kernel. It begins with the largest curvature
    that there is, 1/4, with which no step goes too far; a later step that does is halved.

    Args:
        posterior_of: The posterior of a regression, from its targets and the noise of each ``[n]``.
        labels: The classes.
    """
    f = alpha = step = turn = np.zeros(len(labels.y))

    def height(share: float) -> float:
        """log p(y | f) − ½ αᵀf after a share of a step, which α = K⁻¹f takes as well."""
        there = f + share * step
        return labels.log_likelihood(there) - 0.5 * float((alpha + share * turn) @ there)

    curvature = labels.weight / 4
    posterior: Posterior | None = None
    for _ in range(_FACTORS):
        posterior = None  # its factor makes room for the next
        posterior, first = posterior_of(f, 1 / curvature), np.inf
        for _ in range(_STEPS):
            target = f + labels.slope(f) / curvature
            posterior.observe(target)
            step, turn = posterior.fitted - f, curvature * (target - posterior.fitted) - alpha
            change, share = float(np.abs(step).max(initial=0)), 1.0
            while height(share) < height(0) - _TOLERANCE and share > _LEAST:
                share /= 2
            f, alpha = f + share * step, alpha + share * turn
            if change < _TOLERANCE or change > first:
                break
            first = change
        now = labels.curvature(f)
        if change < _TOLERANCE and np.allclose(now, curvature, rtol=1e-4, atol=0):
            break
        curvature = now
    assert posterior is not None
    return posterior, f
