"""Graphs as they are compared node by node: similarities, steps in two graphs at once, sums over pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end, paired
from wlkernelnn.kernels.labels import columns_of, edge_codes, is_float, node_labels

G = TypeVar("G", bound="PairSide")


@dataclass(frozen=True)
class PairSide:
    """One side of a kernel that compares nodes pair by pair.

    Attributes:
        labels: Integers ``[N]`` (nodes with equal ones have similarity 1, else 0), or ``None``.
        x: Floats ``[N, d]`` (similarity ⟨f, f'⟩), or ``None``.
        adjacency: One sparse ``[N, N]`` (target, source) for every type of edges and column of their floats:
            the similarity of two edges is their inner product over these.
        node_ptr: int64 ``[n+1]``.
    """

    labels: np.ndarray | None
    x: np.ndarray | None
    adjacency: tuple[sparse.csr_array, ...]
    node_ptr: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.node_ptr)

    @property
    def num_nodes(self) -> int:
        return int(self.node_ptr[-1])

    def part(self: G, begin: int, end: int) -> G:
        first, last = self.node_ptr[begin], self.node_ptr[end]
        nodes = slice(first, last)
        changes: dict[str, Any] = {
            "labels": None if self.labels is None else self.labels[nodes],
            "x": None if self.x is None else self.x[nodes],
            "adjacency": tuple(matrix[nodes, nodes] for matrix in self.adjacency),
            "node_ptr": self.node_ptr[begin : end + 1] - first,
        }
        return replace(self, **changes)

    def similarity(self, other: PairSide) -> np.ndarray:
        """⟨f_v, f_v'⟩ of all nodes of both sides, ``[N, N']``."""
        if self.labels is not None and other.labels is not None:
            return (self.labels[:, None] == other.labels).astype(np.float64)
        if self.x is not None and other.x is not None:
            return np.asarray(self.x @ other.x.T)
        return np.ones((self.num_nodes, other.num_nodes))

    def move(self, other: PairSide, states: np.ndarray) -> np.ndarray:
        """Σ_{u∈N(v)} Σ_{u'∈N(v')} ⟨e_uv, e_u'v'⟩ states[u, u'], ``[N, N']``: a step in both graphs."""
        total: np.ndarray | None = None
        for here, there in zip(self.adjacency, other.adjacency, strict=True):
            if not (here.nnz and there.nnz):
                continue
            term = (there @ (here @ states).T).T
            total = term if total is None else total + term
        return np.zeros_like(states) if total is None else total

    def pool(self, other: PairSide, values: np.ndarray) -> np.ndarray:
        """Sum ``[N, N']`` over the nodes of each pair of graphs: ``[n, n']``."""
        return segment_sums(segment_sums(values, self.node_ptr).T, other.node_ptr).T


def segment_sums(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Sums of rows ptr[i] … ptr[i+1] − 1, ``[n, …]``; 0 of none."""
    out = np.zeros((len(ptr) - 1, *values.shape[1:]))
    filled = np.flatnonzero(np.diff(ptr))
    if len(filled):
        out[filled] = np.add.reduceat(values, ptr[filled], axis=0)
    return out


def pair_sides(X: Any, Y: Any) -> tuple[PairSide, PairSide | None]:
    """Both sides for a comparison of nodes pair by pair.

    Raises:
        TypeError, ValueError: As :func:`paired`.
    """
    a, b = paired(X, Y)
    both = a if b is None else end_to_end(a, b)
    labels = None if a.x is None or is_float(a.x) else node_labels(both)
    types = edge_codes(both)
    num_types = 1 + int(types.max(initial=0))
    num_nodes, num_edges = a.node_ptr[-1], a.edge_ptr[-1]
    first = _pair_side(a, None if labels is None else labels[:num_nodes], types[:num_edges], num_types)
    if b is None:
        return first, None
    return first, _pair_side(b, None if labels is None else labels[num_nodes:], types[num_edges:], num_types)


def _pair_side(graphs: FlatGraphs, labels: np.ndarray | None, types: np.ndarray, num_types: int) -> PairSide:
    num_nodes = int(graphs.node_ptr[-1])
    weights = np.ones(len(graphs.source)) if graphs.edge_weight is None else graphs.edge_weight
    columns = columns_of(graphs.edge_attr) if is_float(graphs.edge_attr) else [np.ones(len(weights))]

    def matrix(values: np.ndarray, edges: np.ndarray) -> sparse.csr_array:
        place = graphs.target[edges], graphs.source[edges]
        return sparse.csr_array((values[edges], place), shape=(num_nodes, num_nodes))

    return PairSide(
        labels=labels,
        x=graphs.x if labels is None else None,
        adjacency=tuple(
            matrix(weights * column, types == type_) for type_ in range(num_types) for column in columns
        ),
        node_ptr=graphs.node_ptr,
    )
