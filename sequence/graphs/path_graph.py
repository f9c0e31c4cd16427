"""Strings as path graphs: the one layout of every sequence model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence, unpack_sequence
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from wlkernelnn.datasets import Vocabulary
from wlkernelnn.datasets.graphs.arrays import readable
from wlkernelnn.datasets.graphs.pyg import path_edges, with_edges
from wlkernelnn.ops.string import Steps
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.utils.checks import holds_integers

from .reading import graph_ptr

# What may be a string or a batch of strings.
Strings = str | Sequence[Tensor | np.ndarray | str | Sequence[Any]] | Tensor | np.ndarray | PackedSequence


def path_graph(
    strings: Strings,
    lengths: Tensor | np.ndarray | Sequence[int] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Data:
    r"""A batch of strings as one graph of paths: nodes are tokens, edges go from t to t + 1 inside a string.

    :func:`to_list`, :func:`to_padded` and :func:`to_packed` lead back.

    Args:
        strings: One of

            * a list with the token features ``[T_i, d]`` or token ids ``[T_i]`` of each string, empty strings
              too, as tensors, arrays or lists;
            * a text, or a list of texts or of lists of words. Without a ``vocabulary`` the tokens of a text
              are the code points of its characters;
            * padded strings, a tensor or array ``[B, T, d]`` or ``[B, T]``;
            * a nested tensor, or a ``PackedSequence``.

        lengths: ``[B]``, of padded strings; default T. (Of a mask ``[B, T]`` they are ``mask.sum(1)``.)
        vocabulary: The ids of characters or words.

    Returns:
        ``x`` (all strings end to end), ``edge_index [2, E]`` (sorted by target),
        ``ptr [B+1]`` and ``batch [ΣT]``. Every sequence model takes it as it is.

    Raises:
        TypeError: A string is not made of numbers, nor of characters or words.
        ValueError: No strings, strings of different widths, types or devices, lengths that do not match, or a
            word that the vocabulary lacks.
    """
    strings = _tensors(_listed(strings, lengths), vocabulary)
    if not strings:
        raise ValueError("expected at least one string, got none")
    for i, string in enumerate(strings):
        if not string.dim():
            raise ValueError(f"string {i} is a single number, {string}: put a single string into a list")
        for what, own, expected in (
            ("tokens of shape ", list(string.shape[1:]), list(strings[0].shape[1:])),
            ("", string.dtype, strings[0].dtype),
            ("tokens on ", string.device, strings[0].device),
        ):
            if own != expected:
                raise ValueError(f"string {i} has {what}{own}, expected {expected} like string 0")
    x = torch.cat(strings)
    counts = torch.tensor([len(string) for string in strings], device=x.device)
    ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    batch = torch.arange(len(strings), device=x.device).repeat_interleave(counts)
    return Data(x=x, edge_index=path_edges(ptr).as_tensor(), ptr=ptr, batch=batch)


class ToPathGraph(BaseTransform):
    """The same as a transform of PyG: the tokens ``x`` of a ``Data`` become a path, or one for each string
    of ``ptr`` or ``batch``. Edges that were there are replaced, and what belongs to them is left out.
    """

    def forward(self, data: Data) -> Data:
        if data.x is None:
            raise ValueError(f"a path graph needs the tokens x, got {data.keys()}")
        edges = path_edges(Steps.of(data.x, graph_ptr(data), type(self).__name__).ptr)
        return with_edges(data, edges.as_tensor())


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


def _listed(strings: Any, lengths: Any) -> list[Any]:
    """Each string on its own."""
    if isinstance(lengths, Vocabulary):
        raise TypeError("lengths is a Vocabulary: write vocabulary=…")
    if isinstance(strings, np.ndarray) and strings.dtype.kind in "US":
        strings = strings.tolist()
    if isinstance(strings, np.ndarray) and strings.dtype != object:
        strings = torch.as_tensor(readable(strings))
    if isinstance(strings, Tensor) and not strings.is_nested:
        return _unpadded(strings, lengths)
    if lengths is not None:
        raise ValueError("lengths are those of a padded tensor: other strings know theirs")
    if isinstance(strings, Tensor):
        return list(strings.unbind())
    if isinstance(strings, PackedSequence):
        return unpack_sequence(strings)
    if isinstance(strings, str):
        return [strings]
    if not isinstance(strings, Iterable) or isinstance(strings, (bytes, Data, dict)):
        got = type(strings).__name__
        raise TypeError(f"strings must be a list, a tensor, an array, a text or a PackedSequence, got {got}")
    return list(strings)


def _tensors(strings: list[Any], vocabulary: Vocabulary | None) -> list[Tensor]:
    if vocabulary is None and strings and all(isinstance(string, str) for string in strings):
        return [torch.tensor([*map(ord, string)], dtype=torch.long) for string in strings]
    if vocabulary is None and strings and isinstance(strings[0], str):
        i, other = next((i, string) for i, string in enumerate(strings) if not isinstance(string, str))
        raise TypeError(f"string {i} must be a text, as string 0 is, got {other!r:.60}")
    tensors = [_tensor(i, string, vocabulary) for i, string in enumerate(strings)]
    # An empty list does not tell its type.
    told = next((tensor for tensor in tensors if tensor.dim() and len(tensor)), None)
    return [
        tensor if told is None or isinstance(string, Tensor) or not tensor.dim() or len(tensor) else told[:0]
        for string, tensor in zip(strings, tensors, strict=True)
    ]


def _tensor(i: int, string: Any, vocabulary: Vocabulary | None) -> Tensor:
    if vocabulary is not None:
        if isinstance(string, Tensor) or (isinstance(string, np.ndarray) and string.dtype.kind not in "USO"):
            raise TypeError(f"string {i}: a vocabulary numbers characters or words, got {string.dtype}")
        try:
            return vocabulary.encode(string)
        except (TypeError, ValueError) as error:
            raise type(error)(f"string {i}: {error}") from error
    try:
        return torch.as_tensor(readable(string))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        words = isinstance(string, (list, tuple)) and any(isinstance(token, str) for token in string)
        raise TypeError(
            f"string {i} must be a tensor, an array or a list of numbers, got {string!r:.60}"
            + (": words need a vocabulary" if words else "")
        ) from error


def _unpadded(padded: Tensor, lengths: Any) -> list[Tensor]:
    if padded.dim() < 2:
        shape = list(padded.shape)
        raise ValueError(f"padded strings have shape [B, T, …], got {shape}: put a single string into a list")
    num_strings, longest = padded.shape[:2]
    if lengths is None:
        return list(padded)
    try:
        of_strings = torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"lengths must be {num_strings} integers, got {lengths!r:.60}") from error
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
