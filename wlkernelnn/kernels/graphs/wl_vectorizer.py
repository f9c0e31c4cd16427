"""Counts of Weisfeiler-Lehman colours as features for linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end, flat_graphs, paired
from wlkernelnn.utils.checks import check_count

from .wl_subtree import colours_of, column_counts, columns_of


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
        self.graphs_ = flat_graphs(X)
        colours = colours_of(self.graphs_, self.num_iterations, self.edge_labels)
        self.colours_, self.num_columns_ = columns_of(colours)
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
        both = colours_of(end_to_end(known, new), len(self.colours_) - 1, self.edge_labels_)
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
