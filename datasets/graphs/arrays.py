"""The flat arrays of a packed store, and values in as few bytes as hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops.spans import bounds_of, places_of
from wlkernelnn.utils.checks import check_unmasked

from .description import SEVERAL_CLASSES, Description


def content_hash(what: str, *tensors: Tensor) -> str:
    """SHA-256 of tensors, with their types and sizes, and of what they are."""
    digest = hashlib.sha256(what.encode())
    for tensor in tensors:
        digest.update(f" {tensor.dtype} {tensor.numel()} ".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Arrays:
    """The flat tensors of all graphs, as they lie in the file.

    Attributes:
        node_type: ``[ΣV]`` row of ``node_table`` of every node (the smallest integer type that fits).
        node_table: ``[A, F]`` the distinct rows of node codes (integers), numbers behind them, or of
            features (float32).
        source: ``[ΣE]`` source of every edge, counted inside its graph; the edges of a graph are sorted
            by target, then source.
        in_degree: ``[ΣV]`` number of edges that end in a node: with ``source`` this is a CSR matrix.
        edge_type: ``[ΣE]`` edge codes.
        node_ptr: int64 ``[G+1]``; edge_ptr: int64 ``[G+1]``: where each graph begins.
        y: ``[G, tasks]``, NaN where a target is missing: float32 if that alters none, else float64.
        row: int64 ``[G]`` row of the input file that a graph came from.
        smiles: uint8, the SMILES of all graphs end to end (UTF-8); smiles_ptr: int64 ``[G+1]``.
        graph_x: uint8 (counts) or float32 (numbers) ``[G, num_graph_values]`` features of whole graphs; ``[0,
            0]`` without.
        censored: int8 ``[G, tasks]``: 1 where a target is a lower bound of what was not measured, −1 where
            it is an upper one, else 0; ``[0, 0]`` without bounds.
    """

    node_type: Tensor
    node_table: Tensor
    source: Tensor
    in_degree: Tensor
    edge_type: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    row: Tensor
    smiles: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.uint8))
    smiles_ptr: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    graph_x: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.uint8))
    censored: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int8))


def check_lengths(**lengths: tuple[int, int]) -> None:
    """Refuse arrays by their lengths and those that are expected."""
    for name, (length, expected) in lengths.items():
        if length != expected:
            raise ValueError(f"PackedGraphs: {name} has {length} entries, expected {expected}")


def check_arrays(arrays: Arrays, description: Description) -> None:
    """Raise a ``ValueError`` if they contradict each other, or what is said of them."""
    a, num_columns = arrays, description.num_graph_values
    num_graphs, num_nodes, num_edges = a.node_ptr.numel() - 1, int(a.node_ptr[-1]), int(a.edge_ptr[-1])
    if a.graph_x.size(1) != num_columns:
        expected = f"expected num_graph_values = {num_columns}"
        raise ValueError(f"PackedGraphs: graph_x has {a.graph_x.size(1)} columns, {expected}")
    check_lengths(
        edge_ptr=(a.edge_ptr.numel(), num_graphs + 1),
        node_type=(a.node_type.numel(), num_nodes),
        in_degree=(a.in_degree.numel(), num_nodes),
        source=(a.source.numel(), num_edges),
        edge_type=(a.edge_type.numel(), num_edges),
        y=(a.y.size(0), num_graphs),
        row=(a.row.numel(), num_graphs),
        graph_x=(a.graph_x.size(0), num_graphs if num_columns else 0),
        censored=(a.censored.numel(), a.y.numel() if a.censored.numel() else 0),
        target_names=(len(description.target_names) or a.y.size(1), a.y.size(1)),
    )
    if description.task == "classification":
        wrong = torch.nonzero((a.y != 0) & (a.y != 1) & ~a.y.isnan()).tolist()
        if wrong:
            value = f"{a.y[tuple(wrong[0])]:g} for graph {wrong[0][0]}"
            raise ValueError(f"PackedGraphs: targets of a classification must be 0, 1 or NaN, got {value}")
    if description.task in SEVERAL_CLASSES:
        _check_classes(a.y, description.classes)


def _check_classes(y: Tensor, classes: Sequence[str]) -> None:
    """Refuse targets that are not one class 0, 1, … of each graph, or classes without a name."""
    if y.size(1) != 1:
        raise ValueError(f"PackedGraphs: graphs of several classes have one target, got {y.size(1)}")
    known = y[~y.isnan()]
    if len(wrong := known[(known < 0) | (known % 1 != 0)]):
        raise ValueError(f"PackedGraphs: classes must be 0, 1, … or NaN, got {wrong[0]:g}")
    if classes and len(known) and known.max() >= len(classes):
        raise ValueError(
            f"PackedGraphs: there are {len(classes)} names of classes, and class {known.max():g}"
        )


def smallest(values: np.ndarray) -> Tensor:
    """Non-negative integers in the smallest integer type that torch can index with."""
    top = int(values.max(initial=0))
    dtype = np.uint8 if top < 2**8 else np.int16 if top < 2**15 else np.int32 if top < 2**31 else np.int64
    return torch.from_numpy(np.ascontiguousarray(values, dtype=dtype))


def features_of(table: np.ndarray) -> np.ndarray:
    """Rows of a node table as they stand in ``x``: codes int64, features float32."""
    return table if table.dtype.kind == "f" else table.astype(np.int64)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, in ascending order, and which of them each row is.

    As ``np.unique(rows, axis=0, return_inverse=True)``, in a tenth of the time.
    """
    order = np.lexsort(rows.T[::-1]) if rows.size else np.arange(len(rows))
    ascending = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    return ascending[new], number


def pack_strings(strings: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Strings end to end as UTF-8 bytes, and where each begins."""
    encoded = [string.encode() for string in strings]
    ptr = bounds_of(np.array([len(string) for string in encoded], dtype=np.int64))
    flat = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
    return torch.from_numpy(flat), torch.from_numpy(ptr)


def readable(values: Any) -> Any:
    """An array as torch reads it: a copy of one that is read only, backwards or in another order of bytes.

    Raises:
        ValueError: The array is masked and hides values.
    """
    check_unmasked(values)
    if isinstance(values, np.ndarray) and (
        min(values.strides, default=0) < 0 or not values.flags.writeable or not values.dtype.isnative
    ):
        return values.astype(values.dtype.newbyteorder("="), order="C")
    return values


def positions_of(count: int, chosen: slice | np.ndarray | Tensor | Sequence[int]) -> np.ndarray:
    """Of ``count`` items the positions, from 0 on, of those ``chosen`` by number, mask or slice."""
    if isinstance(chosen, slice):
        # Shares of a data set, as elsewhere in PyG: data[:0.8].
        begin, end = (round(x * count) if isinstance(x, float) else x for x in (chosen.start, chosen.stop))
        chosen = np.arange(count)[begin : end : chosen.step]
    chosen = np.asarray(chosen)
    chosen = chosen.reshape(-1) if chosen.ndim > 1 else chosen  # as PyG takes them
    return np.arange(count)[chosen if chosen.size else chosen.astype(np.int64)]


def take_spans(
    ptr: np.ndarray, items: np.ndarray, *flats: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Rows of ``items`` out of flat arrays, laid end to end; their lengths, and their bounds there."""
    begin, end = ptr[items], ptr[items + 1]
    length = end - begin
    bounds = bounds_of(length)
    where = places_of(begin, bounds)
    if len(where):
        # The items lie far apart in memory. Reading both ends of all spans first waits for many at once, not
        # for one after the other: 1.5 times as fast where the store exceeds the caches.
        for flat in flats:
            flat.take(begin, axis=0, mode="clip")
            flat.take(end - 1, axis=0, mode="clip")
    return [flat.take(where, axis=0) for flat in flats], length, bounds


def arrays_of(arrays: Arrays, graphs: np.ndarray) -> Arrays:
    """The arrays of some graphs alone, in this order."""
    a = {name: tensor.numpy() for name, tensor in vars(arrays).items()}
    (node_type, in_degree), _, node_ptr = take_spans(a["node_ptr"], graphs, a["node_type"], a["in_degree"])
    (source, edge_type), _, edge_ptr = take_spans(a["edge_ptr"], graphs, a["source"], a["edge_type"])
    taken = {
        "node_type": node_type,
        "node_table": a["node_table"],
        "source": source,
        "in_degree": in_degree,
        "edge_type": edge_type,
        "node_ptr": node_ptr,
        "edge_ptr": edge_ptr,
        "y": a["y"][graphs],
        "row": a["row"][graphs],
    }
    if len(a["smiles_ptr"]):
        (taken["smiles"],), _, taken["smiles_ptr"] = take_spans(a["smiles_ptr"], graphs, a["smiles"])
    for name in ("graph_x", "censored"):
        if len(a[name]):
            taken[name] = a[name][graphs]
    return Arrays(**{name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in taken.items()})
