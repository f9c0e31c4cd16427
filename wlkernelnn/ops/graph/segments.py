"""Sums over consecutive rows."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.fast_op import FastOp

from .neighbor_sum import bag_sum

try:
    from torch_scatter import segment_csr
except ImportError:  # optional: the same results come from torch alone
    segment_csr = None


_segment_sum = FastOp(
    lambda values, indptr, segment: (
        values.new_zeros(indptr.numel() - 1, values.size(1)).index_add(0, segment, values),
    ),
    lambda values, indptr, segment: (
        (bag_sum(values, torch.arange(len(values), device=values.device), indptr),),
        (),
    ),
    lambda values, kept, needed, grads: (grads[0].index_select(0, values[2]), None, None),
)


def segment_sum(values: Tensor, indptr: Tensor, segment: Tensor) -> Tensor:
    """Sum the rows ``indptr[i]:indptr[i+1]`` of ``values [E, d]`` into row i of ``[M, d]``.

    Args:
        values: ``[E, d]``.
        indptr: ``[M + 1]``.
        segment: ``[E]``, the segment of each row: the same as ``indptr``, written the other way.
    """
    if segment_csr is not None and values.is_cuda and not traced(values):
        return segment_csr(values, indptr, reduce="sum")
    return _segment_sum(values, indptr, segment)[0]
