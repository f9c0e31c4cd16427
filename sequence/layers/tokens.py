"""Token ids."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import holds_integers


def check_tokens(name: str, tokens: Tensor, ptr: Tensor | None, num_tokens: int) -> Tensor:
    """Token ids as embeddings take them.

    Refuses what is neither ``[N]`` with a ``ptr`` nor ``[B, T]`` without one, and ids that are no integers;
    on a CPU also a ``ptr`` that does not end at N, and ids outside [0, num_tokens): elsewhere it would wait.
    """
    if tokens.dim() != (2 if ptr is None else 1):
        raise ValueError(
            f"{name} needs tokens of shape [B, T], or [N] with ptr, got {list(tokens.shape)} "
            f"{'without' if ptr is None else 'with'} ptr"
        )
    # Elsewhere reading ptr waits, and the encoder will look at it anyway.
    if ptr is not None and ptr.is_cpu and (end := Steps(ptr).num_tokens) != tokens.numel():
        raise ValueError(f"{name}: ptr ends at {end}, there are {tokens.numel()} tokens")
    if not holds_integers(tokens):
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    tokens = tokens.long()
    if not tokens.is_cpu or not tokens.numel() or torch.compiler.is_compiling():
        return tokens
    low, high = tokens.aminmax()
    if low < 0 or high >= num_tokens:
        raise IndexError(
            f"tokens have ids {int(low)} … {int(high)}, expected 0 … {num_tokens - 1} "
            f"(num_tokens={num_tokens})"
        )
    return tokens
