"""Directed acyclic graphs in the order of their levels, as strings are read in the order of their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops.autograd import to_numpy

from .steps import Steps, inverse


class Level(NamedTuple):
    """Nodes that are computed at once, and how they see what was before.

    Attributes:
        tokens: Where they stand in step order.
        graphs: The graph of each, ``[V]``.
        source, target: Edges: from rows of what is remembered, to the nodes of this level.
        weight: Of the edges, ``[E, 1]``, or ``None`` for 1.
        kept: Rows of what is remembered and of this level's nodes, behind each other, that later levels see.
    """

    tokens: slice
    graphs: Tensor
    source: Tensor
    target: Tensor
    weight: Tensor | None
    kept: Tensor


class Levels(Steps):
    r"""The nodes of directed acyclic graphs by topological generations, in the place of the :class:`Steps` of
    strings.

    A node sees the sum of its predecessors, each times the weight of its edge: what strings carry from
    token to token goes along the edges,

    .. math::
        c[v] = \mathrm{step}\Big(\sum_{u \to v} w_{uv} \, c[u],\; x_v\Big).

    A path with weights 1 is a string. The state of a graph enters where no edge does, and the state after it
    is the sum over the nodes that no edge leaves (of a tree towards its root: the root's).

    Args:
        edges: ``[2, E]`` from sources to targets.
        graph: The graph of every node, ``[N]``, in 0 … ``num_graphs`` − 1.
        num_graphs: How many there are.
        weight: ``[E]``; default 1.
        device: Where rows are kept.

    Attributes:
        counts: Nodes of every level.

    Raises:
        ValueError: There is a cycle: names its nodes.
    """

    def __init__(
        self,
        edges: np.ndarray,
        graph: np.ndarray,
        num_graphs: int,
        weight: Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        level = levels_of(edges, len(graph))
        order = np.argsort(level, kind="stable")
        self.num_strings, self.num_tokens = num_graphs, len(graph)
        self.counts = np.bincount(level).tolist() if len(level) else []
        self.equal = False

        def rows(numbers: np.ndarray) -> Tensor:
            return torch.as_tensor(numbers, dtype=torch.long, device=device)

        self._edges = edges, graph, weight, device
        self._place = rows(order)
        self._place_back = inverse(self._place)
        self.string = rows(graph[order])
        self._by_length = self._by_number = torch.arange(num_graphs, device=device)
        self._ends = rows(np.flatnonzero(np.bincount(edges[0], minlength=len(graph))[order] == 0))
        self._empty = rows(np.flatnonzero(np.bincount(graph, minlength=num_graphs) == 0))
        self._levels = [
            Level(tokens, self.string[tokens], rows(source), rows(target), of_edges, rows(kept))
            for tokens, source, target, of_edges, kept in _parts(
                edges, level, order, graph, num_graphs, None if weight is None else weight.view(-1, 1)
            )
        ]

    @cached_property
    def opposite(self) -> Levels:
        """The same graphs with all edges the other way round."""
        edges, graph, weight, device = self._edges
        turned = Levels(edges[::-1], graph, self.num_strings, weight, device)
        turned.opposite = self
        return turned

    def reverse(self, x: Tensor) -> Tensor:
        """Nodes ``[N, …]`` in step order, from the order of these levels to that of the opposite ones."""
        return self.opposite.enter(self.leave(x))

    @cached_property
    def inflow(self) -> np.ndarray:
        """How much every node sees: the sum of its edges' weights without their signs, ``[N]``."""
        edges, graph, weight, _ = self._edges
        sizes = None if weight is None else to_numpy(weight.abs().view(-1).double())
        return np.bincount(edges[1], sizes, minlength=len(graph))

    def last(self, extended: Tensor) -> Tensor:
        after = extended.new_zeros(self.num_strings, extended.size(1))
        after = after.index_add(0, self.string[self._ends], extended[self.num_strings + self._ends])
        return after.index_add(0, self._empty, extended[self._empty])

    def run(
        self,
        step: Callable[[Sequence[Tensor], slice, Tensor], Sequence[Tensor]],
        states: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        """What nodes carry ``[B + N, d]``, in step order, behind the ``states [B, d]`` of their graphs."""
        rows = [states]
        remembered = list(states)
        for level in self._levels:
            before = [_sums(value, level) for value in remembered]
            now = step(before, level.tokens, level.graphs)
            remembered = [
                torch.cat(both).index_select(0, level.kept) for both in zip(remembered, now, strict=True)
            ]
            rows.append(now)
        return tuple(torch.cat(values) for values in zip(*rows, strict=True))


def _sums(remembered: Tensor, level: Level) -> Tensor:
    """The sum over each node's predecessors, ``[V, d]``."""
    sent = remembered.index_select(0, level.source)
    if level.weight is not None:
        sent = sent * level.weight.to(sent.dtype)
    return sent.new_zeros(len(level.graphs), sent.size(1)).index_add(0, level.target, sent)


def _parts(
    edges: np.ndarray,
    level: np.ndarray,
    order: np.ndarray,
    graph: np.ndarray,
    num_graphs: int,
    weight: Tensor | None,
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, Tensor | None, np.ndarray]]:
    """The levels with the numbers of their rows; see :class:`Level`."""
    num_nodes = len(level)
    place = np.empty(num_nodes, dtype=np.int64)
    place[order] = np.arange(num_nodes)
    begins = np.concatenate([[0], np.cumsum(np.bincount(level, minlength=1))])
    last_use = np.full(num_nodes, -1)
    np.maximum.at(last_use, place[edges[0]], level[edges[1]])
    by_level = np.argsort(level[edges[1]], kind="stable")
    edge_begins = np.searchsorted(level[edges[1]][by_level], np.arange(len(begins)))
    row_of = np.empty(num_nodes, dtype=np.int64)  # of a node, among what is remembered
    remembered = np.empty(0, dtype=np.int64)
    for k in range(len(begins) - 1 if num_nodes else 0):
        tokens = slice(int(begins[k]), int(begins[k + 1]))
        some = by_level[edge_begins[k] : edge_begins[k + 1]]
        if k == 0:  # the state of a graph enters where no edge does
            source, target = graph[order[tokens]], np.arange(tokens.stop)
        else:
            row_of[remembered] = np.arange(len(remembered))
            source, target = row_of[place[edges[0][some]]], place[edges[1][some]] - tokens.start
        of_edges = weight[torch.from_numpy(some)] if weight is not None and k else None
        candidates = np.arange(tokens.start, tokens.stop)
        stays = remembered if k else np.full(num_graphs, -1)
        both = np.concatenate([stays, candidates])
        kept = np.flatnonzero((both >= 0) & (last_use[np.maximum(both, 0)] > k))
        remembered = both[kept]
        yield tokens, source, target, of_edges, kept


def levels_of(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """The level of every node, the length of the longest path that ends there, ``[N]``.

    Raises:
        ValueError: There is a cycle: names its nodes.
    """
    source, target = edges
    by_source = np.argsort(source, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=num_nodes))])
    missing = np.bincount(target, minlength=num_nodes)
    level = np.full(num_nodes, -1)
    ready, k = np.flatnonzero(missing == 0), 0
    while len(ready):
        level[ready] = k
        counts = begins[ready + 1] - begins[ready]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        reached = target[by_source[np.repeat(begins[ready], counts) + within]]
        np.subtract.at(missing, reached, 1)
        reached = np.unique(reached)
        ready, k = reached[missing[reached] == 0], k + 1
    if (level < 0).any():
        shown = " → ".join(map(str, cycle_among(edges, level < 0)))
        raise ValueError(f"nodes {shown} are a cycle")
    return level


def cycle_among(edges: np.ndarray, left: np.ndarray) -> list[int]:
    """A cycle, its first node again at its end, of nodes that all have a predecessor that is left too."""
    inside = left[edges[0]] & left[edges[1]]
    before = dict(zip(edges[1][inside].tolist(), edges[0][inside].tolist(), strict=True))
    walk = [int(np.flatnonzero(left)[0])]
    while walk[-1] not in walk[:-1]:
        walk.append(before[walk[-1]])
    return walk[walk.index(walk[-1]) :][::-1]
