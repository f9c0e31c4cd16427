"""The linear machine of molecules: ridge or logistic regression on counts of Weisfeiler-Lehman colours."""

from __future__ import annotations

import logging
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.splits.identity import replicate_groups
from wlkernelnn.kernels import WLSubtreeKernel
from wlkernelnn.kernels.colour_table import ColourTable
from wlkernelnn.kernels.flat_graphs import FlatGraphs, store_graphs
from wlkernelnn.kernels.graphs.counts import count_matrix
from wlkernelnn.kernels.graphs.wl_subtree import column_counts
from wlkernelnn.ops.spans import bounds_of
from wlkernelnn.utils.checks import checked_weights, weights_of

from .classifier import probabilities
from .parts import about_training, check_same_features, drawn_rows, targets_of
from .penalties import (
    PENALTIES,
    cross_validated,
    held_out,
    left_out,
    log_losses,
    logistic,
    ridge,
    squares,
)
from .substructures import Substructures

logger = logging.getLogger("wlkernelnn")

#: Iterations that are compared.
DEPTHS = (1, 2, 3)
# With more molecules a fifth of them, drawn, is held out instead: leave-one-out needs Grams of 8 n² bytes,
# and cross-validation of classes many fits.
_MOST = {"regression": 2500, "classification": 10_000, "multiclass": 10_000}
# Molecules, drawn, by which h and penalties are chosen.
_DRAWN = 20_000
# Colours that fingerprints count, at most, and molecules that are read at once.
_FINGERPRINT, _AT_ONCE = 1024, 8192


class LinearMachine(BaseEstimator):
    r"""A linear model of how often a molecule has each Weisfeiler-Lehman colour of the training molecules.

    .. math::
        f(G) = b + \sum_{t=0}^{h} \sum_c w_c \, \#_c(r^t(G))

    in the notation of :class:`~wlkernelnn.kernels.WLSubtreeKernel`; of classes f is the log-odds, and
    :math:`\log(1 + \#_c)` stands for :math:`\#_c`. Numbers: ridge regression, b is the mean of the targets;
    the penalty of each target and h, 1 to 3, have the least leave-one-out error, in closed form (b stays that
    of all). Classes: logistic regression, b without a penalty (of more than two of each class against all
    others, and probabilities are divided by their sum); penalty and h have the least log loss in 3-fold
    cross-validation.
    With more than 2,500 molecules (of classes 10,000) they have the least error of a fifth of them, or of
    20,000 drawn ones, that is held out.

    It takes seconds, or a minute for 100,000 molecules. Colours that the training molecules lack add nothing.

    >>> from wlkernelnn.datasets import load_molecules
    >>> from wlkernelnn.machines import LinearMachine
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> machine = LinearMachine().fit(load_molecules(smiles, y=range(20), cache=False))
    >>> mean = machine.predict(load_molecules(["CCCC", "CCO"], cache=False))

    Args:
        random_state: Seed of the folds, of what is held out and of what is drawn.

    Attributes:
        table_: The colours, by what they are made of.
        weights_, intercept_: w ``[colours, T]`` and b ``[T]``; T is C of more than two classes.
        scale_: Standard deviation of the training targets, ``[T]``; 1 of classes.
        std_: Of numbers the deviation of a new measurement, ``[T]``: the error of molecules left out. With
            sample weights it is that of one whose weight is the mean of these.
        num_iterations_: h.
        penalties_: Of the squared weights of each target, ``[T]``.
        errors_: The error of each h: the mean over the targets of RMSE / deviation, or of log losses.
        frequent_: Columns of the colours that most molecules have, up to 1,024: those of fingerprints.
        about: As of :class:`MoleculeMachine`.
    """

    def __init__(self, *, random_state: int | np.random.RandomState | None = 0) -> None:
        self.random_state = random_state

    def fit(self, data: PackedGraphs, sample_weight: ArrayLike | None = None) -> Self:
        """Find colours, penalties and weights.

        Args:
            data: Molecules of any features, with targets ``[n, T]``, NaN where one is missing. What is said
                of whole molecules, such as descriptors, is not looked at.
            sample_weight: Numbers ``[n]``; how large they are beside each other counts, and 0 leaves a
                molecule out, as if it had not been given.

        Raises:
            TypeError: ``data`` is not packed.
            ValueError: Less than two molecules, a target without any value or with one class alone, or a
                weight is negative.
        """
        weight = checked_weights(sample_weight, len(data))
        if len(counted := np.flatnonzero(weight)) < len(data):
            data, weight = data[counted], weight[counted]
        self.about = about_training(data)
        if known := _edge_values(data):
            self.about["edge_values"] = known
        y, strata = targets_of(data, self.about), data.measured.numpy()
        weights, _ = weights_of(weight, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows, groups = drawn_rows(y, _DRAWN, seed), replicate_groups(data)
        some = None if groups is None else groups[rows]
        graphs = store_graphs(data)
        table, columns = ColourTable.of(graphs, max(DEPTHS))
        self.errors_: dict[int, float] = {}
        for depth in DEPTHS:
            shallow = ColourTable(table.codes, table.levels[:depth])
            features = self._features(graphs, columns[: depth + 1], shallow)
            penalties, predicted, error = self._choose(
                features[rows], y[rows], weights[rows], strata[rows], some, seed
            )
            self.errors_[depth] = error
            if error > min(self.errors_.values()):
                continue
            self.num_iterations_, self.table_, self.penalties_ = depth, shallow, penalties
            self._left_out, best = np.full(y.shape, np.nan), features
            self._left_out[rows] = self._values(predicted)
        fitted = [self._fit_target(best, *each) for each in zip(y.T, weights.T, self.penalties_, strict=True)]
        self.weights_ = np.stack([coefficients for coefficients, _ in fitted], axis=1)
        self.intercept_ = np.array([intercept for _, intercept in fitted])
        self.scale_ = np.ones(y.shape[1]) if self._classifies else np.nanstd(y, axis=0)
        self.std_ = np.sqrt(np.nanmean(weights * (y - self._left_out) ** 2, axis=0))
        having = np.bincount(best.indices, minlength=best.shape[1])
        self.frequent_ = np.argsort(-having, kind="stable")[:_FINGERPRINT]
        self._tell()
        return self

    @property
    def _classifies(self) -> bool:
        return bool(self.about["task"] != "regression")

    def _choose(
        self,
        features: sparse.csr_array,
        y: np.ndarray,
        weight: np.ndarray,
        strata: np.ndarray,
        groups: np.ndarray | None,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The best penalty of each target, the values or log-odds that these predict of rows left out
        ``[n, T]``, and the error. Held-out rows are stratified by ``strata``: by the two classes of each
        target, or by all classes of a single one. Rows of one group are left out together.
        """
        penalties, predictions, errors = [], np.full(y.shape, np.nan), []
        for t, column in enumerate(y.T):
            known = ~np.isnan(column)
            x, target, own = features[known], column[known], weight[known, t]
            # In units of the mean of K(G, G).
            tried = np.array(PENALTIES) * float(x.multiply(x).sum() / len(target))
            together = None if groups is None else groups[known]
            if len(target) > _MOST[self.about["task"]]:
                stratum = strata[known, t % strata.shape[1]] if self._classifies else None
                each = held_out(x, target, own, tried, seed, stratum, together)
            elif self._classifies:
                each = cross_validated(x, target, own, tried, seed, together)
            else:
                each = left_out(x, target, own, tried, together)
            there = ~np.isnan(each[0])
            wrong = (log_losses if self._classifies else squares)(each[:, there], target[there])
            wrong = np.average(wrong, axis=1, weights=own[there])
            if not self._classifies:
                wrong = np.sqrt(wrong) / (target.std() or 1.0)
            best = int(np.argmin(wrong))
            penalties.append(tried[best])
            predictions[known, t] = each[best]
            errors.append(wrong[best])
        return np.array(penalties), predictions, float(np.mean(errors))

    def _fit_target(
        self, features: sparse.csr_array, y: np.ndarray, weight: np.ndarray, penalty: float
    ) -> tuple[np.ndarray, float]:
        known = ~np.isnan(y)
        fit = logistic if self._classifies else ridge
        return next(fit(features[known], y[known], weight[known], [penalty]))

    def _tell(self) -> None:
        figures = ", ".join(f"{depth}: {error:.3f}" for depth, error in self.errors_.items())
        logger.info(
            f"linear machine on {len(self.weights_):,} colours of {self.num_iterations_} iterations: the "
            f"least error of molecules left out ({figures})"
        )

    def _features(
        self, graphs: FlatGraphs, columns: list[np.ndarray], table: ColourTable
    ) -> sparse.csr_array:
        """Counts, or log(1 + count), of the colours of a table."""
        counts = column_counts(graphs, columns, sum(table.sizes))
        if self._classifies:
            counts.data = np.log1p(counts.data)
        return counts

    def leave_one_out(self) -> np.ndarray:
        """What the choice of the penalty was made by: predictions of molecules that were left out.

        Returns:
            Float64 ``[n, T]``, of classes probabilities; NaN where a target is missing, and of molecules that
            were not held out; n does not count molecules of weight 0.

        Raises:
            NotFittedError: ``fit`` has not been called, or the machine comes from a file.
        """
        check_is_fitted(self, "_left_out")
        return self._left_out

    def predict(self, data: PackedGraphs, return_std: bool = False) -> Any:
        """Values in the unit of the targets, or probabilities of class 1, float64 ``[len(data), T]``; of more
        than two classes the probability of each, ``[len(data), C]``.

        Args:
            data: Molecules with the features of the training.
            return_std: Also give the standard deviation of a new measurement, in the same shape: the
                error of molecules left out, the same for all (see ``std_``); classes have none.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: ``data`` have other features, or ``return_std`` is set for classes.
        """
        self._check(data)
        if return_std and self._classifies:
            raise ValueError("return_std: classes have probabilities and no standard deviations")
        parts = [self._linear(store_graphs(data[i : i + _AT_ONCE])) for i in range(0, len(data), _AT_ONCE)]
        values = np.concatenate([np.zeros((0, len(self.intercept_))), *parts])
        if return_std:
            return values, np.tile(self.std_, (len(values), 1))
        return self._values(values)

    def _values(self, linear: np.ndarray) -> np.ndarray:
        """Values or probabilities, from linear functions of the counts."""
        return probabilities(linear, self.about["task"] == "multiclass") if self._classifies else linear

    def _linear(self, graphs: FlatGraphs) -> np.ndarray:
        features = self._features(graphs, self.table_.columns(graphs), self.table_)
        return np.asarray(features @ self.weights_ + self.intercept_)

    def fingerprint(self, data: PackedGraphs) -> np.ndarray:
        """Counts of the colours that most training molecules have, float32 ``[len(data), up to 1,024]``.

        Raises:
            NotFittedError, ValueError: As :meth:`predict`.
        """
        self._check(data)
        graphs = store_graphs(data)
        counts = column_counts(graphs, self.table_.columns(graphs), len(self.weights_))
        return np.asarray(counts[:, self.frequent_].toarray(), dtype=np.float32)

    def substructures(self, data: PackedGraphs) -> Substructures:
        """The known colours of molecules, and what each adds to a value, or to the log-odds of class 1.

        Raises:
            NotFittedError, ValueError: As :meth:`predict`.
        """
        self._check(data)
        graphs = store_graphs(data)
        columns = self.table_.columns(graphs)
        features = self._features(graphs, columns, self.table_)
        features.sort_indices()
        owner = np.tile(np.repeat(np.arange(len(graphs)), graphs.sizes), len(columns))
        radius = np.repeat(np.arange(len(columns)), len(columns[0]))
        node, column = np.tile(np.arange(len(columns[0])), len(columns)), np.concatenate(columns)
        # Occurrences as the entries of the matrix are sorted.
        order = np.lexsort((column, owner))
        order = order[column[order] >= 0]
        times = count_matrix(owner[order], column[order], *features.shape)
        times.sort_indices()
        return Substructures(
            kernel=WLSubtreeKernel(self.num_iterations_),
            graph=np.repeat(np.arange(len(graphs)), np.diff(features.indptr)),
            value=features.data[:, None] * self.weights_[features.indices],
            bounds=bounds_of(times.data.astype(np.int64)),
            nodes=node[order][:, None],
            radius=radius[order],
            alike=np.zeros((len(graphs), len(self.intercept_))),
            gram=np.zeros((len(graphs), 0)),
        )

    def _check(self, data: PackedGraphs) -> None:
        check_is_fitted(self, "weights_")
        check_same_features(data, self.about["features"])
        if data.arrays.source.numel() and _edge_values(data) != self.about.get("edge_values", []):
            raise ValueError(
                "data: codes of edges stand for other rows of edge_attr than in training: convert with "
                "PackedGraphs.from_pyg(graphs, edge_values=machine.about['edge_values'])"
            )

    @property
    def num_parameters(self) -> int:
        """Weights and intercepts."""
        return int(self.weights_.size + self.intercept_.size)


def _edge_values(data: PackedGraphs) -> list[list[float]]:
    """What codes of edges stand for, where that depends on the graphs."""
    return [[*row] for row in data.description.numbered_edges]
