"""Classes by Gaussian processes of their log-odds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.kernels.base import structures_in
from wlkernelnn.utils.checks import checked_weights, unmasked, weights_of

from .evidence import LaplaceEvidence
from .gaussian_process import GaussianProcess, Target
from .known import take
from .laplace import Labels, laplace
from .posterior import ExactPosterior, NystromPosterior

logger = logging.getLogger("wlkernelnn")


class LatentProcess(GaussianProcess):
    r"""A Gaussian process of the log-odds of class 1, by Laplace's approximation.

    .. math::
        p(y_i = 1) = \frac{1}{1 + \exp(-\mu - f(x_i))}, \qquad
        f \sim \mathcal{GP}\big(0, \textstyle\sum_p a_p K_p\big)

    with the log-odds μ of the class in the training rows. Amplitudes and free hyper-parameters maximise the
    approximate marginal likelihood. What it predicts, and leaves out, are means and deviations of log-odds.

    The arguments are those of :class:`GaussianProcess`; targets are 0 and 1.
    """

    def _standardise(self, target: Target) -> None:
        ones = target.weight @ target.y
        # Half a row of each class more, so that one class alone has log-odds.
        target.mean = float(logit((ones + 0.5) / (target.weight.sum() + 1)))

    def _evidence(
        self, target: Target, rows: np.ndarray, grams: Sequence[np.ndarray | None], X: Any
    ) -> LaplaceEvidence:
        labels = Labels(target.y[rows], target.weight[rows], target.mean)
        return LaplaceEvidence(target.kernels, grams, X, labels)

    def _exact(self, target: Target, gram: np.ndarray) -> ExactPosterior:
        labels = Labels(target.y, target.weight, target.mean)
        return laplace(lambda y, noise: ExactPosterior(gram.copy(), y, noise), labels)[0]

    def _nystrom(
        self, target: Target, square: np.ndarray, cross: np.ndarray, prior: np.ndarray
    ) -> NystromPosterior:
        labels = Labels(target.y, target.weight, target.mean)
        posterior = NystromPosterior(square, cross, prior)
        return laplace(posterior.condition, labels)[0]


class GaussianProcessClassifier(ClassifierMixin, BaseEstimator):
    r"""Tells classes apart by Gaussian processes of their log-odds, for one target or several.

    .. math::
        p(y = 1 \mid x) = \frac{1}{1 + \exp(-(a \, \mu(x) + b))}

    with the posterior mean μ of the log-odds, by Laplace's approximation (Rasmussen and Williams 2006,
    section 3.4), its amplitudes by the approximate marginal likelihood. Slope a ≥ 0 and intercept b of each
    target are Platt's scaling (Platt 2000, with his regularised targets) of the leave-one-out means of
    training rows; a is about 1 where there are many of both classes.

    More than two classes have a process each, of one class against all others, and probabilities are these
    p divided by their sum. The processes share the kernel's blocks.

    >>> from wlkernelnn.kernels import MoleculeKernel
    >>> from wlkernelnn.machines import GaussianProcessClassifier
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> machine = GaussianProcessClassifier(MoleculeKernel()).fit(smiles, 10 * ["alcohol", "amine"])
    >>> machine.predict(["CCO", "CCN"])
    array(['alcohol', 'amine'], dtype='<U7')

    Args:
        kernel, num_landmarks, max_fit_rows, n_jobs, random_state: See :class:`GaussianProcess`.

    Attributes:
        classes_: The classes, sorted; of targets ``[n, T]`` a list of 0 and 1 for each.
        machine_: The process of the log-odds of the second class; of C > 2 classes, those of each class.
        slope_, intercept_: a and b of each target ``[T]``, or class ``[C]``.
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
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the process, and the scaling of its leave-one-out means.

        Args:
            X: Structures ``[n]``.
            y: Classes of any names ``[n]``, or 0 and 1 ``[n, T]``; NaN or ``None`` where one is missing.
                A target of ``[n, T]`` with one class alone has its frequency everywhere, and a warning.
            sample_weight: Numbers ``[n]``; how large they are beside each other counts, and 0 leaves a row
                out, as if it had not been given.

        Raises:
            ValueError: Less than two classes, or others than 0 and 1 of ``[n, T]``; or as
                :meth:`GaussianProcess.fit`.
        """
        X, y = structures_in(X), _labels(y)
        weight = checked_weights(sample_weight, len(X))
        if len(counted := np.flatnonzero(weight)) < len(X) == len(y):
            X, y, weight = take(X, counted), y[counted], weight[counted]
        label, self.classes_ = labels_of(y, len(X))
        self.machine_ = LatentProcess(**self.get_params(deep=False)).fit(X, label, weight)
        columns = label.reshape(len(label), -1)
        for number, column in enumerate(columns.T):
            if len(only := np.unique(column[~np.isnan(column)])) == 1:
                only_one = f"all rows have class {only[0]:g}: its frequency is predicted"
                logger.warning(f"target {number}: {only_one}")
        means = self.machine_.leave_one_out()[0].reshape(columns.shape)
        self.slope_, self.intercept_ = platt_scalings(means, columns, weight)
        return self

    @property
    def _several(self) -> bool:
        """Whether the processes are of more than two classes of one target."""
        return not isinstance(self.classes_, list) and len(self.classes_) > 2

    def _probability(self, means: Any) -> np.ndarray:
        """Of the second class, from means ``[n]`` or ``[n, T]``; of several classes of each, ``[n, C]``."""
        return probabilities(means * self.slope_ + self.intercept_, self._several)

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Probabilities of all classes, float64 ``[n, C]``; of targets ``[n, T]`` a list of ``[n, 2]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: The kernel cannot compare the structures.
        """
        check_is_fitted(self)
        positive = self._probability(self.machine_.predict(X))
        if self._several:
            return positive
        both = np.stack([1 - positive, positive], axis=-1)
        return both if both.ndim == 2 else [*both.swapaxes(0, 1)]

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class, ``[n]``, or 0 or 1 of every target, ``[n, T]``.

        Raises:
            NotFittedError, ValueError: As :meth:`predict_proba`.
        """
        check_is_fitted(self)
        probability = self._probability(self.machine_.predict(X))
        if self._several:
            return np.asarray(self.classes_[probability.argmax(axis=1)])
        more = (probability > 0.5).astype(int)
        return more if more.ndim == 2 else self.classes_[more]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The fraction of rows all whose known classes are predicted right; rows without any don't count.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: y has another shape than predictions or classes of another kind, a weight is negative,
                or the kernel cannot compare the structures.
        """
        true, predicted = _labels(y), self.predict(X)
        if true.shape != predicted.shape:
            raise ValueError(f"y must be {[*predicted.shape]}, as predictions, got {[*true.shape]}")
        known = np.asarray(pd.notna(true))
        names = isinstance(np.ravel(self.classes_)[0], str)
        for label in true[known]:
            if isinstance(label, str) != names:
                raise ValueError(f"y: fit was given the classes {np.ravel(self.classes_)[:5]}, got {label!r}")
        right = ~known
        right[known] = predicted[known] == true[known]
        rows = np.asarray(right.reshape(len(right), -1).all(axis=1))
        counted = known.reshape(len(known), -1).any(axis=1)
        weight = np.where(counted, checked_weights(sample_weight, len(rows)), 0.0)
        return float(np.average(rows, weights=weight)) if weight.any() else float("nan")

    def leave_one_out(self) -> np.ndarray:
        """Probability of the second class of every training target, as all other rows predict it.

        Returns:
            Float64 ``[n]`` or ``[n, T]``, of more than two classes that of each, ``[n, C]``; NaN where a
            target is missing; n does not count rows of weight 0. The scaling is that of all rows.

        Raises:
            NotFittedError: ``fit`` has not been called.
        """
        check_is_fitted(self)
        return self._probability(self.machine_.leave_one_out()[0])


def _labels(y: ArrayLike) -> np.ndarray:
    """Classes of any kind as an array: a list may hold several kinds, and ``None``."""
    y = unmasked(y)
    return np.asarray(y) if hasattr(y, "__array__") else np.asarray(y, dtype=object)


def labels_of(y: ArrayLike, length: int) -> tuple[np.ndarray, np.ndarray | list[np.ndarray]]:
    """0 and 1 for the classes of each target, NaN where it is missing; and the classes.

    More than two classes of one target are targets ``[n, C]``, see :func:`of_each`.
    """
    labels = _labels(y)
    if labels.ndim not in (1, 2) or len(labels) != length:
        raise ValueError(f"y must be [{length}] or [{length}, T], as long as X, got {[*labels.shape]}")
    several, known = labels.ndim == 2, pd.notna(labels)
    try:
        found = np.array(np.unique(labels[known]).tolist())
    except TypeError as error:
        raise ValueError(f"y: expected classes of one kind, such as numbers or strings: {error}") from error
    if several and not np.isin(found, (0, 1)).all():
        raise ValueError(f"y [n, T] must hold 0, 1, and NaN where one is missing, got {found[:5].tolist()}")
    if not several:
        check_classification_targets(found)
    if not several and len(found) < 2:
        raise ValueError(f"y: expected two classes or more, got {len(found)} ({found.tolist()})")
    label = np.full(labels.shape, np.nan)
    if several:
        label[known] = labels[known].astype(np.float64)
        return label, [np.array([0, 1])] * labels.shape[1]
    label[known] = np.searchsorted(found, labels[known].tolist())
    return (label if len(found) == 2 else of_each(label[:, None], len(found))), found


def of_each(y: np.ndarray, number: int) -> np.ndarray:
    """Classes from 0 on, ``[n, 1]``, as a target 0 or 1 for each, float64 ``[n, number]``; NaN = missing."""
    return np.where(np.isnan(y), np.nan, y == np.arange(number)).astype(np.float64)


def probabilities(log_odds: np.ndarray, several: bool) -> np.ndarray:
    """From log-odds of targets ``[n]`` or ``[n, T]``; or of ``several`` classes, each against all others,
    ``[n, C]``: their probabilities are divided by their sum, so that it is 1.
    """
    p = np.asarray(expit(log_odds))
    return p / p.sum(axis=1, keepdims=True) if several else p


def platt_scalings(means: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Slopes and intercepts ``[2, T]`` of targets ``[n, T]``, NaN where one is missing."""
    weights, _ = weights_of(np.ones(len(y)) if weight is None else weight, y)
    known = [~np.isnan(column) for column in y.T]
    return np.transpose(
        [
            platt_scaling(mean[there], column[there] > 0, own[there])
            for mean, column, own, there in zip(means.T, y.T, weights.T, known, strict=True)
        ]
    )


def platt_scaling(means: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the log-odds, by maximum likelihood under Platt's targets.

    A negative slope, which few rows can have by chance, is 0 instead; so it is of one class alone.

    Args:
        means: ``[n]``.
        positive: Booleans ``[n]``.
        weight: Sample weights ``[n]``.
    """
    sums = weight @ positive, weight @ ~positive
    # Equation (7) of Platt 2000: (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2).
    target = np.where(positive, (sums[0] + 1) / (sums[0] + 2), 1 / (sums[1] + 2))
    constant = 0.0, float(logit(weight @ target / weight.sum()))
    if not min(sums):
        return constant
    # A fractional target is a row of each class.
    rows, label = np.tile(means, 2)[:, None], np.repeat([1, 0], len(means))
    both = np.concatenate([weight * target, weight * (1 - target)])
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(rows, label, sample_weight=both)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    return (slope, intercept) if slope > 0 else constant
