"""Strings as path graphs: the one layout of every sequence model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.datasets import sorted_edge_index


def path_graph(strings: Sequence[Tensor]) -> Data:
    r"""A batch of strings as one graph of paths: nodes are tokens, edges go from t to t + 1 inside a string.

    Args:
        strings: Token features ``[T_i, d]`` or token ids ``[T_i]`` of each string; empty strings are fine.

    Returns:
        ``x`` (all strings end to end), ``edge_index [2, E]`` (an ``EdgeIndex`` sorted by target),
        ``ptr [B+1]`` and ``batch [ΣT]``.

    Raises:
        ValueError: No strings, or strings of different widths.
    """
    if not strings:
        raise ValueError("expected at least one string, got none")
    for i, string in enumerate(strings):
        if string.shape[1:] != strings[0].shape[1:]:
            raise ValueError(
                f"string {i} has tokens of shape {list(string.shape[1:])}, "
                f"expected {list(strings[0].shape[1:])} like string 0"
            )
    device = strings[0].device
    lengths = torch.tensor([len(string) for string in strings], device=device)
    ptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    num_tokens = int(ptr[-1])
    first = torch.zeros(num_tokens, dtype=torch.bool, device=device)
    first[ptr[:-1][lengths > 0]] = True
    target = (~first).nonzero().view(-1)
    # Every token but the first of a string is the target of exactly one edge.
    indptr = torch.nn.functional.pad((~first).long().cumsum(0), (1, 0))
    return Data(
        x=torch.cat(list(strings)),
        edge_index=sorted_edge_index(torch.stack([target - 1, target]), indptr),
        ptr=ptr,
        batch=torch.arange(len(strings), device=device).repeat_interleave(lengths),
    )
