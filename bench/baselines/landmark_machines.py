"""Linear machines on min-max kernels with landmarks, for sets too large for a kernel with every row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.kernels import MoleculeKernel
from wlkernelnn.kernels.graphs.codings import FEATURES
from wlkernelnn.training import score

from .molecules import fit_tasks

# Penalties of the squared weights of each machine: ridge regression on 0 and 1, logistic regression, and this
# with classes that weigh the same.
PENALTIES = {"ridge": (1.0, 2.0, 3.0, 5.0), "logistic": (1.0, 0.3, 0.1), "balanced": (3.0, 1.0, 0.3)}
# What is added to the diagonal of the landmarks' kernel, so that rounding does not make it negative.
_JITTER = 1e-6

Record = dict[str, Any]


def draw_landmarks(y: np.ndarray, number: int, seed: int = 0) -> np.ndarray:
    """Positions of landmarks among training rows, ascending: all rows of the rarer class (at most half of the
    landmarks), and others at random.

    Args:
        y: 0 or 1 of each row ``[n]``.
        number: How many landmarks, if there are so many rows.
        seed: Of the draw.
    """
    rng = np.random.default_rng(seed)
    rarer = rng.permutation(np.flatnonzero(y == (y.mean() < 0.5)))
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), rarer))
    few = rarer[: max(number // 2, number - len(rest))]
    return np.sort(np.concatenate([few, rest[: number - len(few)]]))


def landmark_features(cross: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    r"""Features :math:`z(x) = L^{-1} k(x)` with :math:`L L^\top = K_{mm}`, float32 ``[n, m]``.

    They are those of :math:`K_{mm}^{-1/2} k(x)` in another basis, so that a penalty of all squared weights is
    the same (Williams and Seeger 2001).

    Args:
        cross: The kernel of all rows with the landmarks, float32 ``[n, m]``.
        landmarks: Which rows are the landmarks ``[m]``.
    """
    gram = cross[landmarks].astype(np.float64)
    gram[np.diag_indices_from(gram)] += _JITTER
    root = cholesky(gram, lower=True, overwrite_a=True, check_finite=False).astype(np.float32)
    return np.ascontiguousarray(solve_triangular(root, cross.T, lower=True, check_finite=False).T)


def fit_landmarks(number: int, split: Split, _: Path) -> Fitted:
    """The machine with the best score on ``valid``, as a method of :func:`~.molecule_runs.run_method`.

    The kernel is the mean of the min-max kernels of Weisfeiler-Lehman colours in four codings of atoms,
    those of :class:`~wlkernelnn.kernels.MoleculeKernel`. Ring nodes or not, the machine and its penalty are
    chosen.
    """
    start = time.perf_counter()
    rows = np.concatenate([split.index[part] for part in split.parts])
    ends = np.cumsum([len(split.index[part]) for part in split.parts])[:-1]
    train, valid = split["train"], split["valid"]
    landmarks = draw_landmarks(train.y[:, 0].numpy(), number)
    tried: list[Record] = []
    best: tuple[float, dict[str, np.ndarray], int] | None = None
    for rings in (False, True):
        described = _described(split.data[rows], rings)
        # The training part stands first.
        features = landmark_features(_cross(described, described[landmarks]), landmarks)
        parts = np.split(features, ends)
        for machine, penalty in _choices():
            make = partial(_machine, machine, penalty)
            models, predictions = fit_tasks(make, train, parts[0], parts)
            found = dict(zip(split.parts, predictions, strict=True))
            valid_score = score(split.metric, valid.y.numpy(), found["valid"])
            tried.append({"ring_nodes": rings, "machine": machine, "penalty": penalty, "valid": valid_score})
            if best is None or valid_score > best[0]:
                best = valid_score, found, len(models)
    assert best is not None
    more = {"tried": tried, "chosen": max(tried, key=lambda record: record["valid"])}
    parameters = best[2] * (len(landmarks) + 1)
    return Fitted(best[1], parameters, time.perf_counter() - start, more=more)


def _choices() -> Iterator[tuple[str, float]]:
    for machine, penalties in PENALTIES.items():
        yield from product([machine], penalties)


def _described(data: PackedGraphs, rings: bool) -> PackedGraphs:
    graphs, _ = featurize(data.smiles, features=f"{FEATURES}+ring_nodes" if rings else FEATURES)
    return graphs


def _cross(data: PackedGraphs, landmarks: PackedGraphs) -> np.ndarray:
    """The kernel of molecules with landmarks, float32 ``[n, m]``."""
    kernels = MoleculeKernel().parts[:4]
    cross = np.zeros((len(data), len(landmarks)), dtype=np.float32)
    for kernel in kernels:
        cross += kernel.gram(data, landmarks)
    return cross / len(kernels)


def _machine(name: str, penalty: float) -> BaseEstimator:
    if name == "ridge":
        return Ridge(penalty, solver="cholesky")
    weight = "balanced" if name == "balanced" else None
    return LogisticRegression(C=1 / penalty, class_weight=weight, tol=1e-5, max_iter=1000)
