"""Attributes of PyG's ``Data`` as arrays: what a store and an exact kernel read of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

_ONE_COLUMN = ("edge_type", "edge_weight")


def nodes_of(graphs: Sequence[Data]) -> np.ndarray:
    """int64 ``[n]``: the number of nodes of every graph."""
    for i, graph in enumerate(graphs):
        if graph.num_nodes is None:
            raise ValueError(f"graph {i}: its number of nodes is unknown; it has {graph.keys()}")
    return np.array([graph.num_nodes for graph in graphs], dtype=np.int64)


def edge_index_of(graph: Data, i: int, num_nodes: int) -> np.ndarray:
    """The edges of graph number i, int64 ``[2, E]``; a ``ValueError`` if they are not such."""
    if graph.edge_index is None:
        if graph.get("adj_t") is not None:
            raise ValueError(f"graph {i}: its edges are in adj_t, expected edge_index [2, E]")
        return np.zeros((2, 0), np.int64)
    edges = numpy_of(graph.edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise ValueError(
            f"graph {i}: edge_index must be integers [2, E], got {edges.dtype} {list(edges.shape)}"
        )
    if edges.size and not 0 <= edges.min() <= edges.max() < num_nodes:
        raise ValueError(
            f"graph {i}: edge_index has nodes {edges.min()} … {edges.max()}, expected 0 … {num_nodes - 1}"
        )
    return edges.astype(np.int64)


def numpy_of(value: Any) -> np.ndarray:
    """A tensor, or what becomes one, as an array; bfloat16, which numpy lacks, as float32.

    Floats of Python keep all their 64 bits, whatever torch's default is.

    Raises:
        TypeError, ValueError, RuntimeError: It does not become a tensor of real numbers.
    """
    tensor = torch.as_tensor(value).as_subclass(torch.Tensor).detach().cpu()
    if tensor.is_complex():
        raise TypeError(f"expected real numbers, got {tensor.dtype}")
    if tensor.is_floating_point() and not hasattr(value, "dtype"):
        tensor = torch.as_tensor(value, dtype=torch.float64)
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def attribute_rows(
    graphs: Sequence[Data],
    name: str,
    lengths: np.ndarray,
    labels: Callable[[Any], np.ndarray] | None = None,
) -> np.ndarray | None:
    """One attribute of all graphs as rows ``[Σ, width]``; graphs without rows need not have it.

    Args:
        graphs: The graphs.
        name: The attribute.
        lengths: How many rows it has in each graph.
        labels: From values that are not numbers to an array of objects; ``None``: they are refused.

    Returns:
        int64, float64 or objects; ``None`` if no graph has the attribute.
    """
    rows: dict[int, np.ndarray] = {}
    for i, (graph, length) in enumerate(zip(graphs, lengths, strict=True)):
        if (value := graph.get(name)) is not None:
            array = _rows(f"graph {i}: {name}", value, length, name in _ONE_COLUMN, labels)
            if length:
                rows[i] = array
    if not rows:
        return None
    if any(array.dtype == object for array in rows.values()):  # integers are labels as well
        rows = {i: array.astype(object) if array.dtype == int else array for i, array in rows.items()}
    first, *others = rows
    for i in others:
        if (rows[i].shape[1], rows[i].dtype) != (rows[first].shape[1], rows[first].dtype):
            raise ValueError(
                f"graph {i}: {name} has {rows[i].shape[1]} columns of {rows[i].dtype}, "
                f"graphs before it {rows[first].shape[1]} of {rows[first].dtype}"
            )
    if len(without := np.setdiff1d(np.flatnonzero(lengths), list(rows))):
        raise ValueError(f"graph {first} has {name}, graph {without[0]} has none")
    return np.concatenate(list(rows.values()))


def _rows(
    name: str, value: Any, length: int, one_column: bool, labels: Callable[[Any], np.ndarray] | None
) -> np.ndarray:
    """Values as int64, float64 or objects ``[length, width]``."""
    labels = None if one_column or isinstance(value, torch.Tensor) else labels
    if labels is not None and _are_whole_tuples(value):
        array = _hashable(name, labels(value))
    else:
        try:
            array = numpy_of(value)
        except (TypeError, ValueError, RuntimeError) as error:
            if labels is None:
                raise ValueError(f"{name} must hold real numbers: {error}") from error
            array = _hashable(name, labels(value))
    if array.shape[:1] != (length,):
        raise ValueError(f"{name} has shape {list(array.shape)}, expected {length} rows")
    array = array.reshape(length, -1 if length else 0)
    if one_column and length and array.shape[1] != 1:
        raise ValueError(f"{name} must be [E], got {list(array.shape)}")
    if array.dtype.kind == "O":
        return array
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite")
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)


def _are_whole_tuples(value: Any) -> bool:
    """Whether items are tuples without floats: labels, in each graph alike; others may hold strings."""
    tuples = [item for item in value if isinstance(item, tuple)] if isinstance(value, (list, tuple)) else []
    return bool(tuples) and not any(isinstance(part, (float, np.floating)) for part in chain(*tuples))


def _hashable(name: str, labels: np.ndarray) -> np.ndarray:
    try:
        set(labels)
    except TypeError as error:
        raise ValueError(f"{name} must hold numbers or hashable labels: {error}") from error
    return labels
