"""Products of matrices, as strings take many of them with one weight."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear as linear

# Multiplications from which a product by :func:`multiplier` is faster than a compiled loop.
_SMALL = 2**20


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``grad.t() @ x``, of ``x [N, k]`` and ``grad [N, d]``: the gradient of the weight of a linear map."""
    return grad.t() @ x


def multiplier(weight: Tensor, rows: int) -> Callable[..., Tensor]:
    """``x @ weight.t()``, ``+ plus`` if it is given, for many x ``[about rows, k]``; without gradients."""
    transposed = weight.t()

    def multiplied(x: Tensor, plus: Tensor | None = None) -> Tensor:
        return torch.mm(x, transposed) if plus is None else torch.addmm(plus, x, transposed)

    return multiplied


def smallest_worth_a_call() -> int:
    """Multiplications from which a product by :func:`multiplier` is faster than a compiled loop."""
    return _SMALL
