"""Token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from wlkernelnn.datasets.graphs.arrays import readable
from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.string import Steps
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.utils.checks import holds_integers

# Token ids ``[N]`` or ``[B, T]``.
Tokens = Tensor | np.ndarray | Sequence[Any]


def check_tokens(name: str, tokens: Tokens, ptr: Pointers | None, embedding: torch.nn.Embedding) -> Tensor:
    """Token ids as embeddings take them: an int64 tensor, of any integers in a tensor, an array or lists.

    Whether ``ptr`` ends at N and ids are rows of the embeddings is checked on a CPU only: elsewhere it would
    wait.
    """
    if isinstance(tokens, PackedSequence):
        raise TypeError(f"{name} reads no PackedSequence: path_graph makes a Data of it")
    if not isinstance(tokens, Tensor):
        tokens = torch.as_tensor(readable(tokens), device=embedding.weight.device)
    if tokens.dim() != (2 if ptr is None else 1):
        raise ValueError(
            f"{name} needs tokens of shape [B, T], or [N] with ptr, got {list(tokens.shape)} "
            f"{'without' if ptr is None else 'with'} ptr"
        )
    if not tokens.numel():
        tokens = tokens.long()  # of empty strings nothing tells the type
    if not holds_integers(tokens):
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    # Elsewhere reading ptr waits, and the encoder will look at it anyway.
    if ptr is not None and tokens.is_cpu:
        Steps.of(tokens, ptr, name)
    tokens = tokens.long()
    if not tokens.is_cpu or not tokens.numel() or traced(tokens):
        return tokens
    (low, high), num_tokens = tokens.aminmax(), embedding.num_embeddings
    if low < 0 or high >= num_tokens:
        raise IndexError(
            f"tokens have ids {int(low)} … {int(high)}, expected 0 … {num_tokens - 1} "
            f"(num_tokens={num_tokens})"
        )
    return tokens
