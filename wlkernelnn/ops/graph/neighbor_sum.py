"""Sum the states of neighbours without writing a row per edge."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import counting_writes, traced

from .edges import SortedEdges
from .message_sum import blocked_sum
from .naive import neighbor_sum_naive, weighted
from .segments import bag_sum


class _NeighborSum(torch.autograd.Function):
    """Gather and sum by target forwards, by source backwards: a sparse product and its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: SortedEdges, weight: Tensor | None) -> Tensor:
        ctx.edges, ctx.weight = edges, weight
        ctx.save_for_backward(*counting_writes(edges.source, edges.target, edges.indptr, weight))
        return bag_sum(x, edges.source, edges.indptr, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # asked for, so that autograd notices edges that were written to
        edges, weight = ctx.edges, ctx.weight
        if weight is not None or not edges.is_undirected:
            edges = edges.by_source()
        return neighbor_sum(grad, edges, edges.arrange(weight)), None, None


def neighbor_sum(x: Tensor, edges: SortedEdges, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{(u,v)} w_{uv} \, x_u`: :func:`neighbor_sum_naive`, faster.

    A bag of rows is gathered and summed at once, forwards by target and backwards by source: nothing of size
    ``[E, d]`` is written and nothing needs atomics. In a graph that is known to be undirected, both
    directions are the same sum, and nothing has to be sorted.

    Args:
        x: ``[num_sources, d]``.
        edges: Edges sorted by target.
        weight: ``[E]``, in the order of ``edges``; taken in the type of x (which autocast may have changed).

    Returns:
        ``[num_targets, d]``.
    """

    def naive(x: Tensor, weight: Tensor | None) -> Tensor:
        return neighbor_sum_naive(x, edges.pair, edges.num_targets, weight)

    weight = None if weight is None else weight.to(x.dtype)
    learned = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    if traced(x, weight):
        return naive(x, weight)
    if weight is not None and learned:
        kinds = {"x": "source", "weight": "edge"}
        return blocked_sum(weighted, edges, None, kinds, (x, weight.view(-1, 1)), naive)
    return _NeighborSum.apply(x, edges, weight)
