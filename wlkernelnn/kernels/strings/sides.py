"""Sequences in every form that users have them, as flat arrays that two sides of a kernel share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, unpack_sequence
from torch_geometric.data import Data

from wlkernelnn.datasets.graphs.attributes import numpy_of
from wlkernelnn.kernels.base import Values, is_list, objects, structures_in
from wlkernelnn.kernels.names import row_numbers
from wlkernelnn.ops.string import Steps
from wlkernelnn.sequence.graphs.reading import graph_ptr, graph_steps
from wlkernelnn.utils.checks import check_unmasked


@dataclass(frozen=True)
class StringPart:
    """Some strings, turned so that the tokens of one step lie together: no padding, and slices to scan.

    The strings are in the order of falling length, so that those with a token t are the first ones.

    Attributes:
        tokens: ``[P]`` or ``[P, d]``: the first token of every string, then the second ones, …
        place: int64 ``[P]``: where a token stands in the side that this is a part of.
        string: int64 ``[P]``: the string that a token belongs to.
        counts, begins: int64 ``[T]``: strings that have a token t, and where the tokens of step t begin.
        lengths: int64 ``[n]``: tokens of every string, falling.
        rank: int64 ``[n]``: where each string stands here, in the order of the side.
    """

    tokens: np.ndarray
    place: np.ndarray
    string: np.ndarray
    counts: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray
    rank: np.ndarray

    def at(self, t: int) -> slice:
        """The tokens of step t."""
        return slice(self.begins[t], self.begins[t] + self.counts[t])

    def in_order(self, y: StringPart, values: np.ndarray, slopes: np.ndarray | None) -> Values:
        """Arrays ``[strings y, strings of this part]`` the other way round, in the order of both sides."""
        place = np.ix_(self.rank, y.rank)
        return values.T[place], None if slopes is None else slopes.T[place]

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class StringSide:
    """Strings end to end.

    Attributes:
        tokens: Integer codes ``[N]`` (similarity 1 of equal ones, else 0), or floats ``[N, d]`` (⟨x, y⟩).
        ptr: int64 ``[n+1]``.
        num_codes: Number of different codes on both sides; 0 for floats.
        from_end: Parts take the last token of a string first.
    """

    tokens: np.ndarray
    ptr: np.ndarray
    num_codes: int
    from_end: bool = False

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ptr)

    @property
    def sizes(self) -> np.ndarray:
        """√tokens, ``[n]``: a block of n by n strings of T tokens works on n²T = (n√T)² numbers at once."""
        return np.sqrt(1 + self.lengths)

    def part(self, begin: int, end: int) -> StringPart:
        lengths = self.lengths[begin:end]
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        steps = np.arange(lengths.max(initial=0))
        counts = np.searchsorted(-lengths, -steps)
        begins = np.cumsum(counts) - counts
        step = np.repeat(steps, counts)
        string = np.arange(len(step)) - np.repeat(begins, counts)
        inside = lengths[string] - 1 - step if self.from_end else step
        place = self.ptr[begin:end][order][string] + inside
        return StringPart(
            tokens=self.tokens[place],
            place=place,
            string=string,
            counts=counts,
            begins=begins,
            lengths=lengths,
            rank=np.argsort(order),
        )


def string_sides(X: Any, Y: Any, from_end: bool = False) -> tuple[StringSide, StringSide | None]:
    """Both sides, with one vocabulary; Y may be ``None``.

    X and Y are what :class:`~wlkernelnn.kernels.StringKernel` takes. An empty sequence goes with all others.

    Raises:
        TypeError: Not a list of sequences, or tokens that are neither hashable nor rows of an array.
        ValueError: Sequences that cannot be compared, or a graph that is not a path.
    """
    sides = [_sequences(name, items) for name, items in (("X", X), ("Y", Y)) if items is not None]
    filled = [sequence for side in sides for sequence in side if len(sequence.tokens)]
    for sequence in filled:
        if sequence.kind != filled[0].kind:
            raise ValueError(
                f"{sequence.name} is {sequence.kind}, {filled[0].name} is {filled[0].kind}: "
                "they cannot be compared"
            )
    tokens, num_codes = _compared([sequence.tokens for sequence in filled])
    ptrs = [np.cumsum([0, *(len(sequence.tokens) for sequence in side)], dtype=np.int64) for side in sides]
    split = ptrs[0][-1]
    first = StringSide(tokens[:split], ptrs[0], num_codes, from_end)
    return first, None if Y is None else StringSide(tokens[split:], ptrs[1], num_codes, from_end)


class _Sequence(NamedTuple):
    """An item by its name, its kind, and its tokens ``[T]`` or ``[T, width]``."""

    name: str
    kind: str
    tokens: np.ndarray


def _sequences(name: str, items: Any) -> list[_Sequence]:
    if isinstance(items, PackedSequence):
        items = unpack_sequence(items)
    if isinstance(items, Data):
        return [_from_array(f"string {i} of {name}", path) for i, path in enumerate(_paths(name, items))]
    items = structures_in(items)
    if not is_list(items):
        raise TypeError(f"{name}: expected a list of sequences, got one {type(items).__name__}")
    return [_sequence(f"{name}[{i}]", item) for i, item in enumerate(items)]


def _sequence(name: str, item: Any) -> _Sequence:
    if isinstance(item, str):
        characters = np.frombuffer(item.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return _Sequence(name, "a str", characters.astype(np.int64))
    if isinstance(item, Data):
        paths = _paths(name, item)
        if len(paths) != 1:
            raise ValueError(f"{name}: expected one path graph in each item, got a batch of {len(paths)}")
        return _from_array(name, paths[0])
    if isinstance(item, Tensor):
        return _from_array(name, numpy_of(item))
    if isinstance(item, np.ndarray):
        check_unmasked(item, name)
        return _from_array(name, item)
    if isinstance(item, (list, tuple)):
        return _from_list(name, item)
    raise TypeError(
        f"{name}: expected a str, a list of tokens, an array or a path graph, got {type(item).__name__}"
    )


def _from_array(name: str, array: np.ndarray) -> _Sequence:
    integers, floats = array.dtype.kind in "iub", array.dtype.kind == "f"
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        if array.ndim == 1:
            return _from_list(name, array.tolist())
        raise ValueError(f"{name}: expected rows of integers below 2^63, got {array.max()}")
    if array.ndim == 1 and integers:
        return _Sequence(name, "a list of tokens", array.astype(np.int64))
    if array.ndim == 1 and not (floats and len(array)):
        return _from_list(name, array.tolist())
    if array.ndim == 2 and integers:
        return _Sequence(name, f"rows of {array.shape[1]} integers", array.astype(np.int64))
    if array.ndim == 2 and floats:
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: its vectors hold values that are not finite")
        return _Sequence(name, f"vectors of {array.shape[1]} floats", array.astype(np.float64))
    raise ValueError(
        f"{name}: expected ids [T], integers [T, F] or floats [T, d], got {array.dtype} {list(array.shape)}"
    )


def _from_list(name: str, tokens: list[Any] | tuple[Any, ...]) -> _Sequence:
    types = set(map(type, tokens))
    for type_ in types:
        # These could be hashed or not, but equality is hardly what is meant.
        if issubclass(type_, (float, np.floating, np.ndarray, Tensor, list)):
            raise TypeError(
                f"{name} is a list of {type_.__name__}: vectors must come as one array [T, d], "
                "tokens that are compared by equality as integers, str, tuples, …"
            )
    try:
        set(tokens)
    except TypeError as error:
        raise TypeError(f"{name}: tokens must be hashable: {error}") from error
    array = np.array(tokens) if types <= {int} else objects(tokens)
    if array.dtype != np.int64:  # numpy makes floats of integers beyond int64 with small ones beside them
        array = objects(tokens)
    return _Sequence(name, "a list of tokens", array)


def _paths(name: str, graph: Data) -> list[np.ndarray]:
    """Node features of each path, as sequence models read it; without edge_index in the order of nodes."""
    if graph.x is None:
        raise ValueError(f"{name}: a path graph needs the tokens x, got {graph.keys()}")
    weights = numpy_of(graph.get("edge_weight", []))
    if (wrong := np.flatnonzero(weights != 1)).size:
        weight = f"edge_weight[{wrong[0]}] is {weights.flat[wrong[0]]:g}"
        raise ValueError(f"{name}: {weight}, expected 1: string kernels know no weights of edges")
    x, reader = numpy_of(graph.x), "a string kernel"
    given = {key: torch.as_tensor(graph[key]) for key in ("edge_index", "ptr", "batch") if key in graph}
    path = Data(x=torch.arange(len(x)), **given)
    try:
        if path.edge_index is None:
            steps = Steps.of(path.x, graph_ptr(path), reader)
        else:
            steps = graph_steps(reader, path, branches=False)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    nodes = Steps(steps.ptr).leave(steps.enter(path.x)).numpy()
    return [x[nodes[begin:end]] for begin, end in pairwise(steps.ptr.tolist())]


def _compared(sequences: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Tokens end to end, either floats as they are or codes 0, 1, … with their number."""
    if not sequences:
        return np.zeros(0, dtype=np.int32), 0
    tokens = np.concatenate(sequences)
    if tokens.dtype.kind == "f":
        return tokens, 0
    if tokens.ndim == 2:
        codes = row_numbers(list(tokens.T), len(tokens))
    elif tokens.dtype == object:  # pandas takes None, NaT and NA for one
        number: dict[Any, int] = {}
        codes = np.array([number.setdefault(token, len(number)) for token in tokens.tolist()])
    else:
        codes = pd.factorize(tokens, use_na_sentinel=False)[0]
    return codes.astype(np.int32), int(codes.max()) + 1
