"""Locked (variational) dropout: one mask a string, the same at all its tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.ops.string.steps import Pointers


def locked_mask(num_strings: int, width: int, dropout: float, like: Tensor) -> Tensor:
    """A mask for each string, ``[B, width]``: 0 with probability ``dropout``, else 1 / (1 − dropout)."""
    return torch.nn.functional.dropout(like.new_ones(num_strings, 1).expand(-1, width), dropout)


def locked_dropout(x: Tensor, ptr: Pointers | None, dropout: float) -> Tensor:
    """Drop the same values of all tokens of a string (Gal & Ghahramani 2016).

    Strings are end to end, ``x [N, d]`` with ``ptr [B+1]``; or ``x [B, T, d]`` without.
    """
    if ptr is None:
        return x * locked_mask(x.size(0), x.size(2), dropout, x).unsqueeze(1)
    lengths = torch.as_tensor(ptr, device=x.device).long().diff()
    mask = locked_mask(len(lengths), x.size(1), dropout, x)
    return x * mask.repeat_interleave(lengths, 0, output_size=x.size(0))
