"""The marginal likelihood of a Gaussian process, and where it is largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

# Log-normal priors, for targets of variance 1: medians of the amplitudes' sum and of the noise's variance,
# and the standard deviation of the logarithms.
_AMPLITUDE, _NOISE, _WIDTH = 1.0, 0.1, 2.0
# Amplitudes lie within a factor of e^12 of their median; the least noise keeps the factor well-conditioned.
_RANGE, _NOISE_BOUNDS = 12.0, (1e-4, 10.0)


class Evidence:
    """log p(y) of one target, as a function of the logarithms of the hyper-parameters.

    Args:
        kernels: The parts of the kernel; their free hyper-parameters are set on the way.
        grams: ``[n, n]`` of each part, ``None`` for one with free hyper-parameters.
        X: Structures ``[n]``, for parts without a Gram.
        y: Targets ``[n]``, of mean 0 and variance 1.
        weight: Sample weights ``[n]``.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        grams: Sequence[np.ndarray | None],
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
    ) -> None:
        self.kernels, self.grams, self.X, self.y, self.weight = kernels, grams, X, y, weight
        self.centre = np.log([_AMPLITUDE / len(kernels)] * len(kernels) + [_NOISE])

    def maximize(self) -> tuple[np.ndarray, float]:
        """The amplitudes of the parts and the noise; the parts are left with the best of their own."""
        own = [(kernel.theta, np.reshape(kernel.bounds, (-1, 2))) for kernel in self.kernels]
        bounds = [(centre - _RANGE, centre + _RANGE) for centre in self.centre[:-1]]
        bounds += [(np.log(_NOISE_BOUNDS[0]), np.log(_NOISE_BOUNDS[1]))]
        bounds += [(low, high) for _, pairs in own for low, high in pairs]
        best = minimize(
            self.loss,
            np.concatenate([self.centre, *(theta for theta, _ in own)]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 100, "ftol": 1e-6},
        ).x
        self._set(best)
        amplitudes, noise = np.split(np.exp(best[: len(self.kernels) + 1]), [-1])
        return amplitudes, float(noise[0])

    def _set(self, logs: np.ndarray) -> None:
        begin = len(self.kernels) + 1
        for kernel in self.kernels:
            if kernel.n_dims:
                kernel.theta = logs[begin : begin + kernel.n_dims]
                begin += kernel.n_dims

    def loss(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        r"""−log p(y | θ) − log p(θ) up to a constant, and its gradient.

        .. math::
            \frac{\partial}{\partial \theta} \log p(y) = \tfrac12 \operatorname{tr}\big((\alpha \alpha^\top -
            K^{-1}) \tfrac{\partial K}{\partial \theta}\big), \qquad \alpha = K^{-1} y

        (Rasmussen and Williams 2006, eq. 5.9).
        """
        self._set(logs)
        num_parts = len(self.kernels)
        amplitudes, noise = np.exp(logs[:num_parts]), np.exp(logs[num_parts])
        values, slopes = [], []
        for kernel, gram in zip(self.kernels, self.grams, strict=True):
            value, slope = (gram, None) if gram is not None else kernel(self.X, eval_gradient=True)
            values.append(value)
            slopes.append(slope)
        total = np.zeros((len(self.y), len(self.y)))
        for amplitude, value in zip(amplitudes, values, strict=True):
            total += amplitude * value
        total[np.diag_indices_from(total)] += noise / self.weight
        lower = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
        alpha = cho_solve((lower, True), self.y, check_finite=False)
        inverse, _ = lapack.dpotri(lower, lower=True)
        difference = np.outer(alpha, alpha)
        difference -= np.tril(inverse) + np.tril(inverse, -1).T
        gradient = [a * np.vdot(difference, value) for a, value in zip(amplitudes, values, strict=True)]
        gradient.append(noise * (np.diagonal(difference) / self.weight).sum())
        for amplitude, slope in zip(amplitudes, slopes, strict=True):
            if slope is not None:
                gradient.extend(amplitude * np.einsum("ij,ijk->k", difference, slope))
        from_centre = (logs[: num_parts + 1] - self.centre) / _WIDTH
        rise = np.array(gradient) / 2
        rise[: num_parts + 1] -= from_centre / _WIDTH
        log_p = -0.5 * (self.y @ alpha) - np.log(np.diagonal(lower)).sum() - 0.5 * (from_centre @ from_centre)
        return -log_p, -rise
