"""Ridge and logistic regression on sparse features, and what every penalty predicts of rows left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.special import expit, log_expit, logit
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from .posterior import blocks_of

#: Penalties of the squared weights, in units of the mean of K(G, G) over the training rows.
PENALTIES = tuple(10.0 ** (k / 2) for k in range(2, -7, -1))
FOLDS = 3

# Up to so many rows of classes, Newton's steps are solved for a number of each row, with their Gram matrix.
_FEW = 400
# It ends where no log-odds change by more, or after so many steps. None is halved below this share of it.
_TOLERANCE, _STEPS, _LEAST = 1e-6, 100, 1e-6
# The least probability of a row's class in a step: that of light rows may be 0 in floating point.
_LEAST_RIGHT = 1e-100

# Of features, targets, sample weights and penalties: for each of the last, weights of columns and intercept.
Fit = Callable[
    [sparse.csr_array, np.ndarray, np.ndarray, Iterable[float]], Iterator[tuple[np.ndarray, float]]
]


def ridge(
    features: sparse.csr_array,
    y: np.ndarray,
    weight: np.ndarray,
    penalties: Iterable[float],
    tol: float = 1e-8,
) -> Iterator[tuple[np.ndarray, float]]:
    """Weights ``[columns]`` of the distances from the mean, for every penalty; and the mean."""
    mean = float(np.average(y, weights=weight))
    for penalty in penalties:
        model = Ridge(penalty, fit_intercept=False, solver="sparse_cg", tol=tol)
        yield model.fit(features, y - mean, sample_weight=weight).coef_, mean


def left_out(
    features: sparse.csr_array,
    y: np.ndarray,
    weight: np.ndarray,
    penalties: np.ndarray,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    r"""What :func:`ridge` of all other rows predicts of each, for every penalty, ``[penalties, n]``.

    In closed form, with :math:`K = \Phi \Phi^\top` and the mean of all rows:
    :math:`y_i - \alpha_i / (K + \lambda W^{-1})^{-1}_{ii}`, :math:`\alpha = (K + \lambda W^{-1})^{-1} y`.
    Rows of one of the ``groups`` ``[n]`` are left out together: blocks are in the place of the diagonal.
    """
    mean, root = np.average(y, weights=weight), np.sqrt(weight)
    values, vectors = eigh((features @ features.T).toarray() * np.outer(root, root), check_finite=False)
    projected, squares = vectors.T @ (root * (y - mean)), vectors**2
    inverse = 1 / (np.maximum(values, 0) + penalties[:, None])
    alpha = (inverse * projected) @ vectors.T
    found = np.asarray(y - alpha / (inverse @ squares.T) / root)
    for rows in blocks_of(groups):
        blocks = (vectors[rows] * inverse[:, None]) @ vectors[rows].T
        found[:, rows] = y[rows] - np.linalg.solve(blocks, alpha[:, rows, None])[..., 0] / root[rows]
    return found


def logistic(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalties: Iterable[float]
) -> Iterator[tuple[np.ndarray, float]]:
    """Weights ``[columns]`` and intercept of the log-odds of class 1, for every penalty; of one class alone,
    its frequency.

    The intercept has no penalty: the mean probability is the frequency of class 1 under every penalty. Each
    fit starts from the one before it, so penalties that fall take the fewest steps.
    """
    if np.ptp(y) == 0:
        constant = np.zeros(features.shape[1]), _frequency(y, weight)
        return (constant for _ in penalties)
    return (_by_rows if len(y) <= _FEW else _by_columns)(features, y, weight, penalties)


def _by_columns(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalties: Iterable[float]
) -> Iterator[tuple[np.ndarray, float]]:
    model = LogisticRegression(solver="newton-cg", tol=1e-5, max_iter=1000, warm_start=True)
    for penalty in penalties:
        model.set_params(C=1 / penalty).fit(features, y > 0.5, sample_weight=weight)
        yield model.coef_[0].copy(), float(model.intercept_[0])


def _by_rows(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalties: Iterable[float]
) -> Iterator[tuple[np.ndarray, float]]:
    r"""Newton's method for α and b, with weights :math:`\Phi^\top \alpha` of the columns.

    :math:`K = \Phi \Phi^\top`; at the log-odds f the log-likelihood has the slope g and the curvature W. A
    step leads to the solution of

    .. math::
        (K + \lambda W^{-1}) \, \alpha + b \, \mathbf{1} = f + W^{-1} g, \qquad \mathbf{1}^\top \alpha = 0

    by a factor of :math:`W^{1/2} K W^{1/2} + \lambda I` (as Rasmussen and Williams 2006, section 3.4; b is
    not penalised). A step that goes too far is halved.
    """
    gram, sign = (features @ features.T).toarray(), np.where(y > 0.5, 1.0, -1.0)
    alpha, intercept = np.zeros(len(y)), _frequency(y, weight)

    def loss(alpha: np.ndarray, log_odds: np.ndarray, penalty: float) -> float:
        return float(0.5 * penalty * alpha @ gram @ alpha - weight @ log_expit(sign * log_odds))

    for penalty in penalties:
        for _ in range(_STEPS):
            log_odds = gram @ alpha + intercept
            right, wrong = np.maximum(expit(sign * log_odds), _LEAST_RIGHT), expit(-sign * log_odds)
            root = np.sqrt(weight * right * wrong)
            target = root * log_odds + sign * np.sqrt(weight * wrong / right)
            factor = cho_factor(np.outer(root, root) * gram + penalty * np.eye(len(y)), check_finite=False)
            of_target, of_ones = root * cho_solve(factor, np.stack([target, root], 1), check_finite=False).T
            further = of_target.sum() / of_ones.sum() - intercept
            turn = of_target - (intercept + further) * of_ones - alpha
            step, share = gram @ turn + further, 1.0
            now = loss(alpha, log_odds, penalty)
            while loss(alpha + share * turn, log_odds + share * step, penalty) > now and share > _LEAST:
                share /= 2
            alpha, intercept = alpha + share * turn, intercept + share * further
            if np.abs(step).max() < _TOLERANCE:
                break
        yield features.T @ alpha, float(intercept)


def _frequency(y: np.ndarray, weight: np.ndarray) -> float:
    """The log-odds of the share of class 1, as if half a row of each class had been missed if one was."""
    least = 0.5 / (len(y) + 1)
    return float(logit(np.clip(np.average(y, weights=weight), least, 1 - least)))


def cross_validated(
    features: sparse.csr_array,
    y: np.ndarray,
    weight: np.ndarray,
    penalties: np.ndarray,
    seed: int,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Log-odds by :func:`logistic` of the other two folds, for every penalty, ``[penalties, n]``.

    Rows of one of the ``groups`` ``[n]`` are in one fold. A class with a single row, or group, cannot be left
    out: the log-odds are then those of the frequency of class 1.
    """
    number = np.arange(len(y)) if groups is None else groups
    folds = min(FOLDS, *(len(np.unique(number[some])) for some in (y > 0.5, y <= 0.5)))
    if folds < 2:
        return np.full((len(penalties), len(y)), _frequency(y, weight))
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splits = kind(folds, shuffle=True, random_state=seed).split(y, y > 0.5, groups)
    return _predicted(logistic, features, y, weight, penalties, splits)


def held_out(
    features: sparse.csr_array,
    y: np.ndarray,
    weight: np.ndarray,
    penalties: np.ndarray,
    seed: int,
    strata: np.ndarray | None,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """What the others predict of a fifth of the rows, drawn, for every penalty: ``[penalties, n]``, else NaN.

    For classes, pass ``strata`` ``[n]``: that fifth has its share of each, and log-odds are predicted. Of
    ``groups`` ``[n]`` a fifth is drawn, by their first rows.
    """
    every = np.arange(len(y))
    first = every if groups is None else np.unique(groups, return_index=True)[1]
    order = np.random.RandomState(seed).permutation(first)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    test = order[2:-1:5]  # not the single row of the first or the last class
    if groups is not None:
        test = np.flatnonzero(np.isin(groups, groups[test]))
    fit = partial(ridge, tol=1e-4) if strata is None else logistic
    return _predicted(fit, features, y, weight, penalties, [(np.setdiff1d(every, test), test)])


def _predicted(
    fit: Fit,
    features: sparse.csr_array,
    y: np.ndarray,
    weight: np.ndarray,
    penalties: np.ndarray,
    splits: Iterable[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    found = np.full((len(penalties), len(y)), np.nan)
    for train, test in splits:
        x, new = features[train], features[test]
        fits = fit(x, y[train], weight[train], penalties)
        for row, (coefficients, intercept) in zip(found, fits, strict=True):
            row[test] = new @ coefficients + intercept
    return found


def log_losses(log_odds: np.ndarray, y: np.ndarray) -> np.ndarray:
    """−log of the probability of the class that each row has."""
    return np.logaddexp(0, np.where(y > 0.5, -log_odds, log_odds))


def squares(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared errors."""
    return np.asarray((values - y) ** 2)
