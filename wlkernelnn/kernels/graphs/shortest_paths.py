"""The shortest-path kernel: pairs of nodes by their labels and their distance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wlkernelnn.kernels.base import cut
from wlkernelnn.kernels.flat_graphs import FlatGraphs
from wlkernelnn.kernels.labels import label_columns
from wlkernelnn.kernels.names import Names
from wlkernelnn.kernels.ring_nodes import atoms_alone
from wlkernelnn.ops.spans import bounds_of, places_of
from wlkernelnn.utils.checks import check_count

from .count_kernel import CountKernel, Normalization, Occurrences

# Pairs of nodes that are looked at together.
_PAIRS = 10_000_000


class ShortestPathKernel(CountKernel):
    r"""Counts pairs of nodes by their two labels and their shortest distance: Borgwardt and Kriegel 2005.

    .. math::
        \phi_{(a, d, b)}(G) = \#\{\{u, v\} : d(u, v) = d, \; \{l(u), l(v)\} = \{a, b\}\}

    for 1 ≤ d ≤ ``max_distance``; pairs without a path between them do not count. Distances are numbers of
    edges; every edge is passed in both directions, whatever stands on it. On molecules these are atom
    pairs (Carhart et al. 1985).

    Args:
        max_distance: The largest distance that counts; ``None``: every distance does.
        normalize: See :class:`CountKernel`.
        coding: What of molecules counts as an atom's label: ``"ogb"``, ``"element"``, ``"ecfp"`` or
            ``"fcfp"``; ``None``: all columns of ``x``.

    Takes what :class:`RandomWalkKernel` takes. Of molecules, nodes of rings are left out.

    Raises:
        ValueError: ``max_distance < 1``, an unknown name, or graphs do not go together.
    """

    def __init__(
        self, max_distance: int | None = None, normalize: Normalization = None, coding: str | None = None
    ) -> None:
        self.max_distance = max_distance
        self.normalize = normalize
        self.coding = coding

    def _occurrences(self, graphs: FlatGraphs, names: Names) -> Occurrences:
        if self.max_distance is not None:
            check_count("max_distance", self.max_distance)
        graphs, atom = atoms_alone(graphs)
        label = names.rows("nodes", label_columns(graphs.x), int(graphs.node_ptr[-1]))
        u, v, distance = pairs(graphs, self.max_distance)
        first, second = label[u], label[v]
        columns = [distance, np.minimum(first, second), np.maximum(first, second)]
        return Occurrences(names.rows("patterns", columns, len(u)), atom[np.stack([u, v], axis=1)])


def pairs(graphs: FlatGraphs, most: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that :func:`distances` gives, end to end: u, v and their distance; once for the same edges."""
    source, found = graphs.shared.get(("pairs", most), (None, None))
    if source is not graphs.source:
        none = np.zeros(0, dtype=np.int64)
        each = [(u, v, np.full(len(u), distance)) for u, v, distance in distances(graphs, most)]
        found = tuple(np.concatenate([none, *columns]) for columns in zip(*each, strict=True)) or (none,) * 3
        graphs.shared["pairs", most] = graphs.source, found
    return found


def distances(graphs: FlatGraphs, most: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Pairs u < v of nodes of the same graph, with their distance: one distance of some graphs at a time.

    All nodes of these graphs search breadth first at the same time.
    """
    ends = np.concatenate([graphs.source, graphs.target]), np.concatenate([graphs.target, graphs.source])
    order = np.argsort(ends[0], kind="stable")
    neighbour, degree = ends[1][order], np.bincount(ends[0], minlength=int(graphs.node_ptr[-1]))
    first = bounds_of(degree)[:-1]
    size = np.repeat(graphs.sizes, graphs.sizes)
    for begin, end in cut(graphs.sizes**2, _PAIRS):
        nodes = np.arange(graphs.node_ptr[begin], graphs.node_ptr[end])
        # Every pair of nodes of a graph has a place: of u's row, v's column.
        row = bounds_of(size[nodes])[:-1] - np.repeat(graphs.node_ptr[begin:end], graphs.sizes[begin:end])
        offset = int(graphs.node_ptr[begin])
        seen = np.zeros(int((graphs.sizes[begin:end] ** 2).sum()), dtype=bool)
        last = np.zeros(len(seen), dtype=np.int32)
        u, v, distance = nodes, nodes, 0
        seen[row + nodes] = True
        while len(u) and distance != most:
            distance += 1
            bounds = bounds_of(degree[v])
            u, v = np.repeat(u, degree[v]), neighbour[places_of(first[v], bounds)]
            place = row[u - offset] + v
            new = ~seen[place]
            u, v, place = u[new], v[new], place[new]
            # A pair that was reached in several ways stays once: as the last of them.
            number = np.arange(len(place), dtype=np.int32)
            last[place] = number
            once = last[place] == number
            u, v = u[once], v[once]
            seen[place] = True
            forth = u < v
            yield u[forth], v[forth], distance
