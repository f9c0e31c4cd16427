"""Walks of graphs with discrete labels, counted by what stands along them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end
from wlkernelnn.kernels.labels import edge_codes, is_float, node_labels
from wlkernelnn.kernels.names import row_numbers
from wlkernelnn.ops.spans import bounds_of, places_of

from .counts import CountSide, count_matrix, count_sides

# Walks that are followed at once: where there are more, pairs of nodes are fewer.
_MOST = 20_000_000


@dataclass(frozen=True)
class WalkSide:
    """One side of the random walk kernel of graphs with discrete labels.

    Attributes:
        counts: For every number of nodes that counts, how often each sequence of labels stands along a walk.
    """

    counts: tuple[CountSide, ...]

    @property
    def sizes(self) -> np.ndarray:
        return self.counts[0].sizes

    def part(self, begin: int, end: int) -> WalkSide:
        return WalkSide(tuple(side.part(begin, end) for side in self.counts))


def walk_sides(
    a: FlatGraphs, b: FlatGraphs | None, lengths: list[int]
) -> tuple[WalkSide, WalkSide | None] | None:
    """Count the walks of so many nodes on both sides: inner products of the counts are eq. (5) without λ.

    Two walks meet in the kernel if the same labels stand along them, one by one. Hence a walk is known by its
    last node and the number of its sequence of labels; walks that share both go on together.

    Returns:
        ``None`` where nodes or edges carry floats, or where there are too many walks: then the kernel goes by
        pairs of nodes.
    """
    if is_float(a.x) or is_float(a.edge_attr):
        return None
    both = a if b is None else end_to_end(a, b)
    labels = node_labels(both)
    weight = np.ones(len(both.source)) if both.edge_weight is None else both.edge_weight
    types = edge_codes(both)
    order = np.argsort(both.source, kind="stable")
    target, types, weight = both.target[order], types[order], weight[order]
    leaving = np.bincount(both.source, minlength=len(labels))
    first_edge = bounds_of(leaving)[:-1]
    graph = np.repeat(np.arange(len(both)), both.sizes)

    node: np.ndarray = np.arange(len(labels))
    sequence = labels
    times: np.ndarray = np.ones(len(labels))
    counts = []
    for length in range(1, max(lengths) + 1):
        if length > 1:
            branches = leaving[node]
            if branches.sum() > _MOST:
                return None
            edge = places_of(first_edge[node], bounds_of(branches))
            before = np.repeat(np.arange(len(node)), branches)
            node, times = target[edge], times[before] * weight[edge]
            sequence = row_numbers([sequence[before], types[edge], labels[node]], len(node))
            place, places = pd.factorize(node * (sequence.max(initial=0) + 1) + sequence)
            node, sequence = np.divmod(places, sequence.max(initial=0) + 1)
            times = np.bincount(place, times, minlength=len(places))
        if length in lengths:
            matrix = count_matrix(graph[node], sequence, len(both), int(sequence.max(initial=-1)) + 1, times)
            counts.append(count_sides(matrix, None if b is None else len(a)))
    second = tuple(theirs for _, theirs in counts if theirs is not None)
    return WalkSide(tuple(mine for mine, _ in counts)), WalkSide(second) if b is not None else None
