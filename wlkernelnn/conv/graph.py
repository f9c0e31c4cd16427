"""The edges of one forward pass: in the user's order and sorted by target, or between colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse

from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.colours import Quotient
from wlkernelnn.ops.graph import SortedEdges, sort_edges
from wlkernelnn.utils.checks import holds_integers

# Rows of a level whose temporary values stay in a processor's caches.
ROWS = 8192


class EdgeFeatures(NamedTuple):
    """What is known about each edge: any of ``weight [E, 1]``, ``attr [E, edge_dim]``, ``type [E]``."""

    weight: Tensor | None
    attr: Tensor | None
    type: Tensor | None


@dataclass
class Step:
    """The edges along which values of nodes are summed.

    Attributes:
        edge_index, features: In the user's order: what ``propagate`` takes, so that masks and hooks of others
            see it. A plain tensor: an EdgeIndex insists on its own idea of the number of nodes.
        size: Number of source and of target nodes.
        given: The edges as the user gave them: an EdgeIndex may say that it is sorted.
        sorted: Edges and features sorted by target, once they were asked for.
        own: Between colours, int64 ``[C]``: what each colour was one iteration before.
    """

    edge_index: Tensor
    size: tuple[int, int]
    features: EdgeFeatures
    given: Tensor | None = None
    sorted: tuple[SortedEdges, EdgeFeatures] | None = None
    own: Tensor | None = None

    def by_target(self) -> tuple[SortedEdges, EdgeFeatures]:
        """Edges and features sorted by target: what the fast sums take."""
        if self.sorted is None:
            edges = sort_edges(self.edge_index if self.given is None else self.given, *self.size)
            self.sorted = edges, EdgeFeatures(*map(edges.arrange, self.features))
        return self.sorted

    def parts(self, num_rows: int) -> Iterator[tuple[int, Step]]:
        """The edges between colours into ``num_rows`` rows at a time, and the first of these rows."""
        edges, features = self.by_target()
        assert self.own is not None
        for first in range(0, self.size[1], num_rows):
            own = self.own[first : first + num_rows]
            indptr = edges.indptr[first : first + num_rows + 1]
            span = slice(int(indptr[0]), int(indptr[-1]))
            into = SortedEdges(
                edges.source[span], edges.target[span] - first, indptr - indptr[0], edges.num_sources, None
            )
            of_edges = EdgeFeatures(*(None if value is None else value[span] for value in features))
            size = self.size[0], len(own)
            yield first, Step(torch.stack([*into.pair]), size, of_edges, sorted=(into, of_edges), own=own)


@dataclass
class Graph:
    """One graph (or batch of graphs), by its nodes or by its Weisfeiler-Lehman colours.

    Of nodes, every step of a walk, and every relabelling, goes along the same edges between the same rows. Of
    colours, every step goes from the rows of a level to those of the next.

    Attributes:
        steps: From each level to the next; of nodes the one that is every step.
        of_nodes: Of nodes, not of colours.
        first: The level of the quotient that is level 0 here.
    """

    steps: Sequence[Step]
    of_nodes: bool = False
    first: int = 0

    def step(self, level: int) -> Step:
        """The edges of a step from rows of ``level`` to rows of ``level + 1``."""
        if self.of_nodes:
            return self.steps[0]
        if level >= len(self.steps):
            raise ValueError(
                f"the layer needs the colours after {self.first + level + 1} iterations or more, "
                f"the quotient has {self.first + len(self.steps)}"
            )
        return self.steps[level]

    def levels(self, begin: int, end: int | None = None) -> Graph:
        """The graph from rows of level ``begin`` up to those of level ``end``."""
        return self if self.of_nodes else Graph(self.steps[begin:end], first=self.first + begin)

    def lift(self, values: Tensor, low: int, high: int | None = None) -> Tensor:
        """Rows of level ``low`` as rows of level ``high``, by default the last."""
        high = len(self.steps) if high is None else high
        if self.of_nodes or low == high:
            return values
        # One gather, whatever the distance.
        own = self.step(high - 1).own
        assert own is not None
        for step in reversed(self.steps[low : high - 1]):
            assert step.own is not None
            own = step.own.index_select(0, own)
        return values.index_select(0, own)

    def by_rows(self, compute: Callable[[Graph], Tensor]) -> Tensor:
        """``compute(graph)``, rows of the last level.

        Of many colours and one step on a CPU, without gradients, they are computed some at a time: what lies
        between the level before and the result is then never written out whole.

        Args:
            compute: A row of its result depends on the edges into that row alone.
        """
        if self.of_nodes or len(self.steps) != 1 or torch.is_grad_enabled():
            return compute(self)
        (step,) = self.steps
        num_rows = step.size[1]
        if num_rows <= ROWS or not step.edge_index.is_cpu or traced(step.edge_index):
            return compute(self)
        out: Tensor | None = None
        for first, part in step.parts(ROWS):
            rows = compute(Graph([part], first=self.first))
            if out is None:
                out = rows.new_empty(num_rows, rows.size(1))
            out[first : first + len(rows)] = rows
        assert out is not None
        return out


def graph_of_nodes(
    edge_index: Tensor,
    size: tuple[int, int],
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_type: Tensor | None = None,
    num_edge_types: int | None = None,
) -> Graph:
    """A graph, checked; with ``num_edge_types``, edges must have types.

    Raises:
        ValueError: The shapes do not fit together, or a type is wrong.
        IndexError: An edge joins nodes that are not there, or is of an unknown type.
    """
    if is_sparse(edge_index):
        raise ValueError("edge_index must be a dense [2, E] tensor or an EdgeIndex, got a sparse matrix")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or not holds_integers(edge_index):
        raise ValueError(
            f"edge_index must hold integers of shape [2, E], got {edge_index.dtype} "
            f"of shape {list(edge_index.shape)}"
        )
    features = edge_features(edge_index.size(1), edge_weight, edge_attr, edge_type, num_edge_types)
    plain = (edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index).long()
    for side, name, limit in zip(plain, ("source", "target"), size, strict=True):
        _check_range(f"edge_index has {name} nodes", side, limit, f"for {{}} {name} nodes")
    return Graph([Step(plain, size, features, edge_index)], of_nodes=True)


def edge_features(
    num_edges: int,
    edge_weight: Tensor | None,
    edge_attr: Tensor | None,
    edge_type: Tensor | None,
    num_edge_types: int | None,
) -> EdgeFeatures:
    """What is known about edges, checked; with ``num_edge_types``, they must have types.

    Raises:
        ValueError: The shapes do not fit together, or a type is wrong.
        IndexError: An edge is of an unknown type.
    """
    values = {"edge_weight": edge_weight, "edge_attr": edge_attr, "edge_type": edge_type}
    for name, value in values.items():
        if value is not None and (value.dim() == 0 or value.size(0) != num_edges):
            raise ValueError(f"{name} has shape {list(value.shape)}, expected one row per edge ({num_edges})")
    if edge_weight is not None:
        if edge_weight.numel() != num_edges:
            raise ValueError(
                f"edge_weight has shape {list(edge_weight.shape)}, expected one number per edge ({num_edges})"
            )
        edge_weight = edge_weight.reshape(-1, 1)
    if num_edge_types is not None:
        if edge_type is None or edge_type.dim() != 1 or not holds_integers(edge_type):
            given = "nothing" if edge_type is None else f"{edge_type.dtype} {list(edge_type.shape)}"
            raise ValueError(
                f"num_edge_types={num_edge_types} needs edge_type: integers of shape [E], got {given}"
            )
        edge_type = edge_type.long()
        _check_range("edge_type has values", edge_type, num_edge_types, "(num_edge_types={})")
    return EdgeFeatures(edge_weight, edge_attr, None if edge_type is None else edge_type.long())


def graph_of_colours(quotient: Quotient, x: Tensor, num_edge_types: int | None) -> Graph:
    """A batch by its colours: level l has a row per colour after l iterations.

    Raises:
        ValueError: ``x`` has not a row per first colour.
        IndexError: An edge is of an unknown type.
    """
    steps, num_sources = [], quotient.first.numel()
    if x.dim() != 2 or x.size(0) != num_sources:
        raise ValueError(f"x must have a row per first colour ({num_sources}), got shape {list(x.shape)}")
    for own, source, target, indptr, edge_type in quotient.levels:
        if num_edge_types is not None:
            _check_range("edge_type has values", edge_type, num_edge_types, "(num_edge_types={})")
        features = EdgeFeatures(None, None, edge_type)
        edges = SortedEdges(source, target, indptr, num_sources, None)
        size = (num_sources, own.numel())
        plain = torch.stack([source, target])
        steps.append(Step(plain, size, features, sorted=(edges, features), own=own))
        num_sources = own.numel()
    return Graph(steps)


def _check_range(what: str, values: Tensor, limit: int, why: str) -> None:
    """Refuse numbers outside [0, limit), by which the fast sums read memory.

    Elsewhere PyTorch's own operations complain.
    """
    if values.is_cpu and values.numel() and not traced(values):
        low, high = values.aminmax()
        if low < 0 or high >= limit:
            raise IndexError(f"{what} {int(low)} … {int(high)}, expected 0 … {limit - 1} {why.format(limit)}")
