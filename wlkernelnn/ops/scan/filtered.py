"""Long filters along strings, one for each channel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from wlkernelnn.ops.differentiable import transformed

from .steps import Steps


def filtered(
    x: Tensor, filters: Tensor, steps: Steps, dilation: int = 1, before: Tensor | None = None
) -> Tensor:
    r""":math:`y_t = \sum_{j=0}^{n-1} w_{n-1-j} \odot x_{t-js}` of every token, inside its string.

    Strings of several lengths are padded to the longest.

    Args:
        x: ``[N, k]`` in step order.
        filters: w, ``[k, n]`` in the order of time: the last value is that of the token itself.
        steps: The strings.
        dilation: s.
        before: The (n − 1) s tokens before each string, ``[(n − 1) s, B, k]`` in the order of a step; default
            0.

    Returns:
        ``[N, k]`` in step order.
    """
    if not steps.num_tokens:
        return x
    length, size = len(steps.counts), (steps.num_strings, x.size(1))
    if before is None:
        before = x.new_zeros((filters.size(1) - 1) * dilation, *size)
    place = None
    if not steps.equal:
        place = steps.step * steps.num_strings + steps.string
        x = x.new_zeros(length * size[0], size[1]).index_copy(0, place, x)
    rows = torch.cat([before, x.view(length, *size)]).permute(1, 2, 0).contiguous()
    with torch.autocast(x.device.type, enabled=False):  # sums of many values, as states are
        if transformed():
            out = conv1d(rows, filters.unsqueeze(1), dilation=dilation, groups=len(filters))
        else:
            out = _Filtered.apply(rows, filters, dilation)
    out = out.permute(2, 0, 1).reshape(-1, size[1])
    return out if place is None else out.index_select(0, place)


class _Filtered(torch.autograd.Function):
    """Correlation of ``[B, k, T]`` along T. Its gradients are too: the library's own are far slower."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, filters: Tensor, dilation: int) -> Tensor:
        ctx.dilation = dilation
        ctx.save_for_backward(x, filters)
        return conv1d(x, filters.unsqueeze(1), dilation=dilation, groups=len(filters))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, filters = ctx.saved_tensors
        grad_x = grad_filters = None
        if ctx.needs_input_grad[0]:
            reach = (filters.size(1) - 1) * ctx.dilation
            turned = filters.flip(1).unsqueeze(1)
            grad_x = conv1d(pad(grad, (reach, reach)), turned, dilation=ctx.dilation, groups=len(filters))
        if ctx.needs_input_grad[1]:
            # Every row of the gradient is a filter of its row of x.
            rows, as_filters = x.reshape(1, -1, x.size(2)), grad.reshape(-1, 1, grad.size(2))
            products = conv1d(rows, as_filters, stride=ctx.dilation, groups=rows.size(1))
            grad_filters = products.view(len(x), *filters.shape).sum(0)
        return grad_x, grad_filters, None
