"""Every token with the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from wlkernelnn.ops.fast_op import FastOp

from .equations import by_step
from .levels import Levels
from .steps import Steps


def windows(x: Tensor, steps: Steps, size: int, dilation: int = 1, before: Tensor | None = None) -> Tensor:
    r""":math:`[x_t, x_{t-s}, …, x_{t-(n-1)s}]` of every token, inside its string.

    On :class:`Levels` the sum over all walks of js edges to a node is in the place of :math:`x_{t-js}`, each
    walk times the weights of its edges.

    Args:
        x: ``[N, m]`` in step order.
        steps: The strings.
        size: n.
        dilation: s.
        before: The tokens before each string, ``[(n − 1) s, B, m]`` in the order of a step; default 0.

    Returns:
        ``[N, n · m]`` in step order.
    """
    reach = (size - 1) * dilation
    if not reach:
        return x
    if isinstance(steps, Levels):
        return torch.cat(_walked(x, steps, reach, before)[::dilation], 1)[steps.num_strings :]
    extended = _extended(x, steps, reach, before)
    if steps.equal:
        length = len(steps.counts)
        rows = extended.view(reach + length, steps.num_strings, x.size(1))
        lagging = [rows[lag : lag + length] for lag in range(reach, -1, -dilation)]
        return torch.cat(lagging, dim=2).flatten(0, 1)
    starts = _starts(steps, reach)
    lags = torch.arange(size, device=x.device) * dilation
    places = starts[steps.step.unsqueeze(1) + reach - lags] + steps.string.unsqueeze(1)
    return extended.index_select(0, places.view(-1)).view(steps.num_tokens, size * x.size(1))


def last_tokens(x: Tensor, steps: Steps, reach: int, before: Tensor | None = None) -> Tensor:
    """The last tokens of every string and of those before it, which the next ones will look at.

    Their number is ``reach``: ``[reach, B, m]`` in the order of a step. See :func:`windows` for the others.
    """
    if not reach:
        return x.new_zeros(0, steps.num_strings, x.size(1))
    if isinstance(steps, Levels):
        return torch.stack([steps.last(lag) for lag in reversed(_walked(x, steps, reach, before)[:reach])])
    extended = _extended(x, steps, reach, before)
    if steps.equal:
        return extended[steps.num_tokens :].view(reach, steps.num_strings, x.size(1)).clone()
    starts = _starts(steps, reach)
    strings = torch.arange(steps.num_strings, device=x.device)
    last = starts[steps.lengths + torch.arange(reach, device=x.device).unsqueeze(1)] + strings
    return extended.index_select(0, last.view(-1)).view(reach, steps.num_strings, x.size(1))


def _extended(x: Tensor, steps: Steps, reach: int, before: Tensor | None) -> Tensor:
    if before is None:
        before = x.new_zeros(reach, steps.num_strings, x.size(1))
    return torch.cat([before.reshape(-1, x.size(1)), x])


def _walked(x: Tensor, levels: Levels, reach: int, before: Tensor | None) -> list[Tensor]:
    """x of every node and its sums over walks of 1 … ``reach`` edges, behind those of the graphs' states."""
    states = [None] * (reach + 1) if before is None else [*before.flip(0).unbind(), None]
    return [*by_step(lambda lags, t, _: [x[t], *lags[:-1]], levels, states, x)]


def _starts(steps: Steps, reach: int) -> Tensor:
    """Where each step begins behind so many before the first, which are as any others, of all strings."""
    ahead = torch.arange(reach, device=steps.ptr.device) * steps.num_strings
    return torch.cat([ahead[:-1], ahead[-1] + steps.starts])


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
        before: The tokens before each string, ``[(n − 1) s, B, k]`` in the order of a step; default 0.

    Returns:
        ``[N, k]`` in step order.
    """
    if not steps.num_tokens:
        return x
    length, size = len(steps.counts), (steps.num_strings, x.size(1))
    if isinstance(steps, Levels):
        seen = windows(x, steps, filters.size(1), dilation, before)
        return (seen.view(len(x), filters.size(1), -1) * filters.t().flip(0)).sum(1)
    if before is None:
        before = x.new_zeros((filters.size(1) - 1) * dilation, *size)
    place = None
    if not steps.equal:
        place = steps.step * steps.num_strings + steps.string
        x = x.new_zeros(length * size[0], size[1]).index_copy(0, place, x)
    rows = torch.cat([before, x.view(length, *size)]).permute(1, 2, 0).contiguous()
    with torch.autocast(x.device.type, enabled=False):  # sums of many values, as states are
        (out,) = _filtered(rows, filters, dilation)
    out = out.permute(2, 0, 1).reshape(-1, size[1])
    return out if place is None else out.index_select(0, place)


def _correlate(x: Tensor, filters: Tensor, dilation: int) -> tuple[Tensor]:
    return (conv1d(x, filters.unsqueeze(1), dilation=dilation, groups=len(filters)),)


def _correlate_back(
    values: Sequence[Any], kept: Any, needed: Sequence[bool], grads: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None, None]:
    x, filters, dilation = values
    (grad,) = grads
    grad_x = grad_filters = None
    if needed[0]:
        reach = (filters.size(1) - 1) * dilation
        (grad_x,) = _correlate(pad(grad, (reach, reach)), filters.flip(1), dilation)
    if needed[1]:
        # Every row of the gradient is a filter of its row of x.
        rows, as_filters = x.reshape(1, -1, x.size(2)), grad.reshape(-1, 1, grad.size(2))
        products = conv1d(rows, as_filters, stride=dilation, groups=rows.size(1))
        grad_filters = products.view(len(x), *filters.shape).sum(0)
    return grad_x, grad_filters, None


# Correlation of ``[B, k, T]`` along T. Its gradients are such too: PyTorch's own are far slower.
_filtered = FastOp(_correlate, None, _correlate_back)
