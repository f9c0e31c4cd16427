"""What training targets say of new ones: exactly, or through some of the training rows."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular

# Of a kernel's diagonal: what is added to that of the landmarks, so that rounding does not make it negative.
_JITTER = 1e-8


class ExactPosterior:
    """The posterior of f at all training rows, y = f + noise.

    Args:
        gram: The kernel ``[n, n]``, which is overwritten.
        y: ``[n]``.
        noise: Variance of the noise of each row, ``[n]``.

    Attributes:
        lower: Cholesky factor of the kernel with the noise, ``[n, n]``.
        alpha: Weights of the training rows, ``[n]``: the mean is the kernel with them, times ``alpha``.
    """

    def __init__(self, gram: np.ndarray, y: np.ndarray, noise: np.ndarray) -> None:
        gram[np.diag_indices_from(gram)] += noise
        self.noise = noise
        # Transposed, a symmetric matrix is the same in LAPACK's order, so that its factor takes its place.
        self.lower = cholesky(gram.T, lower=True, overwrite_a=True, check_finite=False)
        self.observe(y)

    def observe(self, y: np.ndarray) -> None:
        """Take other targets ``[n]``, with the same noise."""
        self.y = y
        self.alpha = cho_solve((self.lower, True), y, check_finite=False)

    @property
    def fitted(self) -> np.ndarray:
        """The mean of f at the training rows, ``[n]``."""
        return self.y - self.noise * self.alpha

    def mean(self, cross: np.ndarray) -> np.ndarray:
        """Of new rows, from their kernel with the training rows ``[m, n]``."""
        return np.asarray(cross @ self.alpha)

    def variance(self, cross: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Of f at new rows, from their kernel with the training rows and with themselves ``[m]``."""
        half = solve_triangular(self.lower, cross.T, lower=True, check_finite=False)
        return np.maximum(prior - np.einsum("ij,ij->j", half, half), 0.0)

    def leave_one_out(self, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        r"""Mean and variance of each measurement, as all others predict it.

        .. math::
            \mu_i = y_i - [K^{-1} y]_i / [K^{-1}]_{ii}, \qquad \sigma_i^2 = 1 / [K^{-1}]_{ii}

        (Rasmussen and Williams 2006, eq. 5.12; K with the noise). Rows i of one group are left out together:
        blocks of the inverse are in the place of its diagonal.

        Args:
            groups: ``[n]``; ``None``: each row is left out alone.
        """
        inverse, _ = lapack.dtrtri(self.lower, lower=True)
        precision = np.einsum("ij,ij->j", inverse, inverse)
        mean, variance = self.y - self.alpha / precision, 1 / precision
        for rows in blocks_of(groups):
            block = np.linalg.inv(inverse[:, rows].T @ inverse[:, rows])
            mean[rows], variance[rows] = self.y[rows] - block @ self.alpha[rows], np.diagonal(block)
        return mean, variance


class NystromPosterior:
    r"""The posterior through landmarks: f is a linear function of :math:`z(x) = L_{mm}^{-1} k_m(x)`.

    .. math::
        f(x) = z(x)^\top w + \delta(x), \qquad w \sim \mathcal{N}(0, 1), \qquad
        \delta(x) \sim \mathcal{N}(0, k(x, x) - z(x)^\top z(x))

    with the factor :math:`L_{mm}` of the landmarks' kernel: each row has what the landmarks do not say of
    it, δ, for itself (the fully independent training conditional, Quiñonero-Candela and Rasmussen 2005).

    Args:
        landmarks: The kernel of the landmarks ``[m, m]``.
        cross: The kernel of all training rows with the landmarks ``[n, m]``, which is overwritten.
        prior: The kernel of each row with itself ``[n]``.

    It says nothing before :meth:`condition`.
    """

    def __init__(self, landmarks: np.ndarray, cross: np.ndarray, prior: np.ndarray) -> None:
        jitter = _JITTER * np.diagonal(landmarks).mean()
        landmarks[np.diag_indices_from(landmarks)] += jitter
        self.root = cholesky(landmarks, lower=True, overwrite_a=True, check_finite=False)
        self.features = self._features(cross)
        self.rest = self._rest(self.features, prior)

    def condition(self, y: np.ndarray, noise: np.ndarray) -> Self:
        """Take targets and noise, as of :class:`ExactPosterior`."""
        self.own_noise, self.noise = noise, noise + self.rest
        scaled = self.features / np.sqrt(self.noise)[:, None]
        inner = scaled.T @ scaled  # of one array with itself, numpy computes half
        inner[np.diag_indices_from(inner)] += 1
        self.lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        self.observe(y)
        return self

    def observe(self, y: np.ndarray) -> None:
        """Take other targets ``[n]``, with the same noise."""
        self.y = y
        self.weight = cho_solve((self.lower, True), self.features.T @ (y / self.noise), check_finite=False)
        # What a row of the kernel with the landmarks is multiplied with for the mean, [m].
        self.alpha = solve_triangular(self.root, self.weight, lower=True, trans=1, check_finite=False)

    @property
    def fitted(self) -> np.ndarray:
        """The mean of f at the training rows, ``[n]``."""
        return self.y - self.own_noise * (self.y - self.features @ self.weight) / self.noise

    def _features(self, cross: np.ndarray) -> np.ndarray:
        return solve_triangular(self.root, cross.T, lower=True, check_finite=False).T

    def mean(self, cross: np.ndarray) -> np.ndarray:
        """Of new rows, from their kernel with the landmarks ``[n', m]``."""
        return np.asarray(cross @ self.alpha)

    def variance(self, cross: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Of f at new rows, from their kernel with the landmarks and with themselves ``[n']``."""
        features = self._features(cross)
        return self._rest(features, prior) + self._spread(features)

    def _rest(self, features: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """The variance of δ."""
        return np.maximum(prior - np.einsum("ij,ij->i", features, features), 0.0)

    def _spread(self, features: np.ndarray) -> np.ndarray:
        """The variance of zᵀw."""
        half = solve_triangular(self.lower, features.T, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", half, half)

    def leave_one_out(self, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each measurement, as all others predict it; the landmarks stay.

        Args:
            groups: As of :meth:`ExactPosterior.leave_one_out`.
        """
        rest = self.y - self.features @ self.weight
        left = 1 - self._spread(self.features) / self.noise
        mean, variance = self.y - rest / left, self.noise / left
        for rows in blocks_of(groups):
            noise = self.noise[rows]
            half = solve_triangular(self.lower, self.features[rows].T, lower=True, check_finite=False)
            block = np.linalg.inv(np.diag(noise) - half.T @ half)
            mean[rows] = self.y[rows] - noise * (block @ rest[rows])
            variance[rows] = noise**2 * np.diagonal(block)
        return mean, variance


def blocks_of(groups: np.ndarray | None) -> list[np.ndarray]:
    """The rows of every group of several."""
    if groups is None:
        return []
    order = np.argsort(groups, kind="stable")
    others = 1 + np.flatnonzero(np.diff(groups[order]))
    return [rows for rows in np.split(order, others) if len(rows) > 1]
