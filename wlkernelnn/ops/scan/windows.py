"""Every token with the tokens before it, side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from .steps import Steps


def windows(
    x: Tensor, steps: Steps, size: int, dilation: int = 1, before: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r""":math:`[x_t, x_{t-s}, …, x_{t-(n-1)s}]` of every token, inside its string.

    Args:
        x: ``[N, m]`` in step order.
        steps: The strings.
        size: n.
        dilation: s.
        before: The (n − 1) s tokens before each string, ``[(n − 1) s, B, m]`` in the order of a step; default
            0.

    Returns:
        ``[N, n · m]`` in step order, and the last (n − 1) s tokens of each string, or ``before`` and these.
    """
    reach = (size - 1) * dilation
    if before is None:
        before = x.new_zeros(reach, steps.num_strings, x.size(1))
    if not reach:
        return x, before
    # Steps before the first ones are as any others, of all strings.
    extended = torch.cat([before.reshape(-1, x.size(1)), x])
    ahead = torch.arange(reach, device=x.device) * steps.num_strings
    starts = torch.cat([ahead[:-1], ahead[-1] + steps.starts])
    step = torch.arange(len(steps.counts), device=x.device)
    counts = torch.tensor(steps.counts, device=x.device, dtype=torch.long)
    step = step.repeat_interleave(counts, output_size=steps.num_tokens)
    lags = torch.arange(size, device=x.device) * dilation
    places = starts[step.unsqueeze(1) + reach - lags] + steps.string.unsqueeze(1)
    seen = extended.index_select(0, places.view(-1)).view(steps.num_tokens, size * x.size(1))
    strings = torch.arange(steps.num_strings, device=x.device)
    last = starts[steps.lengths + torch.arange(reach, device=x.device).unsqueeze(1)] + strings
    return seen, extended.index_select(0, last.view(-1)).view(reach, steps.num_strings, x.size(1))
