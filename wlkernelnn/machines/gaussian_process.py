"""Gaussian process regression on exact kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import Kernel, Sum
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from wlkernelnn.kernels.base import copied, structures_in
from wlkernelnn.kernels.transformer import fit_kernel
from wlkernelnn.utils.checks import check_count, checked_weights, unmasked, weights_of

from .evidence import Evidence, RegressionEvidence
from .known import Block, Known, add_block, flat_molecules, take
from .posterior import ExactPosterior, NystromPosterior


@dataclass
class Target:
    """One target and its hyper-parameters.

    Attributes:
        rows: ``[n]``: the training rows that have it.
        mean, scale: y = mean + scale · (f + noise).
        kernels: The parts, with hyper-parameters of their own.
        amplitudes: Of the parts, ``[P]``.
        noise: Variance of the noise of a row of weight 1, beside a variance 1 of the targets.
        y: (y − mean) / scale, ``[n]``.
        weight, unit: Sample weights divided by their mean, ``[n]``, and that mean.
        posterior: What the rows say: an :class:`ExactPosterior`, or one in its stead.
    """

    rows: np.ndarray
    mean: float
    scale: float
    kernels: list[Kernel]
    amplitudes: np.ndarray
    noise: float
    y: np.ndarray
    weight: np.ndarray
    unit: float
    posterior: Any = None

    @property
    def noises(self) -> np.ndarray:
        """Variance of the noise of each row, ``[n]``."""
        return np.asarray(self.noise / (self.unit * self.weight))


class GaussianProcess(RegressorMixin, BaseEstimator):
    r"""Gaussian process regression on a kernel, or on a sum of kernels with an amplitude each.

    .. math::
        y_i = \mu + s \, \big(f(x_i) + \epsilon_i\big), \qquad
        f \sim \mathcal{GP}\big(0, \textstyle\sum_p a_p K_p\big), \qquad
        \epsilon_i \sim \mathcal{N}(0, \sigma^2 / w_i)

    with mean μ and standard deviation s of the training targets and sample weights w. The amplitudes
    :math:`a_p`, the noise :math:`\sigma^2` and the free hyper-parameters of the parts maximise the marginal
    likelihood (Rasmussen and Williams 2006, section 5.4) with weak log-normal priors, by L-BFGS with analytic
    gradients on at most ``max_fit_rows`` rows; then all rows give the posterior. The prior's medians divide
    each :math:`K_p` by its mean diagonal: in which unit a kernel is does not matter.

    >>> from wlkernelnn.kernels import MoleculeKernel
    >>> from wlkernelnn.machines import GaussianProcess
    >>> machine = GaussianProcess(MoleculeKernel()).fit(["C" * n for n in range(1, 31)], range(30))
    >>> mean, std = machine.predict(["CCCC", "CCO"], return_std=True)

    Exact, it takes n³ / 3 operations and 16 n² bytes for each target: 1.6 GB for 10,000 rows. With
    ``num_landmarks`` m it takes n m² operations and 16 n m bytes. Targets that are all the same, such as that
    of a single row, are predicted with deviation 0.

    Args:
        kernel: A kernel in scikit-learn's protocol, on any structures that it takes. The terms of a sum are
            its parts. A part with a method ``fit`` is fitted to the training structures first.
        num_landmarks: Take so many of the training rows, drawn by ``random_state``, as landmarks of a Nyström
            approximation, where there are more rows; ``None``: exact.
        max_fit_rows: Rows on which hyper-parameters are found, drawn by ``random_state``; ``None``: all.
        n_jobs: Threads that fill Grams (−1: one per core).
        random_state: Seed of the draws.

    Attributes:
        X_train_: The training structures.
        landmarks_: Rows of the landmarks ``[m]``, or ``None``.
        targets_: What was found of each target: ``mean``, ``scale``, ``amplitudes``, ``noise``, ….
        n_targets_: How many there are.
    """

    known_: list[Known]

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

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find hyper-parameters and the posterior.

        Args:
            X: Structures ``[n]``.
            y: Targets ``[n]`` or ``[n, T]``, NaN where one is missing.
            sample_weight: Numbers ``[n]``: weight 2 is that of a mean of two measurements, and 0 leaves a row
                out, as if it had not been given.

        Raises:
            TypeError: ``kernel`` is not a kernel, or y holds no real numbers.
            ValueError: Shapes do not fit, a target has no value or one that is infinite or too large or small
                to be squared, a weight is negative, rows of numbers are not finite, or the kernel cannot
                compare the structures.
        """
        for name in ("num_landmarks", "max_fit_rows"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"kernel must be a kernel of wlkernelnn.kernels or scikit-learn, or made of them, got "
                f"{self.kernel!r}"
            )
        X, y = self._validated(copied(X), reset=True), _numbers(y)
        self._single = y.ndim == 1
        y = y[:, None] if self._single else y
        if y.ndim != 2 or len(y) != len(X):
            raise ValueError(f"y must be [{len(X)}] or [{len(X)}, T], as long as X, got {list(y.shape)}")
        weight = checked_weights(sample_weight, len(y))
        if len(counted := np.flatnonzero(weight)) < len(y):
            X, y, weight = take(X, counted), y[counted], weight[counted]
        if np.isinf(y).any():
            raise ValueError("y must be finite, or NaN where a target is missing")
        if len(missing := np.flatnonzero(np.isnan(y).all(axis=0))):
            raise ValueError(f"y: target {missing[0]} has no value")
        weights, units = weights_of(weight, y)

        order = check_random_state(self.random_state).permutation(len(y))
        parts = [clone(part) for part in summands(self.kernel)]
        for part in parts:
            fit_kernel(part, X)
        self.X_train_, self.n_targets_, self.landmarks_ = X, y.shape[1], None
        self.count(X, parts)
        if self.num_landmarks is not None and self.num_landmarks < len(y):
            self.landmarks_ = np.sort(order[: self.num_landmarks])
        self.targets_ = [self._target(parts, *each) for each in zip(y.T, weights.T, units, strict=True)]
        self._find_hyper_parameters(order)
        self._find_posteriors()
        return self

    def _validated(self, X: Any, reset: bool) -> Any:
        """Structures as they are; rows of numbers, where the kernel needs them, as a finite array."""
        if not self.kernel.requires_vector_input:
            return validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
        X = validate_data(self, X, reset=reset, ensure_all_finite=False, ensure_min_samples=0)
        if len(bad := np.flatnonzero(~np.isfinite(X).all(axis=1))):
            raise ValueError(f"X: row {bad[0]} holds values that are missing or not finite")
        return X

    def count(self, X: Any, parts: Sequence[Kernel] | None = None) -> None:
        """Bring training structures or landmarks into the form in which others are compared with them."""
        parts = [known.kernel for known in self.known_] if parts is None else parts
        flat = flat_molecules(parts, X)
        self.known_ = [Known.of(part, X, flat, self.n_jobs) for part in parts]

    def _target(self, parts: list[Kernel], y: np.ndarray, weight: np.ndarray, unit: float) -> Target:
        """A target before its hyper-parameters are known."""
        rows = np.flatnonzero(~np.isnan(y))
        kernels = [deepcopy(part) if part.n_dims else part for part in parts]
        target = Target(rows, 0.0, 1.0, kernels, np.empty(0), 0.0, y[rows], weight[rows], unit)
        self._standardise(target)
        return target

    def _standardise(self, target: Target) -> None:
        y, weight = target.y, target.weight
        with np.errstate(over="ignore"):
            target.mean = float(np.average(y, weights=weight))
            square = float(np.average((y - target.mean) ** 2, weights=weight))
        if not np.isfinite(square) or (square < np.finfo(np.float64).tiny and y.min() < y.max()):
            raise ValueError(
                f"y: the squares of values from {y.min():.3g} to {y.max():.3g} are beyond float64: scale them"
            )
        target.scale = math.sqrt(square)
        if y.min() == y.max():  # whose average is rounded
            target.mean, target.scale = float(y[0]), 0.0
        target.y = (y - target.mean) / (target.scale or 1.0)

    def _evidence(
        self, target: Target, rows: np.ndarray, grams: Sequence[np.ndarray | None], X: Any
    ) -> Evidence:
        """Of some of the rows of a target."""
        return RegressionEvidence(target.kernels, grams, X, target.y[rows], target.weight[rows])

    def _exact(self, target: Target, gram: np.ndarray) -> ExactPosterior:
        return ExactPosterior(gram, target.y, target.noises)

    def _nystrom(
        self, target: Target, square: np.ndarray, cross: np.ndarray, prior: np.ndarray
    ) -> NystromPosterior:
        posterior = NystromPosterior(square, cross, prior)
        return posterior.condition(target.y, target.noises)

    def _find_hyper_parameters(self, order: np.ndarray) -> None:
        place = np.argsort(order)
        chosen = [
            np.sort(target.rows[np.argsort(place[target.rows])[: self.max_fit_rows]])
            for target in self.targets_
        ]
        together = np.unique(np.concatenate(chosen))
        X = take(self.X_train_, together)
        grams = [None if known.kernel.n_dims else known.take(together).gram() for known in self.known_]
        for target, rows in zip(self.targets_, chosen, strict=True):
            index = np.searchsorted(together, rows)
            known = np.searchsorted(target.rows, rows)
            evidence = self._evidence(
                target,
                known,
                [None if gram is None else gram[np.ix_(index, index)] for gram in grams],
                take(X, index) if any(gram is None for gram in grams) else None,
            )
            target.amplitudes, noise = evidence.maximize()
            target.noise = noise * target.unit

    def _find_posteriors(self) -> None:
        marks = self.landmarks_
        rows = [target.rows for target in self.targets_]
        if marks is None:
            sums = self._sums(Known.own, rows, rows)
            for target in self.targets_:
                target.posterior = self._exact(target, sums.pop(0))  # and the sum's memory is free
            return
        each = [np.arange(len(marks))] * len(rows)
        squares = self._sums(lambda known: known.take(marks).own(), each, each)
        crosses = self._sums(lambda known: known.with_some(known.take(marks)), rows, each)
        priors = self._priors(self.X_train_)
        for target, square, cross, prior in zip(self.targets_, squares, crosses, priors, strict=True):
            target.posterior = self._nystrom(target, square, cross, prior[target.rows])
        self.known_ = [known.take(marks) for known in self.known_]

    def _sums(
        self,
        compare: Callable[[Known], Iterator[Block]],
        rows: Sequence[np.ndarray],
        columns: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """Σ a_p K_p of every target, some rows and columns of it; blocks of parts are shared."""
        sums = [np.zeros((len(row), len(column))) for row, column in zip(rows, columns, strict=True)]
        every = range(len(sums))
        for p, known in enumerate(self.known_):
            for group in [[t] for t in every] if known.kernel.n_dims else [[*every]]:
                own = replace(known, kernel=self.targets_[group[0]].kernels[p])
                for block in compare(own):
                    for t in group:
                        add_block(sums[t], self.targets_[t].amplitudes[p], block, rows[t], columns[t])
        return sums

    def _priors(self, X: Any) -> list[np.ndarray]:
        """Σ a_p k_p(x, x) of every target."""

        def prior(target: Target) -> np.ndarray:
            parts = zip(target.amplitudes, self.known_, target.kernels, strict=True)
            return np.sum([a * replace(known, kernel=kernel).diag(X) for a, known, kernel in parts], axis=0)

        return [prior(target) for target in self.targets_]

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The posterior mean, float64 ``[n]`` or ``[n, T]``.

        Args:
            X: Structures ``[n]``.
            return_std: Also give the standard deviation of a new measurement (of weight 1: the noise is in
                it), in the same shape. A structure that shares nothing with the training rows has their mean,
                and the deviation of the prior.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: The kernel cannot compare the structures.
        """
        check_is_fitted(self)
        X = self._validated(structures_in(X), reset=False)
        marks, every = self.landmarks_, np.arange(len(X))
        columns = [target.rows if marks is None else np.arange(len(marks)) for target in self.targets_]
        flat = flat_molecules([known.kernel for known in self.known_], X)
        crosses = self._sums(lambda known: known.others(X, flat), [every] * self.n_targets_, columns)
        both = list(zip(self.targets_, crosses, strict=True))
        mean = self._shaped([t.mean + t.scale * t.posterior.mean(cross) for t, cross in both])
        if not return_std:
            return mean
        variances = [
            target.posterior.variance(cross, prior) + target.noise
            for (target, cross), prior in zip(both, self._priors(X), strict=True)
        ]
        return mean, self._shaped(
            [
                target.scale * np.sqrt(variance)
                for target, variance in zip(self.targets_, variances, strict=True)
            ]
        )

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R², the mean over the targets, each of the rows that have it.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: y has another shape than predictions, a target has no value, a weight is negative, or
                the kernel cannot compare the structures.
        """
        y, predicted = _numbers(y), np.asarray(self.predict(X))
        if y.shape != predicted.shape:
            raise ValueError(f"y must be {[*predicted.shape]}, as predictions, got {[*y.shape]}")
        weight, scores = checked_weights(sample_weight, len(y)), []
        for true, found in zip(*(np.atleast_2d(a.T) for a in (y, predicted)), strict=True):
            known = ~np.isnan(true) & (weight > 0)
            scores.append(r2_score(true[known], found[known], sample_weight=weight[known]))
        return float(np.mean(scores))

    def leave_one_out(self, groups: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of every training target, as all other rows predict it, in closed form.

        Hyper-parameters, the mean of y and landmarks are those of all rows.

        Args:
            groups: Numbers or names ``[n]``: rows of one group, such as replicates, are left out
                together. ``None``: each row is left out alone.

        Returns:
            Float64 ``[n]`` or ``[n, T]`` each, NaN where a target is missing; n does not count rows of
            weight 0.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: There are not as many groups as rows, or one is missing.
        """
        check_is_fitted(self)
        number = None if groups is None else _group_numbers(groups, len(self.X_train_))
        means, stds = np.full((2, self.n_targets_, len(self.X_train_)), np.nan)
        for target, mean, std in zip(self.targets_, means, stds, strict=True):
            own = None if number is None else number[target.rows]
            value, variance = target.posterior.leave_one_out(own)
            mean[target.rows] = target.mean + target.scale * value
            std[target.rows] = target.scale * np.sqrt(variance)
        return self._shaped(means), self._shaped(stds)

    def _shaped(self, columns: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        return columns[0] if self._single else np.stack([*columns], axis=1)


def _numbers(y: ArrayLike) -> np.ndarray:
    """Targets as floats, NaN where a table or masked array has its own sign of a missing value."""
    y = unmasked(y)
    if np.iscomplexobj(y) or np.asarray(y).dtype.kind in "mM":
        raise TypeError(f"y must hold real numbers, got {np.asarray(y).dtype}")
    if isinstance(y, pd.DataFrame | pd.Series):
        return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        return np.asarray(y, dtype=np.float64)
    except TypeError:  # pandas' sign outside of its tables
        values = np.asarray(y, dtype=object)
        return np.where(pd.isna(values), np.nan, values).astype(np.float64)


def _group_numbers(groups: ArrayLike, length: int) -> np.ndarray:
    """The number of each row's group."""
    groups = unmasked(groups)
    # numpy would make strings of all items of a list that holds some.
    names = np.asarray(groups) if hasattr(groups, "__array__") else np.asarray(groups, dtype=object)
    if names.shape != (length,):
        raise ValueError(f"groups must be [{length}], one per row, got {[*names.shape]}")
    number = pd.factorize(names)[0]
    if len(missing := np.flatnonzero(number < 0)):
        raise ValueError(f"groups: row {missing[0]} has none")
    return number


def summands(kernel: Kernel) -> list[Kernel]:
    """The terms of a sum of kernels."""
    return summands(kernel.k1) + summands(kernel.k2) if isinstance(kernel, Sum) else [kernel]
