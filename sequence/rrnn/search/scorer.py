"""The network that says how good a candidate is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from wlkernelnn.ops.fast_op import FastOp

# Numbers between the two layers that a processor's cache holds.
_PART = 2**18


class Scorer(torch.nn.Module):
    """α, from candidates ``[…, p]`` to scores ``[…]``: two layers with a ReLU between them.

    The last one has no bias: only differences of scores count.
    """

    def __init__(self, channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, hidden_channels)
        self.out = torch.nn.Linear(hidden_channels, 1, bias=False)

    def forward(self, candidates: Tensor) -> Tensor:
        rows = candidates.reshape(-1, candidates.size(-1))
        in_parts = rows.is_cpu and not torch.is_autocast_enabled("cpu")
        (scores,) = (_score if in_parts else _plain)(rows, self.lin.weight, self.lin.bias, self.out.weight)
        return scores.view(candidates.shape[:-1]).to(candidates.dtype)


def _plain(rows: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> tuple[Tensor]:
    """Scores ``[N, 1]`` of candidates ``[N, p]``."""
    return (torch.relu(linear(rows, weight, bias)) @ out.t(),)


def _forward(rows: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> tuple[tuple[Tensor], tuple[()]]:
    """Some rows after others: what is between the layers is wider than the candidates themselves, and made
    once more for the gradients, where there are any, instead of being written to memory.
    """
    parts = [torch.relu_(linear(part, weight, bias)) @ out.t() for part in _parts(rows, len(weight))]
    return (torch.cat(parts),), ()


def _backward(
    values: Sequence[Tensor], kept: Any, needed: Sequence[bool], grads: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    rows, weight, bias, out = values
    (grad,) = grads
    of_weight, of_bias, of_out = (torch.zeros_like(parameter) for parameter in (weight, bias, out))
    of_rows = torch.zeros_like(rows) if needed[0] else None
    for some in _parts(_with_gradient(grad), len(weight)):
        part, of_part = rows[some], grad[some]
        hidden = torch.relu_(linear(part, weight, bias))
        of_out += of_part.t() @ hidden
        of_hidden = torch.ops.aten.threshold_backward(of_part * out, hidden, 0)
        of_weight += of_hidden.t() @ part
        of_bias += of_hidden.sum(0)
        if of_rows is not None:
            of_rows[some] = linear(of_hidden, weight.t())
    return of_rows, of_weight, of_bias, of_out


_score = FastOp(_plain, _forward, _backward)


def _with_gradient(grad: Tensor) -> Tensor:
    """Which rows count. Of a hard choice only the best candidate and the runner-up have gradients; those of a
    softmax may be so small that products with them are no normal numbers, with which processors are slow.
    """
    info = torch.finfo(grad.dtype)
    none = grad[:, 0].abs() <= min(info.tiny / info.eps, 1e-30)  # of half precision all that are not 0 count
    return none.logical_not_().nonzero()[:, 0]  # NaN counts


def _parts(rows: Tensor, width: int) -> tuple[Tensor, ...]:
    return rows.split(max(1, _PART // width))
