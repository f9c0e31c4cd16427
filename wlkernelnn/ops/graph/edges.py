"""Edges sorted by target: the form in which every sum over neighbours is taken."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import index_sort

from wlkernelnn.ops.autograd import savable, traced


class SortedEdges(NamedTuple):
    """A graph's edges in the order of their targets.

    Attributes:
        source: int64 ``[E]``.
        target: int64 ``[E]``, ascending.
        indptr: int64 ``[num_targets + 1]``: the edges of target v are ``indptr[v]:indptr[v+1]``.
        num_sources: Number of source nodes.
        order: ``[E]`` where each edge stood before it was sorted, ``None`` if the edges were sorted.
        is_undirected: Every edge is there in both directions: sums by source are sums by target.
    """

    source: Tensor
    target: Tensor
    indptr: Tensor
    num_sources: int
    order: Tensor | None
    is_undirected: bool = False

    def arrange(self, values: Tensor | None) -> Tensor | None:
        """Values ``[E, …]`` of the edges as they stood before, in the order of the sorted edges."""
        if values is None or self.order is None:
            return values
        return values.index_select(0, self.order)

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """Sources and targets, for operations with gradients."""
        return savable(self.source), savable(self.target)

    @property
    def num_targets(self) -> int:
        return self.indptr.numel() - 1

    def by_source(self) -> SortedEdges:
        """The edges the other way round, from targets to sources, in the order of the sources."""
        source, order = index_sort(self.source, max_value=self.num_sources)
        target = self.target.index_select(0, order)
        indptr = pointers(source, self.num_sources)
        return SortedEdges(target, source, indptr, self.num_targets, order, self.is_undirected)


def pointers(index: Tensor, size: int) -> Tensor:
    """CSR pointers ``[size + 1]`` of an ascending ``index [E]`` into ``size`` rows."""
    if index.is_cpu and not traced(index):  # ten times as fast there; elsewhere it waits
        return torch.nn.functional.pad(index.bincount(minlength=size).cumsum(0), (1, 0))
    return torch.searchsorted(index, index.new_ones(size + 1).cumsum(0) - 1)


def sort_edges(edge_index: Tensor, num_sources: int, num_targets: int) -> SortedEdges:
    """Sort edges by target; an ``EdgeIndex`` that says it is sorted is taken as it is.

    The pointers that it may keep are not looked at: reversed, by ``flip``, it keeps those of its sources.

    Args:
        edge_index: Integers ``[2, E]``, source above target (PyG's ``source_to_target``).
        num_sources, num_targets: Number of nodes on either side.
    """
    if isinstance(edge_index, EdgeIndex):
        index = edge_index.as_tensor().long()
        if edge_index.is_sorted_by_col:
            indptr = pointers(index[1].contiguous(), num_targets)
            return SortedEdges(index[0], index[1], indptr, num_sources, None, bool(edge_index.is_undirected))
        edge_index = index
    edge_index = edge_index.long()
    target, order = index_sort(edge_index[1], max_value=num_targets)
    source = edge_index[0].index_select(0, order)
    return SortedEdges(source, target, pointers(target, num_targets), num_sources, order)
