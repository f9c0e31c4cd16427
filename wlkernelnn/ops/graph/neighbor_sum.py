"""Sum the states of neighbours without writing a row per edge, and sum messages of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.fast_op import FastOp

from .edges import SortedEdges
from .naive import message_sum_naive, neighbor_sum_naive


def message_sum(message: Callable[..., Tensor], edges: SortedEdges, **values: Any) -> Tensor:
    """:func:`message_sum_naive` of sorted edges, in whose order values and types of edges are."""
    return message_sum_naive(message, edges.pair, edges.num_targets, **values)


def bag_sum(x: Tensor, index: Tensor, indptr: Tensor, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_i = \sum_{k=p_i}^{p_{i+1}-1} w_k \, x_{\mathrm{index}_k}`, without gradients.

    Of x ``[N, d]``, numbers of its rows ``[E]``, bag after bag, and where bags begin, p ``[M + 1]``.
    """
    if x.size(0) == 0:  # embedding_bag refuses an empty table
        return x.new_zeros(indptr.numel() - 1, x.size(1))
    sum_mode = 0
    return torch.embedding_bag(x.detach(), index, indptr, False, sum_mode, False, weight, True)[0]


def _backward(values: Sequence[Any], kept: Any, needed: Any, grads: Sequence[Tensor]) -> Sequence[Any]:
    _, edges, weight = values
    if weight is not None or not edges.is_undirected:
        edges = edges.by_source()
    return bag_sum(grads[0], edges.source, edges.indptr, edges.arrange(weight)), None, None


# Gather and sum by target forwards, by source backwards: a sparse product and its transpose.
_neighbor_sum = FastOp(
    lambda x, edges, weight: (neighbor_sum_naive(x, edges.pair, edges.num_targets, weight),),
    lambda x, edges, weight: (
        (bag_sum(x, edges.source, edges.indptr, weight),),
        (edges.source, edges.target, edges.indptr),
    ),
    _backward,
)


def neighbor_sum(x: Tensor, edges: SortedEdges, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{(u,v)} w_{uv} \, x_u`: :func:`neighbor_sum_naive`, faster.

    Rows are gathered and summed at once, forwards by target and backwards by source: nothing of size
    ``[E, d]`` is written, unless weights are trained. Undirected edges need no sorting for the second.

    Args:
        x: ``[num_sources, d]``.
        edges: Edges sorted by target.
        weight: ``[E]``, in the order of ``edges``; taken in the type of x (which autocast may have changed).

    Returns:
        ``[num_targets, d]``.
    """
    weight = None if weight is None else weight.to(x.dtype)
    if weight is not None and weight.requires_grad and torch.is_grad_enabled():
        return neighbor_sum_naive(x, edges.pair, edges.num_targets, weight)
    return _neighbor_sum(x, edges, weight)[0]
