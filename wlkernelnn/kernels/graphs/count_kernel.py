"""Kernels that compare how often patterns occur, by inner products or by min-max."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from wlkernelnn.kernels.base import StructureKernel, Values
from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end, flat_graphs, paired
from wlkernelnn.kernels.names import Names
from wlkernelnn.ops.spans import bounds_of, places_of

from .codings import FEATURES, coded
from .counts import CountSide, count_matrix, count_side, count_sides, frequent_columns, unit_rows

Normalization = Literal["minmax", "cosine"] | bool | None


class Occurrences(NamedTuple):
    """Patterns in graphs, each as often as it occurs.

    Attributes:
        pattern: Any integers ``[M]``; equal ones are the same pattern.
        nodes: ``[M, k]``: the nodes of each occurrence, counted over all graphs.
        radius: ``[M]``: how many edges from its nodes an occurrence sees; ``None``: it sees these nodes only.
    """

    pattern: np.ndarray
    nodes: np.ndarray
    radius: np.ndarray | None = None


class CountKernel(StructureKernel):
    r"""A kernel of counts φ(G): how often each pattern occurs in G.

    A subclass says which patterns there are. ``normalize`` is

    * ``"minmax"``: :math:`\sum_i \min(\phi_i, \phi'_i) / \sum_i \max(\phi_i, \phi'_i)`, also called Jaccard,
      Tanimoto or Ruzicka: positive semi-definite (Ralaivola et al. 2005), in [0, 1], and 1 for two graphs
      without any pattern;
    * ``"cosine"`` or ``True``: :math:`\langle \phi, \phi' \rangle` divided by both lengths, 0 where one is 0;
    * ``None`` or ``False``: the inner product itself.

    All counts are integers, and no step rounds before the last division.
    """

    # Graphs of a part: blocks of half a million numbers stay in the cache.
    _budget = 512

    normalize: Normalization  # type: ignore[assignment]
    coding: str | None

    @abstractmethod
    def _occurrences(self, graphs: FlatGraphs, names: Names) -> Occurrences:
        """All patterns of some graphs, numbered by names; −1 for one that complete names lack."""

    def features(self, X: Any) -> sparse.csr_array:
        """The counts themselves, for a solver that wants features: without ``normalize`` K(X) is Φ Φᵀ.

        Columns are the patterns of these graphs. Another collection has others: give training and test graphs
        together, and take rows.

        Returns:
            Φ, float64 ``[len(X), columns]``; rows of length 1 with ``normalize="cosine"``.

        Raises:
            TypeError, ValueError: As a call.
        """
        self._check_normalize()
        counts = self._counts(coded(flat_graphs(X, self._features), self.coding))
        if self.normalize in ("cosine", True):
            counts = unit_rows(counts)
        return counts

    @property
    def _features(self) -> str:
        return FEATURES if self.coding else "ogb"

    def _counts(self, graphs: FlatGraphs) -> sparse.csr_array:
        return counted(self._occurrences(graphs, Names()), graphs)[0]

    def _check_normalize(self) -> None:
        if self.normalize not in ("minmax", "cosine", True, False, None):
            raise ValueError(f"normalize must be 'minmax', 'cosine' or None, got {self.normalize!r}")

    def _encode(self, X: Any, Y: Any) -> tuple[CountSide, CountSide | None]:
        a, b = (None if side is None else coded(side, self.coding) for side in paired(X, Y, self._features))
        assert a is not None
        counts = self._counts(a if b is None else end_to_end(a, b))
        if self.normalize == "minmax":
            counts = unary(counts)
        return count_sides(counts, None if b is None else len(a))

    def keep(self, X: Any) -> KeptCounts | None:
        """Structures counted once, of a kernel with a ``coding`` and min-max; ``None`` of others.

        Raises:
            TypeError, ValueError: As a call.
        """
        return KeptCounts(self, X) if self.keeps else None

    @property
    def keeps(self) -> bool:
        """Whether it keeps counts."""
        return bool(self.coding) and self.normalize == "minmax"

    def _block(self, a: CountSide, b: CountSide, gradient: bool = False) -> Values:
        values = a.product(b)
        if self.normalize == "minmax":
            # Of 0 and 1 alone, squares are sums: Σ max = |φ| + |φ'| − Σ min.
            largest = a.squares[:, None] + b.squares
            largest -= values
            np.divide(values, largest, out=values, where=largest > 0)
            values[largest == 0] = 1
        return values, None

    def _diag(self, side: CountSide, gradient: bool = False) -> Values:
        return np.ones_like(side.squares) if self.normalize == "minmax" else side.squares, None


def counted(found: Occurrences, graphs: FlatGraphs) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Counts ``[n, patterns]``, and the graph and the column of every occurrence ``[M]``."""
    column, patterns = pd.factorize(found.pattern)
    owner = np.repeat(np.arange(len(graphs)), graphs.sizes)[found.nodes[:, 0]]
    return count_matrix(owner, column, len(graphs), len(patterns)), owner, column


class KeptCounts:
    """Molecules that a min-max kernel has counted once: others are compared by their own counts alone.

    Attributes:
        side: The molecules, as the kernel compares them.
    """

    def __init__(self, kernel: CountKernel, X: Any) -> None:
        self.kernel, self.names = kernel, Names()
        counts, sizes = self._counts(X)
        self.names.complete = True
        self.most = largest_counts(counts)
        ones = unary(counts, self.most)
        self.is_frequent = frequent_columns(ones)
        self.side = count_side(ones, self.is_frequent, sizes)

    def _counts(self, X: Any) -> tuple[sparse.csr_array, np.ndarray]:
        """Counts of the patterns with names, and how many patterns there are with those that have none."""
        graphs = coded(flat_graphs(X, FEATURES), self.kernel.coding)
        found = self.kernel._occurrences(graphs, self.names)
        owner = np.repeat(np.arange(len(graphs)), graphs.sizes)[found.nodes[:, 0]]
        known = found.pattern >= 0
        width = len(self.most) if self.names.complete else int(found.pattern.max(initial=-1)) + 1
        counts = count_matrix(owner[known], found.pattern[known], len(graphs), width)
        return counts, np.bincount(owner, minlength=len(graphs)).astype(np.float64)

    def read(self, X: Any) -> CountSide:
        """Other molecules, to be compared with these.

        Raises:
            TypeError, ValueError: As a call of the kernel.
        """
        counts, sizes = self._counts(X)
        return count_side(unary(counts, self.most), self.is_frequent, sizes)


def largest_counts(counts: sparse.csr_array) -> np.ndarray:
    """The largest count of each column."""
    counts.sum_duplicates()
    most = np.zeros(counts.shape[1], dtype=np.int64)
    np.maximum.at(most, counts.indices, counts.data.astype(np.int64))
    return most


def unary(counts: sparse.csr_array, most: np.ndarray | None = None) -> sparse.csr_array:
    """A column of 0 and 1 for each column and "at least 1, 2, …": Σ min is their inner product.

    Args:
        counts: ``[n, columns]``.
        most: How far each column counts, ``[columns]``; default to its largest count.
    """
    counts.sum_duplicates()
    most = largest_counts(counts) if most is None else most
    times = np.minimum(counts.data.astype(np.int64), most[counts.indices])
    bounds = bounds_of(times)
    column = places_of(bounds_of(most)[counts.indices], bounds)
    index = sparse.get_index_dtype(maxval=max(len(column), int(most.sum())))
    return sparse.csr_array(
        (np.ones(len(column)), column.astype(index), bounds[counts.indptr].astype(index)),
        shape=(counts.shape[0], int(most.sum())),
    )
