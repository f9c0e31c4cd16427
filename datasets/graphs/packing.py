"""Plain arrays to those of the packed graph store, and what these refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets.files.table import beyond_float32, lost_in_float32

from .arrays import Arrays, distinct_rows, pack_strings, smallest
from .description import Description
from .random_walks import UNITS


def packed_arrays(
    about: Description,
    x: np.ndarray,
    edge_index: np.ndarray,
    node_ptr: np.ndarray,
    edge_ptr: np.ndarray,
    *,
    edge_type: np.ndarray | None,
    y: np.ndarray | None,
    row: np.ndarray | None,
    smiles: Sequence[str] | None,
    graph_x: np.ndarray | None,
) -> tuple[Arrays, bool]:
    """The arrays of a store, and whether every edge has one that goes back.

    Args:
        about: What the codes mean.
        x, edge_index, node_ptr, edge_ptr, edge_type, y, row, smiles, graph_x: As of
            :meth:`PackedGraphs.pack <wlkernelnn.datasets.PackedGraphs.pack>`.

    Raises:
        ValueError: As there.
    """
    node_ptr, edge_ptr = _pointers("node_ptr", node_ptr), _pointers("edge_ptr", edge_ptr)
    num_graphs = len(node_ptr) - 1
    edges = _codes("edge_index", edge_index, "[2, ΣE]")
    if len(edges) != 2:
        raise ValueError(f"PackedGraphs: edge_index must be [2, ΣE], got shape {list(edges.shape)}")
    source, target = edges
    x = _codes("x", x, "[ΣV, F]")
    edge_type = (
        np.zeros(len(source), np.int64) if edge_type is None else _codes("edge_type", edge_type, "[ΣE]")
    )
    lengths = {
        "edge_ptr": (len(edge_ptr), num_graphs + 1),
        "x": (len(x), node_ptr[-1]),
        "edge_index": (len(source), edge_ptr[-1]),
        "edge_type": (len(edge_type), len(source)),
        "smiles": (num_graphs if smiles is None else len(smiles), num_graphs),
        "graph_x": (num_graphs if graph_x is None else len(graph_x), num_graphs),
    }
    for name, (came, wanted) in lengths.items():
        if came != wanted:
            raise ValueError(f"PackedGraphs: {name} has {came} entries, expected {wanted}")
    num_nodes = np.repeat(np.diff(node_ptr), np.diff(edge_ptr))
    if (outside := np.flatnonzero((source >= num_nodes) | (target >= num_nodes))).size:
        e = outside[0]
        raise ValueError(
            f"PackedGraphs: edge {e} goes from node {source[e]} to {target[e]} of a graph "
            f"with {num_nodes[e]} nodes"
        )
    first = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    order, reverse = np.lexsort((source, target + first)), np.lexsort((target, source + first))
    is_undirected = bool(
        (source[order] == target[reverse]).all()
        and (target[order] + first[order] == source[reverse] + first[reverse]).all()
    )
    in_degree = np.bincount(target + first, minlength=int(node_ptr[-1]))
    table, node_type = distinct_rows(x)
    _check_dims(about, table, node_type, edge_type)
    no_text = torch.zeros(0, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64)
    text, text_ptr = no_text if smiles is None else pack_strings(smiles)
    arrays = Arrays(
        node_type=smallest(node_type),
        node_table=smallest(table),
        source=smallest(source[order]),
        in_degree=smallest(in_degree),
        edge_type=smallest(edge_type[order]),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        y=torch.zeros(num_graphs, 0) if y is None else packed_targets(y, num_graphs),
        row=torch.arange(num_graphs) if row is None else torch.from_numpy(_codes("row", row, "[G]")),
        smiles=text,
        smiles_ptr=text_ptr,
        graph_x=_graph_values(graph_x),
    )
    return arrays, is_undirected


def packed_targets(y: Any, num_graphs: int) -> Tensor:
    """A copy of targets, float32 ``[G, tasks]``."""
    values = np.asarray(y.detach().cpu().double() if isinstance(y, Tensor) else y, dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != num_graphs:
        raise ValueError(
            f"PackedGraphs: y must be [{num_graphs}] or [{num_graphs}, tasks], for all graphs and not for a "
            f"view, got shape {list(values.shape)}"
        )
    if (wrong := np.argwhere(lost_in_float32(values))).size:
        value = values[tuple(wrong[0])]
        raise ValueError(
            "PackedGraphs: y must hold numbers that a float32 holds, or NaN for missing ones, got "
            f"{value:g} for graph {wrong[0][0]}"
        )
    return torch.from_numpy(values.astype(np.float32).reshape(num_graphs, *(values.shape[1:] or (1,))))


def _codes(name: str, values: Any, shape: str) -> np.ndarray:
    """Values as int64 of this shape, if that changes none of them and none is negative."""
    came = np.asarray(values)
    if came.ndim != shape.count(",") + 1:
        raise ValueError(f"PackedGraphs: {name} must be {shape}, got shape {list(came.shape)}")
    with np.errstate(invalid="ignore"):
        codes = came.astype(np.int64)
    if came.size and (codes.min() < 0 or (came.dtype.kind not in "iu" and (codes != came).any())):
        raise ValueError(
            f"PackedGraphs: {name} must hold non-negative integers, got {came.min()} … {came.max()}"
        )
    return codes


def _pointers(name: str, values: Any) -> np.ndarray:
    ptr = _codes(name, values, "[G+1]")
    if not ptr.size or ptr[0] or (np.diff(ptr) < 0).any():
        raise ValueError(f"PackedGraphs: {name} must begin with 0 and never decrease")
    return ptr


def _check_dims(about: Description, table: np.ndarray, node_type: np.ndarray, edge_type: np.ndarray) -> None:
    """Refuse codes that a description, where it says something of them, does not know."""
    if about.node_dims:
        most = [*(size - 1 for size in about.node_dims), *[UNITS] * about.num_node_values]
        if table.shape[1] != len(most):
            raise ValueError(
                f"PackedGraphs: x has {table.shape[1]} columns, expected {len(about.node_dims)} of node_dims "
                f"and {about.num_node_values} of num_node_values"
            )
        # Every node has a row of the table, which is much shorter.
        if (wrong := np.argwhere(table > most)).size:
            row, column = wrong[0]
            raise ValueError(
                f"PackedGraphs: x[{np.flatnonzero(node_type == row)[0]}, {column}] is {table[row, column]}, "
                f"expected at most {most[column]} by the description"
            )
    if about.num_edge_types and edge_type.max(initial=0) >= about.num_edge_types:
        raise ValueError(
            f"PackedGraphs: edge_type[{edge_type.argmax()}] is {edge_type.max()}, expected less than "
            f"num_edge_types = {about.num_edge_types}"
        )


def _graph_values(values: np.ndarray | None) -> Tensor:
    if values is None:
        return torch.zeros(0, 0, dtype=torch.uint8)
    came = np.asarray(values)
    if came.ndim != 2:
        raise ValueError(f"PackedGraphs: graph_x must be [G, num_graph_values], got shape {list(came.shape)}")
    if np.issubdtype(came.dtype, np.floating):
        if (np.isnan(came) | beyond_float32(came)).any():
            raise ValueError("PackedGraphs: graph_x must hold numbers that a float32 holds")
        return torch.from_numpy(np.ascontiguousarray(came, dtype=np.float32))
    result = came.astype(np.uint8)
    if (result != came).any():
        raise ValueError(
            f"PackedGraphs: graph_x must hold integers from 0 to 255, got {came.min()} … {came.max()}"
        )
    return torch.from_numpy(result)
