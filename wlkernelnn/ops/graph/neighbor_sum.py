"""Sum the states of neighbours without writing a row per edge."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import transformed

from .edges import SortedEdges
from .message_sum import message_sum
from .segments import bag_sum


class _UndirectedSum(torch.autograd.Function):
    """Gather and sum by target, forwards and backwards: a product with a symmetric matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Tensor, indptr: Tensor) -> Tensor:
        ctx.save_for_backward(source, indptr)
        return bag_sum(x, source, indptr)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _UndirectedSum.apply(grad.contiguous(), *ctx.saved_tensors), None, None


class _NeighborSum(torch.autograd.Function):
    """Gather and sum by target forwards, by source backwards: a sparse product and its transpose."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        source: Tensor,
        indptr: Tensor,
        weight: Tensor | None,
        target: Tensor,
        transposed_indptr: Tensor,
        transposed_weight: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(source, indptr, weight, target, transposed_indptr, transposed_weight)
        return bag_sum(x, source, indptr, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        source, indptr, weight, target, transposed_indptr, transposed_weight = ctx.saved_tensors
        grad_x = _NeighborSum.apply(
            grad.contiguous(), target, transposed_indptr, transposed_weight, source, indptr, weight
        )
        return (grad_x, *[None] * 6)


def _scale(x: Tensor, weight: Tensor | None = None) -> Tensor:
    return x if weight is None else weight * x


def neighbor_sum(x: Tensor, edges: SortedEdges, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{(u,v)} w_{uv} \, x_u`.

    A bag of rows is gathered and summed at once, forwards by target and backwards by source: nothing of size
    ``[E, d]`` is written and nothing needs atomics. Weights that want gradients, and transforms of
    ``torch.func``, go through :func:`message_sum`. Of a graph that is known to be undirected, both directions
    are the same sum, and nothing has to be sorted.

    Args:
        x: ``[num_sources, d]``.
        edges: Edges sorted by target.
        weight: ``[E]``, in the order of ``edges``; taken in the type of x (which autocast may have changed).

    Returns:
        ``[num_targets, d]``.
    """
    if weight is not None:
        weight = weight.to(x.dtype)
    learned = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    if learned or transformed():
        edge = {} if weight is None else {"weight": weight.unsqueeze(-1)}
        return message_sum(_scale, edges, source={"x": x}, edge=edge)
    if not (x.requires_grad and torch.is_grad_enabled()):
        return bag_sum(x, edges.source, edges.indptr, weight)
    if edges.is_undirected and weight is None:
        return _UndirectedSum.apply(x, edges.source, edges.indptr)
    target, indptr, order = edges.transposed()
    transposed_weight = None if weight is None else weight.index_select(0, order)
    return _NeighborSum.apply(x, edges.source, edges.indptr, weight, target, indptr, transposed_weight)
