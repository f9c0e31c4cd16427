"""Two classes by Gaussian process regression: its means become probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .gaussian_process import GaussianProcess


class GaussianProcessClassifier(ClassifierMixin, BaseEstimator):
    r"""Tells two classes apart by Gaussian process regression on −1 and 1, for one target or several.

    .. math::
        p(y = 1 \mid x) = \frac{1}{1 + \exp(-(a \, \mu(x) + b))}

    with the posterior mean μ of :class:`GaussianProcess`. Slope a ≥ 0 and intercept b of each target are
    Platt's scaling (Platt 2000, with his regularised targets) of the leave-one-out means of training rows.

    >>> from wlkernelnn.kernels import MoleculeKernel
    >>> from wlkernelnn.machines import GaussianProcessClassifier
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> machine = GaussianProcessClassifier(MoleculeKernel()).fit(smiles, 10 * ["alcohol", "amine"])
    >>> machine.predict(["CCO", "CCN"])
    array(['alcohol', 'amine'], dtype='<U7')

    Args:
        kernel, num_landmarks, max_fit_rows, n_jobs, random_state: See :class:`GaussianProcess`.

    Attributes:
        classes_: The two classes, sorted; of targets ``[n, T]`` a list of 0 and 1 for each.
        machine_: The :class:`GaussianProcess` on −1 (the first class) and 1 (the second).
        slope_, intercept_: a and b of each target, ``[T]``.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        num_landmarks: int | None = None,
        max_fit_rows: int | None = 800,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.num_landmarks = num_landmarks
        self.max_fit_rows = max_fit_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the process, and the scaling of its leave-one-out means.

        Args:
            X: Structures ``[n]``.
            y: Two classes of any names ``[n]``, or 0 and 1 ``[n, T]``; NaN or ``None`` where one is missing.
            sample_weight: Positive numbers ``[n]``.

        Raises:
            ValueError: A target has one class alone, there are more than two, or others than 0 and 1 of
                ``[n, T]``; or as :meth:`GaussianProcess.fit`.
        """
        sign, self.classes_ = signs(y, len(X))
        self.machine_ = GaussianProcess(**self.get_params(deep=False)).fit(X, sign, sample_weight)
        means, _ = self.machine_.leave_one_out()
        weight = np.ones(len(sign)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        scalings = []
        for mean, column in zip(np.atleast_2d(means.T), np.atleast_2d(sign.T), strict=True):
            known = ~np.isnan(column)
            scalings.append(platt_scaling(mean[known], column[known] > 0, weight[known]))
        self.slope_, self.intercept_ = np.transpose(scalings)
        return self

    def _probability(self, means: Any) -> np.ndarray:
        """Of the second class, from means ``[n]`` or ``[n, T]``."""
        return np.asarray(expit(means * self.slope_ + self.intercept_))

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Probabilities of both classes, float64 ``[n, 2]``; of targets ``[n, T]`` a list of such arrays.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: The kernel cannot compare the structures.
        """
        check_is_fitted(self)
        positive = self._probability(self.machine_.predict(X))
        both = np.stack([1 - positive, positive], axis=-1)
        return both if both.ndim == 2 else [*both.swapaxes(0, 1)]

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class, ``[n]``, or 0 or 1 of every target, ``[n, T]``.

        Raises:
            NotFittedError, ValueError: As :meth:`predict_proba`.
        """
        check_is_fitted(self)
        more = (self._probability(self.machine_.predict(X)) > 0.5).astype(int)
        return more if more.ndim == 2 else self.classes_[more]

    def leave_one_out(self) -> np.ndarray:
        """Probability of the second class of every training target, as all other rows predict it.

        Returns:
            Float64 ``[n]`` or ``[n, T]``, NaN where a target is missing. The scaling is that of all rows.

        Raises:
            NotFittedError: ``fit`` has not been called.
        """
        check_is_fitted(self)
        return self._probability(self.machine_.leave_one_out()[0])


def signs(y: ArrayLike, length: int) -> tuple[np.ndarray, np.ndarray | list[np.ndarray]]:
    """−1 and 1 for the classes of each target, NaN where it is missing; and the classes."""
    labels = np.asarray(y) if hasattr(y, "__array__") else np.asarray(y, dtype=object)
    if labels.ndim not in (1, 2) or len(labels) != length:
        raise ValueError(f"y must be [{length}] or [{length}, T], as long as X, got {[*labels.shape]}")
    several, known = labels.ndim == 2, pd.notna(labels)
    found = np.array(np.unique(labels[known]).tolist())
    if several and not np.isin(found, (0, 1)).all():
        raise ValueError(f"y [n, T] must hold 0, 1, and NaN where one is missing, got {found[:5].tolist()}")
    if len(found) > 2:
        raise ValueError(f"y: expected two classes, got {len(found)} ({found[:5].tolist()})")
    second = 1 if several else found[-1:]
    sign = np.full(labels.shape, np.nan)
    sign[known] = np.where(labels[known] == second, 1.0, -1.0)
    for number, (column, there) in enumerate(zip(np.atleast_2d(sign.T), np.atleast_2d(known.T), strict=True)):
        if len(np.unique(column[there])) == 1:
            only = np.atleast_2d(labels.T)[number, there][0]
            raise ValueError(
                f"y: target {number} has one class alone, {only}; a classifier needs rows of both"
            )
    return sign, [np.array([0, 1])] * labels.shape[1] if several else found


def platt_scaling(means: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the log-odds, by maximum likelihood under Platt's targets.

    A negative slope, which few rows can have by chance, is 0 instead.

    Args:
        means: ``[n]``.
        positive: Booleans ``[n]``.
        weight: Sample weights ``[n]``.
    """
    sums = weight @ positive, weight @ ~positive
    # Equation (7) of Platt 2000: (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2).
    target = np.where(positive, (sums[0] + 1) / (sums[0] + 2), 1 / (sums[1] + 2))
    # A fractional target is a row of each class.
    rows, label = np.tile(means, 2)[:, None], np.repeat([1, 0], len(means))
    both = np.concatenate([weight * target, weight * (1 - target)])
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(rows, label, sample_weight=both)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    return (slope, intercept) if slope > 0 else (0.0, float(logit(weight @ target / weight.sum())))
