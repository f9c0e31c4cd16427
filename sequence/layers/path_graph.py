"""Strings as path graphs: the one layout of every sequence model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence, unpack_sequence
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from wlkernelnn.datasets import sorted_edge_index
from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import holds_integers

from .string_model import Pointers


def path_graph(
    strings: Sequence[Tensor | np.ndarray | Sequence[Any]] | Tensor | np.ndarray | PackedSequence,
    lengths: Tensor | np.ndarray | Sequence[int] | None = None,
) -> Data:
    r"""A batch of strings as one graph of paths: nodes are tokens, edges go from t to t + 1 inside a string.

    :func:`to_list`, :func:`to_padded` and :func:`to_packed` lead back.

    Args:
        strings: Token features ``[T_i, d]`` or token ids ``[T_i]`` of each string, empty strings too, as
            tensors, arrays or lists; or all of them padded behind their ends, a tensor or array
            ``[B, T, d]`` or ``[B, T]``; or a ``PackedSequence``.
        lengths: ``[B]``, of padded strings; default T. (Of a mask ``[B, T]`` they are ``mask.sum(1)``.)

    Returns:
        ``x`` (all strings end to end), ``edge_index [2, E]`` (an ``EdgeIndex`` sorted by target),
        ``ptr [B+1]`` and ``batch [ΣT]``.

    Raises:
        TypeError: A string is not made of numbers.
        ValueError: No strings, strings of different widths or types, or lengths that do not match.
    """
    if isinstance(strings, np.ndarray) and strings.dtype != object:
        strings = torch.as_tensor(strings)
    if isinstance(strings, Tensor):
        strings = _unpadded(strings, lengths)
    elif lengths is not None:
        raise ValueError("lengths are those of a padded tensor: other strings know theirs")
    if isinstance(strings, PackedSequence):
        strings = unpack_sequence(strings)
    strings = _tensors(strings)
    if not strings:
        raise ValueError("expected at least one string, got none")
    for i, string in enumerate(strings):
        for what, own, expected in (
            ("tokens of shape ", list(string.shape[1:]), list(strings[0].shape[1:])),
            ("", string.dtype, strings[0].dtype),
        ):
            if own != expected:
                raise ValueError(f"string {i} has {what}{own}, expected {expected} like string 0")
    x = torch.cat(strings)
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
    """The same as a transform of PyG: the tokens ``x`` of a ``Data`` become a path, or one per string of
    ``ptr``.
    """

    def forward(self, data: Data) -> Data:
        if data.x is None:
            raise ValueError(f"a path graph needs the tokens x, got {data.keys()}")
        ptr = data.get("ptr")
        if ptr is None:
            ptr = data.x.new_tensor([0, len(data.x)], dtype=torch.long)
        data.edge_index = path_edges(Steps.of(data.x, ptr, type(self).__name__).ptr)
        return data


def to_list(x: Tensor, ptr: Pointers) -> list[Tensor]:
    """The strings of a batch, ``[T_i, …]`` each.

    Args:
        x: Tokens ``[N, …]`` end to end: features, ids, or what a model wrote.
        ptr: ``[B+1]``, a tensor, an array or a list.

    Raises:
        ValueError: ``ptr`` does not begin with 0, falls, or does not end at N.
    """
    return list(x.split(Steps.of(x, ptr, "to_list").ptr.diff().tolist()))


def to_padded(x: Tensor, ptr: Pointers, value: float = 0.0) -> tuple[Tensor, Tensor]:
    """The strings of a batch as a tensor ``[B, T, …]``, with ``value`` behind their ends, and their lengths
    ``[B]``; ``x`` and ``ptr`` are those of :func:`to_list`.
    """
    strings = to_list(x, ptr)
    lengths = torch.tensor([len(string) for string in strings], dtype=torch.long, device=x.device)
    if not strings:
        return x.new_zeros(0, 0, *x.shape[1:]), lengths
    return pad_sequence(strings, batch_first=True, padding_value=value), lengths


def to_packed(x: Tensor, ptr: Pointers) -> PackedSequence:
    """The strings of a batch as PyTorch packs them; ``x`` and ``ptr`` are those of :func:`to_list`.

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


def _tensors(strings: Iterable[Any]) -> list[Tensor]:
    strings, tensors = list(strings), []
    for i, string in enumerate(strings):
        try:
            tensors.append(torch.as_tensor(string))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"string {i} must be a tensor, an array or a list of numbers, got {string!r:.60}"
            ) from error
    # An empty list does not tell its type.
    told = next((tensor for tensor in tensors if len(tensor)), None)
    return [
        tensor if told is None or isinstance(string, Tensor) or len(tensor) else told[:0]
        for string, tensor in zip(strings, tensors, strict=True)
    ]


def _unpadded(padded: Tensor, lengths: Tensor | np.ndarray | Sequence[int] | None) -> list[Tensor]:
    if padded.dim() < 2:
        shape = list(padded.shape)
        raise ValueError(f"padded strings have shape [B, T, …], got {shape}: put a single string into a list")
    num_strings, longest = padded.shape[:2]
    if lengths is None:
        return list(padded)
    of_strings = torch.as_tensor(lengths)
    if of_strings.shape != (num_strings,):
        got = list(of_strings.shape)
        raise ValueError(f"lengths must be those of {num_strings} padded strings, [{num_strings}], got {got}")
    if num_strings and not holds_integers(of_strings):
        raise ValueError(f"lengths must be integers, got {of_strings.dtype}")
    ends = of_strings.tolist()
    for i, end in enumerate(ends):
        if not 0 <= end <= longest:
            raise ValueError(f"string {i} has length {end}, expected 0 … {longest}")
    return [string[:end] for string, end in zip(padded, ends, strict=True)]
