"""Ridge and logistic regression on sparse features, and what every penalty predicts of rows left out."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold

#: Penalties of the squared weights, in units of the mean of K(G, G) over the training rows.
PENALTIES = 10.0 ** (np.arange(2, -7, -1) / 2)
FOLDS = 3


def ridge(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalty: float
) -> tuple[np.ndarray, float]:
    """Weights ``[columns]`` of the distances from the mean; and the mean."""
    mean = float(np.average(y, weights=weight))
    model = Ridge(penalty, fit_intercept=False, solver="sparse_cg", tol=1e-8)
    return model.fit(features, y - mean, sample_weight=weight).coef_, mean


def left_out(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalties: np.ndarray
) -> np.ndarray:
    r"""What :func:`ridge` of all other rows predicts of each, for every penalty, ``[penalties, n]``.

    In closed form, with :math:`K = \Phi \Phi^\top` and the mean of all rows:
    :math:`y_i - \alpha_i / (K + \lambda W^{-1})^{-1}_{ii}`, :math:`\alpha = (K + \lambda W^{-1})^{-1} y`.
    """
    mean, root = np.average(y, weights=weight), np.sqrt(weight)
    values, vectors = eigh((features @ features.T).toarray() * np.outer(root, root), check_finite=False)
    projected, squares = vectors.T @ (root * (y - mean)), vectors**2
    inverse = 1 / (np.maximum(values, 0) + penalties[:, None])
    return np.asarray(y - (inverse * projected) @ vectors.T / (inverse @ squares.T) / root)


def logistic(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalty: float
) -> tuple[np.ndarray, float]:
    """Weights ``[columns]`` and intercept of the log-odds of class 1."""
    model = LogisticRegression(C=1 / penalty, solver="liblinear", max_iter=1000)
    model.fit(features, y > 0.5, sample_weight=weight)
    return model.coef_[0], float(model.intercept_[0])


def cross_validated(
    features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalties: np.ndarray, seed: int
) -> np.ndarray:
    """Log-odds by :func:`logistic` of the other folds, for every penalty, ``[penalties, n]``.

    A class with a single row cannot be left out: the log-odds are then those of the frequency of class 1.
    """
    folds = min(FOLDS, int(min((y > 0.5).sum(), (y <= 0.5).sum())))
    if folds < 2:
        share = np.average(y, weights=weight)
        return np.full((len(penalties), len(y)), np.log(share / (1 - share)))
    log_odds = np.empty((len(penalties), len(y)))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y > 0.5):
        for row, penalty in zip(log_odds, penalties, strict=True):
            coefficients, intercept = logistic(features[train], y[train], weight[train], penalty)
            row[test] = features[test] @ coefficients + intercept
    return log_odds


def log_losses(log_odds: np.ndarray, y: np.ndarray) -> np.ndarray:
    """−log of the probability of the class that each row has."""
    return np.logaddexp(0, np.where(y > 0.5, -log_odds, log_odds))
