"""Rows of a table of edge types, read for every edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.fast_op import FastOp

# On a GPU all edges add to the same few rows, one after the other; more rows wait less than a product takes.
FEW_ROWS = 32


def _backward(values: Sequence[Any], kept: Any, needed: Any, grads: Sequence[Tensor]) -> Sequence[Any]:
    (table, index), (grad,) = values, grads
    one_hot = grad.new_zeros(table.size(0), len(index)).scatter_(0, index.unsqueeze(0), 1.0)
    with torch.autocast(grad.device.type, enabled=False):
        return one_hot @ grad, None


_table_rows = FastOp(lambda table, index: (table.index_select(0, index),), None, _backward)


def table_rows(table: Tensor, index: Tensor) -> Tensor:
    r"""Rows of a table, :math:`\mathrm{out}_e = T_{\mathrm{index}_e}`.

    On a GPU the gradient of a table of up to 32 rows is a product of matrices, :math:`\mathrm{onehot}^\top
    \, \mathrm{grad}`, in the precision that torch is set to for products.

    Args:
        table: ``[num_edge_types, K]``.
        index: int64 ``[E]``.

    Returns:
        ``[E, K]``.
    """
    if table.is_cuda and table.size(0) <= FEW_ROWS:
        return _table_rows(table, index)[0]
    return table.index_select(0, index)
