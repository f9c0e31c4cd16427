"""Sums over consecutive rows, and over bags of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import traced

try:
    from torch_scatter import segment_csr
except ImportError:  # optional: the same results come from torch alone
    segment_csr = None


def bag_sum(x: Tensor, index: Tensor, indptr: Tensor, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_i = \sum_{k=p_i}^{p_{i+1}-1} w_k \, x_{\mathrm{index}_k}`, without gradients.

    Of x ``[N, d]``, numbers of its rows ``[E]``, bag after bag, and where bags begin, p ``[M + 1]``.
    """
    if x.size(0) == 0:  # embedding_bag refuses an empty table
        return x.new_zeros(indptr.numel() - 1, x.size(1))
    sum_mode = 0
    return torch.embedding_bag(x.detach(), index, indptr, False, sum_mode, False, weight, True)[0]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, indptr: Tensor, segment: Tensor) -> Tensor:
        ctx.save_for_backward(segment)
        rows = torch.arange(values.size(0), device=values.device)
        return bag_sum(values, rows, indptr)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (segment,) = ctx.saved_tensors
        return grad.index_select(0, segment), None, None


def segment_sum(values: Tensor, indptr: Tensor, segment: Tensor) -> Tensor:
    """Sum the rows ``indptr[i]:indptr[i+1]`` of ``values [E, d]`` into row i of ``[M, d]``.

    Args:
        values: ``[E, d]``.
        indptr: ``[M + 1]``.
        segment: ``[E]``, the segment of each row: the same as ``indptr``, written the other way.
    """
    if traced(values):
        return values.new_zeros(indptr.numel() - 1, values.size(1)).index_add(0, segment, values)
    if segment_csr is not None and values.is_cuda:
        return segment_csr(values, indptr, reduce="sum")
    return _SegmentSum.apply(values, indptr, segment)
