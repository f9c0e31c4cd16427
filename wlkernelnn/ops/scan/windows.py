"""Every token with the tokens before it."""

from __future__ import annotations

import torch
from torch import Tensor

from .steps import Steps


def windows(x: Tensor, steps: Steps, size: int, dilation: int = 1, before: Tensor | None = None) -> Tensor:
    r""":math:`[x_t, x_{t-s}, …, x_{t-(n-1)s}]` of every token, inside its string.

    Args:
        x: ``[N, m]`` in step order.
        steps: The strings.
        size: n.
        dilation: s.
        before: The (n − 1) s tokens before each string, ``[(n − 1) s, B, m]`` in the order of a step; default
            0.

    Returns:
        ``[N, n · m]`` in step order.
    """
    reach = (size - 1) * dilation
    if not reach:
        return x
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
    """The last tokens of every string, or of those before it and these: what the next ones will look at.

    Args:
        x, steps, before: As of :func:`windows`.
        reach: How many.

    Returns:
        ``[reach, B, m]`` in the order of a step.
    """
    if not reach:
        return x.new_zeros(0, steps.num_strings, x.size(1))
    extended = _extended(x, steps, reach, before)
    if steps.equal:
        return extended[steps.num_tokens :].view(reach, steps.num_strings, x.size(1)).clone()
    starts = _starts(steps, reach)
    strings = torch.arange(steps.num_strings, device=x.device)
    last = starts[steps.lengths + torch.arange(reach, device=x.device).unsqueeze(1)] + strings
    return extended.index_select(0, last.view(-1)).view(reach, steps.num_strings, x.size(1))


def _extended(x: Tensor, steps: Steps, reach: int, before: Tensor | None) -> Tensor:
    """Tokens behind those before them."""
    if before is None:
        before = x.new_zeros(reach, steps.num_strings, x.size(1))
    return torch.cat([before.reshape(-1, x.size(1)), x])


def _starts(steps: Steps, reach: int) -> Tensor:
    """Where each step begins behind so many before the first, which are as any others, of all strings."""
    ahead = torch.arange(reach, device=steps.ptr.device) * steps.num_strings
    return torch.cat([ahead[:-1], ahead[-1] + steps.starts])
