"""Strings as path graphs: the one layout of every sequence model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence, unpack_sequence
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from wlkernelnn.datasets import sorted_edge_index
from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import holds_integers


def path_graph(
    strings: Sequence[Tensor] | Tensor | PackedSequence, lengths: Tensor | Sequence[int] | None = None
) -> Data:
    r"""A batch of strings as one graph of paths: nodes are tokens, edges go from t to t + 1 inside a string.

    :func:`to_list`, :func:`to_padded` and :func:`to_packed` lead back.

    Args:
        strings: Token features ``[T_i, d]`` or token ids ``[T_i]`` of each string, empty strings too; or all
            of them padded behind their ends, ``[B, T, d]`` or ``[B, T]``; or a ``PackedSequence``.
        lengths: ``[B]``, of padded strings; default T. (Of a mask ``[B, T]`` they are ``mask.sum(1)``.)

    Returns:
        ``x`` (all strings end to end), ``edge_index [2, E]`` (an ``EdgeIndex`` sorted by target),
        ``ptr [B+1]`` and ``batch [ΣT]``.

    Raises:
        ValueError: No strings, strings of different widths or types, or lengths that do not match.
    """
    if isinstance(strings, Tensor):
        strings = _unpadded(strings, lengths)
    elif lengths is not None:
        raise ValueError("lengths are those of a padded tensor: other strings know theirs")
    if isinstance(strings, PackedSequence):
        strings = unpack_sequence(strings)
    if not strings:
        raise ValueError("expected at least one string, got none")
    for i, string in enumerate(strings):
        if string.shape[1:] != strings[0].shape[1:]:
            raise ValueError(
                f"string {i} has tokens of shape {list(string.shape[1:])}, "
                f"expected {list(strings[0].shape[1:])} like string 0"
            )
        if string.dtype != strings[0].dtype:
            raise ValueError(f"string {i} has {string.dtype}, expected {strings[0].dtype} like string 0")
    x = torch.cat(list(strings))
    counts = torch.tensor([len(string) for string in strings], device=x.device)
    ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    batch = torch.arange(len(strings), device=x.device).repeat_interleave(counts)
    return Data(x=x, edge_index=path_edges(ptr), ptr=ptr, batch=batch)


def path_edges(ptr: Tensor) -> EdgeIndex:
    """The edges t → t + 1 inside strings end to end, ``ptr [B+1]``, sorted by target."""
    follows = torch.ones(int(ptr[-1]) + 1, dtype=torch.bool, device=ptr.device)
    follows[ptr] = False
    follows = follows[:-1]
    target = follows.nonzero().view(-1)
    # Every token but the first of a string is the target of exactly one edge.
    indptr = torch.nn.functional.pad(follows.long().cumsum(0), (1, 0))
    # No edge leaves a last token: the size is always needed, and to look would wait for a GPU.
    return sorted_edge_index(torch.stack([target - 1, target]), indptr, sized=True)


class ToPathGraph(BaseTransform):
    """The same as a transform of PyG: the tokens ``x`` of a ``Data`` become one path.

    For data sets with a string in each item, to be collated by PyG's loaders; where there is a ``ptr``,
    there is a path per string.
    """

    def forward(self, data: Data) -> Data:
        if data.x is None:
            raise ValueError(f"a path graph needs the tokens x, got {data.keys()}")
        ptr = data.get("ptr")
        if ptr is None:
            ptr = data.x.new_tensor([0, len(data.x)], dtype=torch.long)
        data.edge_index = path_edges(_checked_ptr(data.x, ptr))
        return data


def to_list(x: Tensor, ptr: Tensor) -> list[Tensor]:
    """The strings of a batch, ``[T_i, …]`` each.

    Args:
        x: Tokens ``[N, …]`` end to end: features, ids, or what a model gave.
        ptr: ``[B+1]``.

    Raises:
        ValueError: ``ptr`` does not begin with 0, falls, or does not end at N.
    """
    return list(x.split(_checked_ptr(x, ptr).diff().tolist()))


def to_padded(x: Tensor, ptr: Tensor, value: float = 0.0) -> tuple[Tensor, Tensor]:
    """The strings of a batch as a tensor ``[B, T, …]``, padded behind their ends, and their lengths ``[B]``.

    Args:
        x, ptr: See :func:`to_list`.
        value: What is put behind their ends.
    """
    strings = to_list(x, ptr)
    if not strings:
        return x.new_zeros(0, 0, *x.shape[1:]), ptr.diff()
    return pad_sequence(strings, batch_first=True, padding_value=value), ptr.diff()


def to_packed(x: Tensor, ptr: Tensor) -> PackedSequence:
    """The strings of a batch as PyTorch packs them.

    Args:
        x, ptr: See :func:`to_list`.

    Raises:
        ValueError: A string is empty, or there is none: a ``PackedSequence`` cannot hold that.
    """
    strings = to_list(x, ptr)
    if not strings:
        raise ValueError("a PackedSequence holds at least one string, got none")
    for i, string in enumerate(strings):
        if not len(string):
            raise ValueError(f"string {i} is empty: a PackedSequence cannot hold it, leave it out first")
    return pack_sequence(strings, enforce_sorted=False)


def _checked_ptr(x: Tensor, ptr: Tensor) -> Tensor:
    steps = Steps(ptr)
    if steps.num_tokens != len(x):
        raise ValueError(f"ptr ends at {steps.num_tokens}, x has {len(x)} tokens")
    return steps.ptr


def _unpadded(padded: Tensor, lengths: Tensor | Sequence[int] | None) -> list[Tensor]:
    if padded.dim() < 2:
        raise ValueError(
            f"padded strings have shape [B, T, …], got {list(padded.shape)}: put a single string into a list"
        )
    num_strings, longest = padded.shape[:2]
    if lengths is None:
        return list(padded)
    of_strings = torch.as_tensor(lengths)
    if len(of_strings) != num_strings:
        raise ValueError(f"{len(of_strings)} lengths for {num_strings} padded strings")
    if num_strings and not holds_integers(of_strings):
        raise ValueError(f"lengths must be integers, got {of_strings.dtype}")
    ends = of_strings.tolist()
    for i, end in enumerate(ends):
        if not 0 <= end <= longest:
            raise ValueError(f"string {i} has length {end}, expected 0 … {longest}")
    return [string[:end] for string, end in zip(padded, ends, strict=True)]
