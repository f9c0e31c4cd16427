"""The edges of one forward pass: in the user's order and sorted by target, or between colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse

from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.colours import Level, Quotient
from wlkernelnn.ops.graph import SortedEdges, sort_edges
from wlkernelnn.utils.checks import holds_integers


def checked_edge_type(name: str, edge_type: Tensor | None) -> Tensor:
    """The types, if they are a vector of integers."""
    if edge_type is None or edge_type.dim() != 1 or not holds_integers(edge_type):
        given = "nothing" if edge_type is None else f"{edge_type.dtype} {list(edge_type.shape)}"
        raise ValueError(f"{name} needs edge_type: integers of shape [E], got {given}")
    return edge_type


class EdgeFeatures(NamedTuple):
    """What is known about each edge: any of ``weight [E, 1]``, ``attr [E, edge_dim]``, ``type [E]``."""

    weight: Tensor | None
    attr: Tensor | None
    type: Tensor | None


def as_tensor(edge_index: Tensor) -> Tensor:
    """An ``edge_index`` of any kind as a plain tensor."""
    return edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index


class Step:
    """The edges along which values of nodes are summed.

    Attributes:
        edge_index, features: In the user's order: what ``propagate`` takes, so that masks and hooks of others
            see it.
        sorted_edges, sorted_features: Sorted by target: what the fast sums take.
        size: Number of source and of target nodes.
    """

    def __init__(self, edge_index: Tensor, size: tuple[int, int], features: EdgeFeatures) -> None:
        # A plain tensor: an EdgeIndex insists on its own idea of the number of nodes.
        self.edge_index = as_tensor(edge_index).long()
        self.size = size
        self.features = features
        self._given = edge_index
        self._sorted: tuple[SortedEdges, EdgeFeatures] | None = None

    @property
    def sorted_edges(self) -> SortedEdges:
        return self._by_target()[0]

    @property
    def sorted_features(self) -> EdgeFeatures:
        return self._by_target()[1]

    def _by_target(self) -> tuple[SortedEdges, EdgeFeatures]:
        if self._sorted is None:
            edges = sort_edges(self._given, *self.size)
            self._sorted = edges, EdgeFeatures(*map(edges.arrange, self.features))
        return self._sorted


class Graph(Step):
    """One graph (or batch of graphs), checked.

    Every step of a walk, and every relabelling, goes along the same edges between the same nodes. A batch by
    its colours (:class:`QuotientGraph`) has other rows, those of the next level, after each.

    Raises:
        ValueError: The shapes do not fit together, or a type is wrong.
        IndexError: An edge joins nodes that are not there.
    """

    depth = 0

    def __init__(
        self,
        edge_index: Tensor,
        size: tuple[int, int],
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> None:
        if is_sparse(edge_index):
            raise ValueError("edge_index must be a dense [2, E] tensor or an EdgeIndex, got a sparse matrix")
        if edge_index.dim() != 2 or edge_index.size(0) != 2 or not holds_integers(edge_index):
            raise ValueError(
                f"edge_index must hold integers of shape [2, E], got {edge_index.dtype} "
                f"of shape {list(edge_index.shape)}"
            )
        num_edges = edge_index.size(1)
        values = {"edge_weight": edge_weight, "edge_attr": edge_attr, "edge_type": edge_type}
        for name, value in values.items():
            if value is not None and (value.dim() == 0 or value.size(0) != num_edges):
                raise ValueError(
                    f"{name} has shape {list(value.shape)}, expected one row per edge ({num_edges})"
                )
        if edge_weight is not None:
            if edge_weight.numel() != num_edges:
                raise ValueError(
                    f"edge_weight has shape {list(edge_weight.shape)}, expected one number per edge "
                    f"({num_edges})"
                )
            edge_weight = edge_weight.reshape(-1, 1)
        edge_type = None if edge_type is None else edge_type.long()
        super().__init__(edge_index, size, EdgeFeatures(edge_weight, edge_attr, edge_type))
        # The fast sums read memory by these numbers. Elsewhere PyTorch's own operations complain.
        if self.edge_index.is_cpu and not traced(self.edge_index):
            for side, name, limit in zip(self.edge_index, ("source", "target"), size, strict=True):
                expected = f"0 … {limit - 1} for {limit} {name} nodes"
                check_range(f"edge_index has {name} nodes", side, limit, expected)

    def step(self, level: int) -> Step:
        """The edges of a step from rows of ``level`` to rows of ``level + 1``."""
        return self

    def above(self, level: int) -> Graph:
        """The graph as it is seen from rows of ``level``."""
        return self

    def below(self, level: int) -> Graph:
        """The graph up to rows of ``level``."""
        return self

    def lift(self, values: Tensor, low: int, high: int) -> Tensor:
        """Rows of level ``low`` as rows of level ``high``."""
        return values


def check_range(what: str, values: Tensor, limit: int, expected: str) -> None:
    """Refuse numbers outside [0, limit)."""
    if values.numel():
        low, high = values.aminmax()
        if low < 0 or high >= limit:
            raise IndexError(f"{what} {int(low)} … {int(high)}, expected {expected}")


class QuotientStep(Step):
    """The edges from the colours of one iteration to those of the next.

    Attributes:
        own: int64 ``[C]``: what each colour was one iteration before.
    """

    def __init__(self, level: Level, num_sources: int) -> None:
        edges = SortedEdges(level.source, level.target, level.indptr, num_sources, None)
        size = (num_sources, level.own.numel())
        super().__init__(torch.stack(edges.pair), size, EdgeFeatures(None, None, level.edge_type))
        self._sorted = edges, self.features
        self.own = level.own


class QuotientGraph:
    """A batch by its Weisfeiler-Lehman colours: a :class:`Graph` with rows of its own at every level."""

    def __init__(self, steps: Sequence[QuotientStep], first: int = 0) -> None:
        self.steps = steps
        self.first = first  # the level of the quotient that is level 0 here

    @classmethod
    def of(cls, quotient: Quotient) -> QuotientGraph:
        sizes = [quotient.first.numel(), *(level.own.numel() for level in quotient.levels)]
        return cls([QuotientStep(level, size) for level, size in zip(quotient.levels, sizes, strict=False)])

    @property
    def depth(self) -> int:
        return len(self.steps)

    def step(self, level: int) -> QuotientStep:
        if level >= self.depth:
            raise ValueError(
                f"the layer needs the colours after {self.first + level + 1} iterations, "
                f"the quotient has {self.first + self.depth}"
            )
        return self.steps[level]

    def above(self, level: int) -> QuotientGraph:
        return QuotientGraph(self.steps[level:], self.first + level)

    def below(self, level: int) -> QuotientGraph:
        return QuotientGraph(self.steps[:level], self.first)

    def lift(self, values: Tensor, low: int, high: int) -> Tensor:
        if low == high:
            return values
        # One gather, whatever the distance.
        own = self.step(high - 1).own
        for level in range(high - 2, low - 1, -1):
            own = self.steps[level].own.index_select(0, own)
        return values.index_select(0, own)
