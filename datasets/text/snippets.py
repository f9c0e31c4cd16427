"""Short stretches of a text, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets.files.arrays import smallest

from .packed_strings import PackedStrings


def draw_snippets(tokens: Tensor, length: int, sizes: Sequence[int], seed: int = 0) -> list[PackedStrings]:
    """Draw snippets of a text for language modelling, of which no two overlap.

    The text is cut every ``length`` tokens, and the pieces are shuffled. Parts are filled in the order of
    ``sizes``: with the same seed, those before the last stay what they are if the last one grows.

    Args:
        tokens: Token ids ``[N]``.
        length: Tokens of a snippet, at least 2.
        sizes: How many snippets each part has.
        seed: Seed of the shuffling.

    Returns:
        The parts. A string has all tokens of its snippet but the last, and ``y [S, length - 1]`` is what
        follows each of them.

    Raises:
        ValueError: ``tokens`` are not ``[N]``, a number is too small, or the text is too short.
    """
    if tokens.dim() != 1:
        raise ValueError(f"tokens must be [N], got shape {list(tokens.shape)}")
    if length < 2:
        raise ValueError(f"length must be at least 2, a token and what follows it, got {length}")
    if min(sizes, default=0) < 1:
        raise ValueError(f"sizes must be at least 1, for at least one part, got {list(sizes)}")
    pieces = tokens[: len(tokens) // length * length].view(-1, length)
    if sum(sizes) > len(pieces):
        raise ValueError(
            f"{sum(sizes):,} snippets of {length} tokens need {sum(sizes) * length:,} tokens, "
            f"got {len(tokens):,}"
        )
    order = np.random.default_rng(seed).permutation(len(pieces))[: sum(sizes)]
    return [_packed(part) for part in pieces[torch.from_numpy(order)].split(list(sizes))]


def _packed(snippets: Tensor) -> PackedStrings:
    read, following = snippets[:, :-1], snippets[:, 1:]
    ptr = torch.arange(len(snippets) + 1) * read.size(1)
    return PackedStrings(smallest(read.flatten().numpy()), ptr, following.long())
