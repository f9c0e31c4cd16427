"""The Weisfeiler-Lehman subtree kernel: common colours of two graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from wlkernelnn.kernels.base import StructureKernel, Values
from wlkernelnn.kernels.flat_graphs import (
    FlatGraphs,
    edge_labels,
    end_to_end,
    flat_graphs,
    node_labels,
    paired,
)
from wlkernelnn.ops.colours import wl_colours

from .counts import CountSide, count_matrix, count_sides, squared_norms


def colours_of(graphs: FlatGraphs, num_iterations: int, use_edge_labels: bool) -> list[np.ndarray]:
    """Colours of all nodes after 0 … num_iterations iterations, ``[ΣV]`` each."""
    nodes, _ = node_labels(graphs, None)
    edges = edge_labels(graphs, None)[0] if use_edge_labels else None
    return wl_colours(nodes, graphs.source, graphs.target, num_iterations, edges)


def columns_of(rounds: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Colours as columns of a matrix of counts, each iteration with columns of its own, and how many."""
    first = np.cumsum([0, *(int(colours.max(initial=-1)) + 1 for colours in rounds)])
    return [colours + i for colours, i in zip(rounds, first[:-1], strict=True)], int(first[-1])


def column_counts(graphs: FlatGraphs, columns: list[np.ndarray], num_columns: int) -> sparse.csr_array:
    """How often each graph has each column, of :func:`columns_of`; −1 is none."""
    column = np.concatenate(columns)
    owner = np.tile(np.repeat(np.arange(len(graphs)), graphs.sizes), len(columns))
    if column.min(initial=0) < 0:
        there = column >= 0
        owner, column = owner[there], column[there]
    return count_matrix(owner, column, len(graphs), num_columns)


class WLSubtreeKernel(StructureKernel):
    r"""The Weisfeiler-Lehman subtree kernel of Shervashidze et al. 2011, exact.

    .. math::
        K(G, G') = \sum_{t=0}^{h} \sum_{c} \#_c(r^t(G)) \; \#_c(r^t(G'))

    where :math:`\#_c(r^t(G))` counts the nodes of G that have colour c after t iterations of
    :func:`~wlkernelnn.ops.colours.wl_colours`. Two nodes begin with the same colour if their rows of ``x``
    are equal, codes or floats; without ``x`` all do. All counts are integers and no step rounds.

    Args:
        num_iterations: h ≥ 0.
        edge_labels: Tell neighbours apart by their edges' ``edge_type``, ``edge_attr`` and ``edge_weight``
            too; else they are ignored.
        normalize: Divide by :math:`\sqrt{K(G,G) K(G',G')}` (0 where that is 0).

    Takes lists of PyG ``Data``, of networkx graphs, or of SMILES, and packed stores. Colours are those of
    everything that is compared: of X alone, or of X and Y.

    Raises:
        ValueError: ``num_iterations < 0``, or graphs do not go together.
    """

    # Graphs of a part: blocks of half a million numbers stay in the cache.
    _budget = 512

    def __init__(self, num_iterations: int = 4, edge_labels: bool = True, normalize: bool = False) -> None:
        self.num_iterations = num_iterations
        self.edge_labels = edge_labels
        self.normalize = normalize

    def features(self, X: Any) -> sparse.csr_array:
        """The counts themselves, for a solver that wants features: ``K(X)`` is Φ Φᵀ.

        Columns are the colours of these graphs, iteration by iteration. Another collection has others: give
        training and test graphs together, and take rows.

        Returns:
            Φ, float64 ``[len(X), columns]``; rows of length 1 with ``normalize``.
        """
        counts = self._counts(flat_graphs(X))
        if self.normalize:
            lengths = np.sqrt(squared_norms(counts))
            inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
            counts = (sparse.diags_array(inverse) @ counts).tocsr()
        return counts

    def _counts(self, graphs: FlatGraphs) -> sparse.csr_array:
        columns, num_columns = columns_of(colours_of(graphs, self.num_iterations, self.edge_labels))
        return column_counts(graphs, columns, num_columns)

    def _encode(self, X: Any, Y: Any) -> tuple[CountSide, CountSide | None]:
        a, b = paired(X, Y)
        if b is None:
            return count_sides(self._counts(a))
        return count_sides(self._counts(end_to_end(a, b)), len(a))

    def _block(self, a: CountSide, b: CountSide, gradient: bool = False) -> Values:
        return a.product(b), None

    def _diag(self, side: CountSide, gradient: bool = False) -> Values:
        return side.squares, None
