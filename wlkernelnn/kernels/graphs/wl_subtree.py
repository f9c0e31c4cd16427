"""The Weisfeiler-Lehman subtree kernel: common colours of two graphs, and their counts as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end, flat_graphs, paired
from wlkernelnn.kernels.labels import edge_labels, label_columns, node_labels
from wlkernelnn.kernels.names import Names
from wlkernelnn.ops.colours import wl_colours
from wlkernelnn.utils.checks import check_count, check_switch

from .count_kernel import CountKernel, Normalization, Occurrences
from .counts import count_matrix
from .paths import edge_names


def graph_colours(graphs: FlatGraphs, num_iterations: int, use_edge_labels: bool) -> list[np.ndarray]:
    """Colours of all nodes after 0 … num_iterations iterations, ``[ΣV]`` each."""
    nodes, edges = node_labels(graphs), edge_labels(graphs) if use_edge_labels else None
    return wl_colours(nodes, graphs.source, graphs.target, num_iterations, edges)


def count_columns(rounds: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Colours as columns of a matrix of counts, each iteration with columns of its own, and how many."""
    first = np.cumsum([0, *(int(colours.max(initial=-1)) + 1 for colours in rounds)])
    return [colours + i for colours, i in zip(rounds, first[:-1], strict=True)], int(first[-1])


def column_counts(graphs: FlatGraphs, columns: list[np.ndarray], num_columns: int) -> sparse.csr_array:
    """How often each graph has each column, of :func:`count_columns`; −1 is none."""
    column = np.concatenate(columns)
    owner = np.tile(np.repeat(np.arange(len(graphs)), graphs.sizes), len(columns))
    if column.min(initial=0) < 0:
        there = column >= 0
        owner, column = owner[there], column[there]
    return count_matrix(owner, column, len(graphs), num_columns)


class WLSubtreeKernel(CountKernel):
    r"""The Weisfeiler-Lehman subtree kernel of Shervashidze et al. 2011, exact.

    .. math::
        K(G, G') = \sum_{t=0}^{h} \sum_{c} \#_c(r^t(G)) \; \#_c(r^t(G'))

    where :math:`\#_c(r^t(G))` counts the nodes of G that have colour c after t iterations of
    :func:`~wlkernelnn.ops.colours.wl_colours`. Two nodes begin with the same colour if their rows of ``x``
    are equal, codes or floats; without ``x`` all do.

    Args:
        num_iterations: h ≥ 0.
        edge_labels: Tell neighbours apart by their edges' ``edge_type``, ``edge_attr`` and ``edge_weight``
            too; else they are ignored.
        normalize: See :class:`CountKernel`.
        coding: What of molecules counts as an atom's label: ``"ogb"``, ``"element"``, ``"ecfp"`` or
            ``"fcfp"``; ``None``: all columns of ``x``.

    Takes what :class:`RandomWalkKernel` takes. Colours are those of everything that is compared: of X alone,
    or of X and Y.

    Raises:
        ValueError: ``num_iterations < 0``, an unknown name, or graphs do not go together.
    """

    def __init__(
        self,
        num_iterations: int = 4,
        edge_labels: bool = True,
        normalize: Normalization = None,
        coding: str | None = None,
    ) -> None:
        self.num_iterations = num_iterations
        self.edge_labels = edge_labels
        self.normalize = normalize
        self.coding = coding

    def _occurrences(self, graphs: FlatGraphs, names: Names) -> Occurrences:
        check_count("num_iterations", self.num_iterations, least=0)
        check_switch("edge_labels", self.edge_labels)
        if self.coding:
            columns = _named_colours(graphs, self.num_iterations, self.edge_labels, names)
        else:  # graphs of any degree, whose counts are not kept
            columns, _ = count_columns(graph_colours(graphs, self.num_iterations, self.edge_labels))
        nodes = np.arange(int(graphs.node_ptr[-1]))
        radius = np.repeat(np.arange(len(columns)), len(nodes))
        return Occurrences(np.concatenate(columns), np.tile(nodes, len(columns))[:, None], radius)


def _named_colours(
    graphs: FlatGraphs, num_iterations: int, use_edge_labels: bool, names: Names
) -> list[np.ndarray]:
    """Colours as of :func:`graph_colours`, of each iteration with numbers of its own; −1: without a name."""
    number = int(graphs.node_ptr[-1])
    colour = names.rows("nodes", label_columns(graphs.x), number)
    edge = edge_names(graphs, names, use_edge_labels)
    order = np.argsort(graphs.target, kind="stable")
    source, edge = graphs.source[order], edge[order]
    degree = np.bincount(graphs.target, minlength=number)
    begin = np.cumsum(degree) - degree
    columns, first = [colour], names.sizes["nodes"]
    for t in range(1, num_iterations + 1):
        own = colour[source]
        around = np.where((own < 0) | (edge < 0), -1, own * names.sizes.get("edges", 1) + edge)
        finer = np.full(number, -1)
        for d in np.flatnonzero(np.bincount(degree)):
            nodes = np.flatnonzero(degree == d)
            sorted_around = np.sort(around[begin[nodes] + np.arange(d)[:, None]], axis=0)
            finer[nodes] = names.rows((t, d), [colour[nodes], *sorted_around], len(nodes))
        colour = names.rows(t, [degree, finer], number)
        columns.append(np.where(colour < 0, -1, colour + first))
        first += names.sizes[t]
    return columns


class WLVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Counts of Weisfeiler-Lehman colours: the features of the subtree kernel of Shervashidze et al. 2011.

    What scikit-learn's ``CountVectorizer`` is for texts, for graphs: a column for each colour that the
    training graphs have after 0, 1, … iterations, so that without ``log`` inner products of rows are
    :class:`WLSubtreeKernel`. Colours that only other graphs have are left out. A linear model on them takes
    seconds for tens of thousands of molecules:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from wlkernelnn.kernels import WLVectorizer
    >>> model = make_pipeline(WLVectorizer(1, log=True), LogisticRegression())
    >>> model.fit(["CCO", "CCN", "CCCO", "CCCN"], [0, 1, 0, 1]).predict(["CCCCO", "CCCCN"])
    array([0, 1])

    Takes what :class:`WLSubtreeKernel` takes. The training graphs are kept: colours are compared by value,
    and those of new graphs are found together with theirs.

    Args:
        num_iterations: h ≥ 0.
        edge_labels: Tell neighbours apart by what their edges carry, see :class:`WLSubtreeKernel`.
        log: Give :math:`\log(1 + \#)` instead of counts: of many nodes of a colour, another says little.

    Attributes:
        graphs_: The training graphs.
        colours_: The columns of their nodes after 0 … h iterations, ``[ΣV]`` each.
        num_columns_: How many columns there are.
        edge_labels_: ``edge_labels`` when fitted.
    """

    def __init__(self, num_iterations: int = 2, edge_labels: bool = True, log: bool = False) -> None:
        self.num_iterations = num_iterations
        self.edge_labels = edge_labels
        self.log = log

    def fit(self, X: Any, y: Any = None) -> WLVectorizer:
        """Find the colours of the graphs ``X``; ``y`` is not looked at.

        Raises:
            TypeError, ValueError: Graphs that do not go together, or ``num_iterations < 0``.
        """
        check_count("num_iterations", self.num_iterations, least=0)
        check_switch("edge_labels", self.edge_labels)
        check_switch("log", self.log)
        self.graphs_ = flat_graphs(X)
        colours = graph_colours(self.graphs_, self.num_iterations, self.edge_labels)
        self.colours_, self.num_columns_ = count_columns(colours)
        self.edge_labels_ = self.edge_labels
        return self

    @property
    def _n_features_out(self) -> int:
        return self.num_columns_  # of which scikit-learn makes names

    def transform(self, X: Any) -> sparse.csr_array:
        """The features, float64 ``[len(X), num_columns_]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: Graphs that do not go together with those of the training.
        """
        check_is_fitted(self)
        known, new = paired(self.graphs_, X)
        assert new is not None
        num_known, columns = len(self.colours_[0]), []
        # As it was fitted, whatever ``set_params`` did since.
        both = graph_colours(end_to_end(known, new), len(self.colours_) - 1, self.edge_labels_)
        for colours, of_known in zip(both, self.colours_, strict=True):
            # The same classes of the same nodes have other numbers beside other graphs.
            column = np.full(int(colours.max(initial=-1)) + 1, -1)
            column[colours[:num_known]] = of_known
            columns.append(column[colours[num_known:]])
        return self._counts(new, columns)

    def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_array:
        """Fit, and the features of the training graphs.

        Raises:
            TypeError, ValueError: As :meth:`fit`.
        """
        self.fit(X)
        return self._counts(self.graphs_, self.colours_)

    def _counts(self, graphs: FlatGraphs, columns: list[np.ndarray]) -> sparse.csr_array:
        counts = column_counts(graphs, columns, self.num_columns_)
        if self.log:
            counts.data = np.log1p(counts.data)
        return counts
