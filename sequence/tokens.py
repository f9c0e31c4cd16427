"""Token ids."""

from __future__ import annotations

import torch
from torch import Tensor


def check_tokens(tokens: Tensor, num_tokens: int) -> None:
    """Refuse ids that are no integers or, on a CPU (elsewhere it would wait), outside [0, num_tokens)."""
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    if not tokens.is_cpu or not tokens.numel() or torch.compiler.is_compiling():
        return
    low, high = tokens.aminmax()
    if low < 0 or high >= num_tokens:
        raise IndexError(
            f"tokens have ids {int(low)} … {int(high)}, expected 0 … {num_tokens - 1} "
            f"(num_tokens={num_tokens})"
        )
