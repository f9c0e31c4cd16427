"""Weisfeiler-Lehman colours, exact and fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wlkernelnn.ops.spans import bounds_of
from wlkernelnn.utils.checks import check_count

# Numbers below this fit into an int64.
_CAPACITY = 2**63
# Nodes with more incoming edges are few in most graphs: they are compared one by one.
_MAX_COLUMNS = 8
# Values that are at most so many times as large as they are many are numbered by a table.
_DENSE = 8


def wl_colours(
    label: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    num_iterations: int,
    edge_label: np.ndarray | None = None,
) -> list[np.ndarray]:
    r"""The colours of all nodes after 0, 1, … iterations of colour refinement (Shervashidze et al. 2011).

    .. math::
        r^t(v) = \big( r^{t-1}(v), \; \{\!\{ (r^{t-1}(u), e_{uv}) : (u, v) \in E \}\!\} \big)

    over the edges that come IN to v, each counted as often as it occurs. Two nodes have the same colour if
    and only if these pairs are equal: neighbourhoods are compared by value, never by a hash of them.

    Args:
        label: Any integers ``[N]``; equal ones are the same colour 0.
        source, target: Edges ``[E]`` in any order, of one graph or of many end to end.
        num_iterations: At least 0.
        edge_label: Any integers ``[E]``; ``None``: all edges are alike.

    Returns:
        ``num_iterations + 1`` arrays, int64 ``[N]``, of colours 0 … number of colours − 1 in no particular
        order. From an iteration on that told no more nodes apart, all are the same array.

    Raises:
        ValueError: Shapes that do not fit, an edge between nodes that are not there, or
            ``num_iterations < 0``.
    """
    check_count("num_iterations", num_iterations, least=0)
    if label.ndim != 1:
        raise ValueError(f"label must be [N], got shape {list(label.shape)}")
    edges = {"source": source, "target": target} | ({} if edge_label is None else {"edge_label": edge_label})
    for name, values in edges.items():
        if values.shape != (source.size,):
            raise ValueError(
                f"source, target and edge_label must be [E]: {name} has shape {list(values.shape)}, "
                f"source {list(source.shape)}"
            )
        if name != "edge_label" and values.size and not 0 <= values.min() <= values.max() < len(label):
            raise ValueError(
                f"{name} has nodes {values.min()} … {values.max()}, expected 0 … {len(label) - 1}"
            )
    for name, values in ({"label": label} | edges).items():
        if values.dtype.kind not in "iub":
            raise ValueError(f"{name} must hold integers, got {values.dtype}")
    neighbours = _Neighbours(len(label), source, target, edge_label)
    colour, labels = pd.factorize(label)
    colours, num_colours = [colour], len(labels)
    for _ in range(num_iterations):
        finer, num_finer = neighbours.refine(colour, num_colours)
        if num_finer == num_colours:
            # A colour remembers the one before: as many colours are the same classes, now and ever after.
            break
        colour, num_colours = finer, num_finer
        colours.append(colour)
    return colours + [colour] * (num_iterations + 1 - len(colours))


class _Neighbours:
    """Incoming edges, by the number that a node has of them."""

    def __init__(
        self, num_nodes: int, source: np.ndarray, target: np.ndarray, edge_label: np.ndarray | None
    ) -> None:
        if (target[1:] < target[:-1]).any():
            order = np.argsort(target, kind="stable")
            source, target = source[order], target[order]
            edge_label = None if edge_label is None else edge_label[order]
        degree = np.bincount(target, minlength=num_nodes)
        begin = np.cumsum(degree) - degree
        self.source = source
        self.edge, self.num_edge_labels = None, 1
        if edge_label is not None:
            self.edge, labels = pd.factorize(edge_label)
            self.num_edge_labels = max(1, len(labels))
        # For d = 0, 1, …: the nodes with d edges, and where in the list of edges these are, [d, nodes].
        self.groups: list[tuple[np.ndarray, np.ndarray]] = []
        for d in np.flatnonzero(np.bincount(degree)[: _MAX_COLUMNS + 1]):
            nodes = np.flatnonzero(degree == d)
            self.groups.append((nodes, begin[nodes] + np.arange(d)[:, None]))
        self.crowded = np.flatnonzero(degree > _MAX_COLUMNS)
        # The edges of the crowded nodes end to end: which, and where each node's begin.
        edges = np.flatnonzero(degree[target] > _MAX_COLUMNS)
        self.crowded_edges, self.crowded_target = edges, target[edges]
        self.crowded_ptr = bounds_of(degree[self.crowded])

    def refine(self, colour: np.ndarray, num_colours: int) -> tuple[np.ndarray, int]:
        """The next colours, and how many there are."""
        code, num_codes = colour[self.source], num_colours
        if self.edge is not None:
            # One to one, and far from overflow: N and E number things that are in memory.
            code, num_codes = code * self.num_edge_labels + self.edge, num_codes * self.num_edge_labels
        finer = np.empty_like(colour)
        # Nodes of different degrees never share a colour: every group has numbers of its own.
        first = 0
        for nodes, edges in self.groups:
            columns = [colour[nodes], *sorted_columns(code[edges])]
            sizes = [num_colours] + [num_codes] * len(edges)
            number, values = pd.factorize(packed_columns(columns, sizes))
            finer[nodes] = number + first
            first += len(values)
        numbers: dict[tuple[int, bytes], int] = {}
        # A dictionary compares the sorted codes of a crowded node whole, not by their hash.
        code = code[self.crowded_edges]
        code = code[np.lexsort((code, self.crowded_target))]
        for node, begin, end in zip(self.crowded, self.crowded_ptr[:-1], self.crowded_ptr[1:], strict=True):
            content = int(colour[node]), code[begin:end].tobytes()
            finer[node] = first + numbers.setdefault(content, len(numbers))
        return finer, first + len(numbers)


def sorted_columns(values: np.ndarray) -> Sequence[np.ndarray]:
    """``[d, n]`` with every column sorted, by d rounds of exchanges between neighbouring rows."""
    rows = list(values)
    for i in range(len(rows)):
        for j in range(i % 2, len(rows) - 1, 2):
            rows[j], rows[j + 1] = np.minimum(rows[j], rows[j + 1]), np.maximum(rows[j], rows[j + 1])
    return rows


def packed_columns(columns: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """One int64 for every row of some columns, the same for two rows if and only if they are equal.

    Column i holds numbers from 0 to below sizes[i]: they are the digits of a number in mixed radix, which
    two different rows never share while the product of the sizes is at most 2⁶³. Where the next digit would
    exceed that, the number so far is first replaced by that of its occurrence among all rows, which is one to
    one as well, and below the number of rows. (Rows and sizes number things in memory: their product is far
    below 2⁶³.)
    """
    # Columns may be of types that do not hold their products.
    number, size = columns[0].astype(np.int64, copy=False), sizes[0]
    for column, radix in zip(columns[1:], sizes[1:], strict=True):
        if size * radix > _CAPACITY:
            number, values = pd.factorize(number)
            size = len(values)
        number, size = number * radix + column, size * radix
    return number


def numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values numbered in the order in which they occur, and where each occurs first."""
    size = int(values.max(initial=0)) + 1
    if values.dtype.kind not in "iu" or values.min(initial=0) < 0 or size > _DENSE * len(values):
        values, distinct = pd.factorize(values)
        size = len(distinct)
    # Small numbers need no search: written from the end, the first place of each remains.
    place = np.full(size, -1)
    place[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    first = np.sort(place[place >= 0])
    place[values[first]] = np.arange(len(first))
    return place[values], first
