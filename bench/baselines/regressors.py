"""Regressors that Gaussian processes on exact kernels are compared with, from scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, GenericKernelMixin, Kernel, WhiteKernel
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVR

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import MoleculeKernel

from .molecules import fingerprints

# The grid of the support vector machines of MoleculeACE (van Tilborg et al. 2022).
GAMMAS, CS, EPSILON, FOLDS = 10.0 ** np.arange(-6, 0), 10.0 ** np.arange(5), 0.1, 5


def support_vectors(train: PackedGraphs, test: PackedGraphs) -> tuple[np.ndarray]:
    """Predictions ``[n]`` of a support vector machine with an RBF kernel on bits of Morgan fingerprints.

    γ and C are those with the least squared error in cross-validation. Distances are computed once for all.
    """
    x, new = (fingerprints(part) > 0 for part in (train, test))
    y = train.y[:, 0].double().numpy()
    squares = euclidean_distances(x, squared=True)
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    searches = {}
    for gamma in GAMMAS:
        machine = SVR(kernel="precomputed", epsilon=EPSILON)
        search = GridSearchCV(machine, {"C": [*CS]}, scoring="neg_mean_squared_error", cv=folds)
        searches[gamma] = search.fit(np.exp(-gamma * squares), y)
    gamma = max(searches, key=lambda gamma: searches[gamma].best_score_)
    across = np.exp(-gamma * euclidean_distances(new, x, squared=True))
    return (searches[gamma].predict(across),)


def sklearn_process(train: PackedGraphs, test: PackedGraphs) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of scikit-learn's own Gaussian process on the mean of six kernels, ``[n]`` each.

    The Gram matrix is computed once: otherwise each step of the search for hyper-parameters would.
    """
    kernel = MoleculeKernel()
    inside, across = kernel.gram(train), kernel.gram(test, train)
    gram = np.block([[inside, across.T], [across, kernel.gram(test)]])
    noise = WhiteKernel(0.1, (1e-4, 10.0))
    process = GaussianProcessRegressor(ConstantKernel() * GramKernel(gram) + noise, normalize_y=True)
    rows = np.arange(len(gram))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hyper-parameter is close to its bound
        process.fit(rows[: len(train)], train.y[:, 0].double().numpy())
    mean, std = process.predict(rows[len(train) :], return_std=True)
    return mean, std


class GramKernel(GenericKernelMixin, Kernel):
    """A Gram matrix ``[n, n]`` as a kernel of scikit-learn, on numbers of its rows."""

    def __init__(self, gram: np.ndarray) -> None:
        self.gram = gram

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, eval_gradient: bool = False) -> Any:
        values = self.gram[np.ix_(X, X if Y is None else Y)]
        return (values, np.zeros((*values.shape, 0))) if eval_gradient else values

    def diag(self, X: np.ndarray) -> np.ndarray:
        return self.gram[X, X]

    def is_stationary(self) -> bool:
        return False
