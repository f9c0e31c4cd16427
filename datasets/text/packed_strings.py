"""Strings of token ids or of vectors end to end, their batches, and short stretches of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from wlkernelnn.datasets.graphs.arrays import (
    bounds_of,
    content_hash,
    positions_of,
    readable,
    smallest,
    take_spans,
)
from wlkernelnn.datasets.graphs.epochs import EpochLoader, LengthGroupedShuffle
from wlkernelnn.datasets.graphs.pyg import path_edges, plain_data
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.ops.spans import places_of
from wlkernelnn.utils.checks import check_count, holds_integers

from .vocabulary import TokenIds, Vocabulary, as_ids, check_ids


class PackedStrings(Dataset):
    """Strings of any lengths, empty ones too, in one flat array.

    A PyG ``Dataset`` of path graphs: ``strings[i]`` is a ``Data`` with the tokens ``x [T]`` (int64 ids, or
    vectors ``[T, d]``), ``edge_index`` from each token to the next, and ``y [1]`` (or ``[1, tasks]``), which
    PyG's own ``DataLoader`` collates; a slice, mask, list or index tensor gives some of the strings.
    :class:`~wlkernelnn.datasets.StringLoader` makes the same batches without Python per string.

    Args:
        tokens: ``[ΣT]`` token ids of all strings (any integer type), or ``[ΣT, d]`` vectors.
        ptr: ``[S+1]``: where each string begins; kept as int64.
        y: ``[S]`` or ``[S, tasks]`` labels; integers are kept as int64.
        transform: Of each ``Data`` that is handed out.

    All may be given as tensors, arrays or lists.

    Raises:
        ValueError: They contradict each other.
    """

    def __init__(
        self,
        tokens: Tensor | np.ndarray | Sequence[Any],
        ptr: TokenIds,
        y: Tensor | np.ndarray | Sequence[Any],
        transform: Callable[[Data], Data] | None = None,
    ) -> None:
        super().__init__(transform=transform)
        self.tokens = _tensor("tokens", tokens)
        self.ptr = as_ids(ptr, "PackedStrings: ptr")
        y = _tensor("y", y)
        self.y = y.long() if holds_integers(y) else y
        if not self.ptr.numel() or int(self.ptr[0]) or (self.ptr.diff() < 0).any():
            raise ValueError("PackedStrings: ptr must begin with 0 and never decrease")
        for name, values, count in (("tokens", self.tokens, self.ptr[-1]), ("y", self.y, self.len())):
            if not values.dim() or len(values) != count:
                shown = len(values) if values.dim() else "no"
                raise ValueError(f"PackedStrings: {name} has {shown} entries, expected {count} by ptr")

    @classmethod
    def encode(
        cls, strings: Sequence[Sequence[str]], y: Sequence[int] | np.ndarray, vocabulary: Vocabulary
    ) -> PackedStrings:
        """Pack strings of tokens (a ``str`` is one of characters) and labels ``[S]`` or ``[S, tasks]``.

        Raises:
            ValueError: A token is not in the vocabulary, or there are not as many labels as strings.
        """
        ids = vocabulary.encode(chain.from_iterable(strings)).numpy()
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        return cls(smallest(ids), torch.from_numpy(bounds_of(lengths)), torch.as_tensor(np.asarray(y)))

    def len(self) -> int:
        return len(self.ptr) - 1

    def get(self, idx: int) -> Data:
        begin, end = self.ptr[idx : idx + 2].tolist()
        tokens = self.tokens[begin:end].clone()  # changes of it stay there
        if not tokens.is_floating_point():
            tokens = tokens.long()
        edges = path_edges(torch.tensor([0, end - begin])).as_tensor()
        return Data(x=tokens, edge_index=edges, y=self.y[idx : idx + 1].clone())

    def index_select(self, idx: Any) -> PackedStrings:
        return self.select(idx)

    @property
    def lengths(self) -> Tensor:
        """int64 ``[S]``."""
        return self.ptr.diff()

    def digest(self) -> str:
        """SHA-256 of the strings and their labels."""
        return content_hash("strings", self.tokens, self.ptr, self.y)

    def select(self, positions: np.ndarray | Tensor | Sequence[int]) -> PackedStrings:
        """The strings at some positions, in their order, with repetitions if there are any.

        Positions below 0 count from the end; a mask has a value per string, else it is an ``IndexError``.
        """
        positions = positions_of(len(self), positions)
        (tokens,), _, bounds = take_spans(self.ptr.numpy(), positions, self.tokens.numpy())
        y = self.y[torch.from_numpy(positions)]
        return PackedStrings(torch.from_numpy(tokens), torch.from_numpy(bounds), y, self.transform)


def _tensor(name: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(readable(values)).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"PackedStrings: {name} must be numbers of one shape, got {values!r:.60}") from error


@dataclass(frozen=True, eq=False)
class LabelledStrings:
    """A classification of strings in three parts.

    Attributes:
        train, valid, test: The strings; ``y`` int64 ``[S]`` numbers the classes.
        vocabulary: Their tokens.
        classes: Names of the classes.
        name: Name of the data set.
        note: What tables have to say of it, such as that it is a sample.

    Raises:
        ValueError: A part has ids or labels that are not those of tokens or classes.
    """

    train: PackedStrings
    valid: PackedStrings
    test: PackedStrings
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    name: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for part in PARTS:
            strings = getattr(self, part)
            check_ids(strings.tokens, len(self.vocabulary), f"{self.name} {part} tokens".strip())
            check_ids(strings.y, len(self.classes), f"{self.name} {part} y".strip())

    @classmethod
    def encode(
        cls,
        parts: Sequence[tuple[Sequence[Sequence[str]], Sequence[int] | np.ndarray]],
        vocabulary: Vocabulary,
        classes: tuple[str, ...],
        name: str = "",
        note: str = "",
    ) -> LabelledStrings:
        """Pack the strings and classes of three parts: see :meth:`PackedStrings.encode`."""
        train, valid, test = (PackedStrings.encode(strings, y, vocabulary) for strings, y in parts)
        return cls(train, valid, test, vocabulary, classes, name, note)

    def class_counts(self) -> dict[str, list[int]]:
        """How many strings of each class every part has."""
        num_classes = len(self.classes)
        return {part: getattr(self, part).y.bincount(minlength=num_classes).tolist() for part in PARTS}


class StringLoader(EpochLoader):
    """Mini-batches of :class:`PackedStrings`, end to end and without padding.

    A batch is a plain PyG ``Data`` of path graphs, which every sequence model takes as it is, with the token
    ids of all its strings ``x [N]`` (or vectors ``[N, d]``), ``edge_index`` from each token to the next (an
    ``EdgeIndex`` sorted by target), ``ptr [B+1]``, ``batch [N]``, ``y [B]``, all int64 but for vectors and a
    ``y`` of another type, and B as ``num_graphs``. An empty string is one whose two entries of ``ptr`` are
    equal. A ``transform`` of the strings is not applied.

    Arguments and errors: see :class:`~wlkernelnn.datasets.PackedLoader`.
    """

    data: PackedStrings

    def __init__(self, data: PackedStrings, *args: Any, **options: Any) -> None:
        if not isinstance(data, PackedStrings):
            raise TypeError(f"StringLoader reads PackedStrings, got {type(data).__name__}")
        super().__init__(data, *args, **options)
        if isinstance(self.resample, LengthGroupedShuffle) and len(self.resample.lengths) != len(data):
            given = len(self.resample.lengths)
            raise ValueError(f"resample has lengths of {given:,} strings, the loader has {len(data):,}")

    def _batches(self, positions: np.ndarray, bounds: np.ndarray) -> Iterator[Data]:
        (x,), lengths, token_bounds = take_spans(self.data.ptr.numpy(), positions, self.data.tokens.numpy())
        y = self.data.y.numpy().take(positions, axis=0)
        if np.issubdtype(x.dtype, np.integer):
            x = x.astype(np.int64)
        batch = np.repeat(places_of(np.zeros(len(bounds) - 1, np.int64), bounds), lengths)
        for first, last in pairwise(bounds.tolist()):
            ends = token_bounds[first : last + 1]
            begin, end = ends[0], ends[-1]
            ptr = torch.from_numpy(ends - begin)
            yield plain_data(
                x=torch.from_numpy(x[begin:end]),
                edge_index=path_edges(ptr),
                y=torch.from_numpy(y[first:last]),
                batch=torch.from_numpy(batch[begin:end]),
                ptr=ptr,
                num_graphs=last - first,
            )


def draw_snippets(tokens: TokenIds, length: int, sizes: Sequence[int], seed: int = 0) -> list[PackedStrings]:
    """Draw snippets of a text for language modelling; no two overlap.

    The text is cut every ``length`` tokens, and the pieces are shuffled. Parts are filled in the order of
    ``sizes``: with the same seed, those before the last stay the same if the last one grows.

    Args:
        tokens: Token ids ``[N]``, any integers in a tensor, an array or a list.
        length: Tokens of a snippet, at least 2.
        sizes: How many snippets each part has.
        seed: Seed of the shuffling.

    Returns:
        The parts. A string has all tokens of its snippet but the last, and ``y [S, length - 1]`` is what
        follows each of them.

    Raises:
        ValueError: ``tokens`` are not integers from 0 on ``[N]``, ``length``, ``seed`` or a size is not an
            integer or too small, or the text is too short.
    """
    tokens, length = as_ids(tokens), check_count("length", length, least=2)  # a token and the next one
    seed = check_count("seed", seed, least=0)
    if not isinstance(sizes, Iterable) or not len(sizes):
        raise ValueError(f"sizes must be those of at least one part, got {sizes!r}")
    sizes = [check_count("sizes", size) for size in sizes]
    if len(tokens) and int(tokens.min()) < 0:
        raise ValueError(f"tokens must be ids from 0 on, got {int(tokens.min())}")
    pieces = tokens[: len(tokens) // length * length].view(-1, length)
    if sum(sizes) > len(pieces):
        raise ValueError(
            f"{sum(sizes):,} snippets of {length} tokens need {sum(sizes) * length:,} tokens, "
            f"got {len(tokens):,}"
        )
    order = np.random.default_rng(seed).permutation(len(pieces))[: sum(sizes)]
    parts = []
    for part in pieces[torch.from_numpy(order)].split(sizes):
        ptr = torch.arange(len(part) + 1) * (length - 1)
        parts.append(PackedStrings(smallest(part[:, :-1].flatten().numpy()), ptr, part[:, 1:].long()))
    return parts
