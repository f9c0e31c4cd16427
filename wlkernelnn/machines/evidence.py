"""The marginal likelihood of a Gaussian process, and where it is largest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

from .known import diagonal
from .laplace import Labels, laplace
from .posterior import ExactPosterior

# The standard deviation of the logarithms in the log-normal priors.
_WIDTH = 2.0
# Amplitudes lie within a factor of e^12 of their medians; the least noise keeps the factor well-conditioned.
_RANGE, _NOISE_BOUNDS = 12.0, (1e-4, 10.0)
# Beyond this ratio a float64 of the largest value has lost the least one.
_MOST = 1e15


class Evidence(ABC):
    """log p(y) of one target, as a function of the logarithms of the hyper-parameters.

    Amplitudes, their noise and the hyper-parameters of the parts' own, in this order. Medians of the priors:
    ``amplitude`` of the mean variance of f before data, in equal shares of the parts, and of the noise's
    variance, if there is noise, ``noise``.

    Args:
        kernels: The parts of the kernel; their free hyper-parameters are set on the way.
        grams: ``[n, n]`` of each part, ``None`` for one with free hyper-parameters.
        X: Structures ``[n]``, for parts without a Gram.
    """

    amplitude: float
    noise: tuple[float, ...] = ()

    def __init__(self, kernels: Sequence[Kernel], grams: Sequence[np.ndarray | None], X: Any) -> None:
        self.kernels, self.grams, self.X = kernels, grams, X
        both = zip(kernels, grams, strict=True)
        diagonals = [diagonal(kernel, X) if gram is None else np.diagonal(gram) for kernel, gram in both]
        for values in diagonals:
            _check_range(values[values > 0])
        sizes = [values.mean() or 1.0 for values in diagonals]
        self.centre = np.log([*(self.amplitude / len(kernels) / np.array(sizes)), *self.noise])

    @abstractmethod
    def log_p(self, gram: np.ndarray, noise: np.ndarray) -> tuple[float, np.ndarray, list[float]]:
        """log p(y), twice its derivative by the kernel ``[n, n]``, and twice that by the noise's logarithm.

        Args:
            gram: The kernel ``[n, n]``, which is overwritten.
            noise: The variance, ``[1]``, or ``[0]`` where there is none.
        """

    def maximize(self) -> tuple[np.ndarray, float]:
        """The amplitudes of the parts and the noise; the parts are left with the best of their own."""
        own = [(kernel.theta, np.reshape(kernel.bounds, (-1, 2))) for kernel in self.kernels]
        bounds = [(centre - _RANGE, centre + _RANGE) for centre in self.centre[: len(self.kernels)]]
        bounds += [(np.log(_NOISE_BOUNDS[0]), np.log(_NOISE_BOUNDS[1])) for _ in self.noise]
        bounds += [(low, high) for _, pairs in own for low, high in pairs]
        begin = np.concatenate([self.centre, *(theta for theta, _ in own)])
        options = {"maxiter": 100, "ftol": 1e-6}
        try:
            best = minimize(self.loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        except np.linalg.LinAlgError as error:
            both = zip(self.kernels, self.grams, strict=True)
            largest = max(np.max(diagonal(kernel, self.X) if gram is None else gram) for kernel, gram in both)
            raise ValueError(
                f"the kernel's matrix, with values up to {largest:.2g}, is not positive definite as floats "
                "hold it: give the kernel normalize=True, or a smaller decay"
            ) from error
        self._set(best)
        amplitudes, noise = np.split(np.exp(best[: len(self.centre)]), [len(self.kernels)])
        return amplitudes, float(noise.sum())

    def _set(self, logs: np.ndarray) -> None:
        begin = len(self.centre)
        for kernel in self.kernels:
            if kernel.n_dims:
                kernel.theta = logs[begin : begin + kernel.n_dims]
                begin += kernel.n_dims

    def loss(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """−log p(y | θ) − log p(θ) up to a constant, and its gradient."""
        self._set(logs)
        amplitudes, noise = np.split(np.exp(logs[: len(self.centre)]), [len(self.kernels)])
        values, slopes = [], []
        for kernel, gram in zip(self.kernels, self.grams, strict=True):
            value, slope = (gram, None) if gram is not None else kernel(self.X, eval_gradient=True)
            values.append(value)
            slopes.append(slope)
        total = np.zeros_like(values[0])
        for amplitude, value in zip(amplitudes, values, strict=True):
            total += amplitude * value
        log_p, by_kernel, by_noise = self.log_p(total, noise)
        gradient = [a * np.vdot(by_kernel, value) for a, value in zip(amplitudes, values, strict=True)]
        gradient.extend(by_noise)
        for amplitude, slope in zip(amplitudes, slopes, strict=True):
            if slope is not None:
                gradient.extend(amplitude * np.einsum("ij,ijk->k", by_kernel, slope))
        from_centre = (logs[: len(self.centre)] - self.centre) / _WIDTH
        rise = np.array(gradient) / 2
        rise[: len(self.centre)] -= from_centre / _WIDTH
        return float(0.5 * (from_centre @ from_centre) - log_p), -rise


class RegressionEvidence(Evidence):
    r"""Of numbers with noise.

    .. math::
        \frac{\partial}{\partial \theta} \log p(y) = \tfrac12 \operatorname{tr}\big((\alpha \alpha^\top -
        K^{-1}) \tfrac{\partial K}{\partial \theta}\big), \qquad \alpha = K^{-1} y

    (Rasmussen and Williams 2006, eq. 5.9).

    Args:
        kernels, grams, X: See :class:`Evidence`.
        y: Targets ``[n]``, of mean 0 and variance 1.
        weight: Sample weights ``[n]``.
    """

    amplitude, noise = 1.0, (0.1,)

    def __init__(
        self,
        kernels: Sequence[Kernel],
        grams: Sequence[np.ndarray | None],
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
    ) -> None:
        super().__init__(kernels, grams, X)
        self.y, self.weight = y, weight

    def log_p(self, gram: np.ndarray, noise: np.ndarray) -> tuple[float, np.ndarray, list[float]]:
        gram[np.diag_indices_from(gram)] += noise / self.weight
        lower = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        alpha = cho_solve((lower, True), self.y, check_finite=False)
        by_kernel = np.outer(alpha, alpha)
        by_kernel -= _inverse(lower)
        log_p = -0.5 * (self.y @ alpha) - np.log(np.diagonal(lower)).sum()
        return log_p, by_kernel, [noise[0] * (np.diagonal(by_kernel) / self.weight).sum()]


class LaplaceEvidence(Evidence):
    r"""Of two classes, by Laplace's approximation.

    .. math::
        \log p(y) \approx \log p(y \mid f) - \tfrac12 \alpha^\top f - \tfrac12 \log |1 + W^{1/2} K W^{1/2}|,
        \qquad \alpha = \nabla \log p(y \mid f)

    at the mode f (Rasmussen and Williams 2006, eq. 5.20 to 5.24).

    Args:
        kernels, grams, X: See :class:`Evidence`.
        labels: The classes.
    """

    amplitude = 10.0

    def __init__(
        self, kernels: Sequence[Kernel], grams: Sequence[np.ndarray | None], X: Any, labels: Labels
    ) -> None:
        super().__init__(kernels, grams, X)
        self.labels = labels

    def log_p(self, gram: np.ndarray, noise: np.ndarray) -> tuple[float, np.ndarray, list[float]]:
        posterior, f = laplace(lambda y, variance: ExactPosterior(gram.copy(), y, variance), self.labels)
        alpha, variance = posterior.alpha, posterior.noise
        log_p = self.labels.log_likelihood(f) - 0.5 * (alpha @ f)
        log_p -= np.log(np.diagonal(posterior.lower)).sum() - 0.5 * np.log(variance).sum()
        inverse = _inverse(posterior.lower)
        # The mode moves with the kernel, and W with the mode.
        covariance = variance * (1 - variance * np.diagonal(inverse))
        by_mode = -0.5 * covariance * self.labels.third(f)
        moved = by_mode - inverse @ (gram @ by_mode)
        return log_p, np.outer(alpha + 2 * moved, alpha) - inverse, []


def _check_range(diagonal: np.ndarray) -> None:
    """Refuse values of structures with themselves that floats cannot add up."""
    if diagonal.max(initial=0.0) > _MOST * diagonal.min(initial=np.inf):
        raise ValueError(
            f"the kernel's values of structures with themselves go from {diagonal.min():.2g} to "
            f"{diagonal.max():.2g}, more than floats can add up: give the kernel normalize=True, or a "
            "smaller decay"
        )


def _inverse(lower: np.ndarray) -> np.ndarray:
    """The inverse of a matrix with this Cholesky factor."""
    inverse, _ = lapack.dpotri(lower, lower=True)  # its lower half; the upper one is 0, as that of the factor
    whole = inverse + inverse.T
    whole[np.diag_indices_from(whole)] /= 2
    return np.asarray(whole)
