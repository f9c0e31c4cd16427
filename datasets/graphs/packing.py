"""Plain arrays to those of the packed graph store, and what these refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Dataset

from wlkernelnn.datasets.files.targets import beyond_float32, kept_by_float32, lost_in_float32

from .arrays import Arrays, check_lengths, distinct_rows, pack_strings, smallest
from .description import Description
from .from_pyg import pyg_parts
from .random_walks import UNITS


class Packable(Dataset):
    """A store of graphs that is made of plain arrays."""

    @classmethod
    def from_pyg(
        cls, graphs: Any, task: str | None = None, edge_values: Sequence[Sequence[float]] | None = None
    ) -> Self:
        """Pack PyG's graphs: a list of ``Data``, or a data set such as ``TUDataset``, ``ZINC`` or ``QM9``.

        Every value is kept as it is, or refused; edges are sorted by target. Convert all graphs that belong
        together at once, then take parts of the store: codes of edges may depend on which edges there are,
        unless ``edge_values`` says what they stand for.

        Args:
            graphs: Graphs with ``edge_index``, and any of

                * ``x``: integers become codes of nodes, floats features of nodes; without ``x`` all nodes
                  have the code 0;
                * ``edge_type [E]``, or ``edge_attr [E]`` or ``[E, D]``: a single integer from 0 to 255 is the
                  edge's code itself; of one-hot rows the code is the column of the 1; other rows are numbered
                  (up to 256 different ones), and ``description.edge_values`` has the row of each code;
                * ``y`` of shape ``[1]``, ``[1, T]`` or none: targets; a graph without ``y`` has missing
                  ones (NaN);
                * ``smiles`` (strings) and ``graph_x`` (``[1, W]``);
                * ``censored`` (``[1, T]``): 1 where a target is a lower bound, −1 where it is an upper one.

                Items of a store keep its codes, its classes and what its columns are called. Other
                attributes, such as ``pos``, are left out, with a warning.
            task: ``"regression"``, ``"classification"`` (every target is 0 or 1), ``"multiclass"`` or
                ``"ordinal"`` (classes that have an order). Default: targets that are all 0, 1 or missing are
                a classification, other integers are classes, other floats a regression.
            edge_values: The rows of ``edge_attr`` that the codes 0, 1, … stand for, such as
                ``store.description.edge_values`` of the graphs that a network was trained on; another row is
                refused.

        Raises:
            TypeError: Not a list or data set of ``Data``.
            ValueError: A value that the store cannot keep: names the graph, the attribute, what was expected
                and what was given.
        """
        return cls.pack(**pyg_parts(graphs, task, edge_values))

    @classmethod
    def pack(
        cls,
        x: np.ndarray,
        edge_index: np.ndarray,
        node_ptr: np.ndarray,
        edge_ptr: np.ndarray,
        *,
        edge_type: np.ndarray | None = None,
        y: np.ndarray | None = None,
        row: np.ndarray | None = None,
        smiles: Sequence[str] | None = None,
        graph_x: np.ndarray | None = None,
        censored: np.ndarray | None = None,
        description: Description | None = None,
        split_idx: dict[str, np.ndarray] | None = None,
    ) -> Self:
        """Pack plain arrays.

        Args:
            x: Node codes, non-negative integers ``[ΣV, F]``, and behind them the numbers of
                ``description.num_node_values``, if there are any; or features, floats ``[ΣV,
                description.num_node_features]``.
            edge_index: ``[2, ΣE]`` source and target, counted inside each graph, in any order.
            node_ptr, edge_ptr: ``[G+1]`` where each graph begins.
            edge_type: Edge codes ``[ΣE]``, default all 0.
            y: Targets ``[G, tasks]``, NaN = missing; default no tasks.
            row: Input row of each graph, default 0 … G−1.
            smiles: One string per graph.
            graph_x: Features of whole graphs, counts from 0 to 255 or numbers (of a floating-point type),
                ``[G, num_graph_values]``.
            censored: Which targets are bounds: 1 lower, −1 upper ones, ``[G, tasks]``; default none.
            description: What the codes and targets mean.
            split_idx: Graphs of ``"train"``, ``"valid"`` and ``"test"``, if there is a split.

        Raises:
            ValueError: A code is not a non-negative integer or not one of the description's, a target or a
                feature of a graph does not fit, an edge leaves its graph, a split has graphs that are not
                there, or shapes contradict each other.
        """
        about = description or Description()
        node_ptr, edge_ptr = _pointers("node_ptr", node_ptr), _pointers("edge_ptr", edge_ptr)
        num_graphs = len(node_ptr) - 1
        edges = _codes("edge_index", edge_index, "[2, ΣE]")
        if len(edges) != 2:
            raise ValueError(f"PackedGraphs: edge_index must be [2, ΣE], got shape {list(edges.shape)}")
        source, target = edges
        x = _features(x, about.num_node_features) if about.num_node_features else _codes("x", x, "[ΣV, F]")
        edge_type = _codes(
            "edge_type", np.zeros(len(source), np.int64) if edge_type is None else edge_type, "[ΣE]"
        )
        check_lengths(
            edge_ptr=(len(edge_ptr), num_graphs + 1),
            x=(len(x), node_ptr[-1]),
            edge_index=(len(source), edge_ptr[-1]),
            edge_type=(len(edge_type), len(source)),
            smiles=(num_graphs if smiles is None else len(smiles), num_graphs),
        )
        num_nodes = np.repeat(np.diff(node_ptr), np.diff(edge_ptr))
        if (outside := np.flatnonzero((source >= num_nodes) | (target >= num_nodes))).size:
            e = outside[0]
            nodes = f"from node {source[e]} to {target[e]} of a graph with {num_nodes[e]} nodes"
            raise ValueError(f"PackedGraphs: edge {e} goes {nodes}")
        first = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
        order, reverse = np.lexsort((source, target + first)), np.lexsort((target, source + first))
        is_undirected = bool(
            (source[order] == target[reverse]).all()
            and (target[order] + first[order] == source[reverse] + first[reverse]).all()
        )
        in_degree = np.bincount(target + first, minlength=int(node_ptr[-1]))
        table, node_type = distinct_rows(x)
        _check_dims(about, table, node_type, edge_type)
        arrays = Arrays(
            node_type=smallest(node_type),
            node_table=torch.from_numpy(table) if about.num_node_features else smallest(table),
            source=smallest(source[order]),
            in_degree=smallest(in_degree),
            edge_type=smallest(edge_type[order]),
            node_ptr=torch.from_numpy(node_ptr),
            edge_ptr=torch.from_numpy(edge_ptr),
            y=torch.zeros(num_graphs, 0) if y is None else packed_targets(y, num_graphs),
            row=torch.arange(num_graphs) if row is None else torch.from_numpy(_codes("row", row, "[G]")),
        )
        if smiles is not None:
            text, text_ptr = pack_strings(smiles)
            arrays = replace(arrays, smiles=text, smiles_ptr=text_ptr)
        if graph_x is not None:
            arrays = replace(arrays, graph_x=_graph_values(graph_x))
        arrays = replace(arrays, censored=packed_bounds(censored, arrays.y))
        about = replace(about, is_undirected=is_undirected, num_graph_values=arrays.graph_x.size(1))
        return cls(arrays, about, split_idx)


def packed_bounds(censored: np.ndarray | None, y: Tensor) -> Tensor:
    """Which of the targets ``[G, tasks]`` are bounds, int8 as ``y``, or without a row if none is."""
    if censored is None or not np.any(censored):
        return torch.zeros(0, 0, dtype=torch.int8)
    sides = np.asarray(censored, dtype=np.int8)
    sides = sides[:, None] if sides.ndim == 1 else sides
    if sides.shape != tuple(y.shape):
        raise ValueError(f"censored must be {list(y.shape)}, as y, got {list(np.shape(censored))}")
    return torch.from_numpy(sides)


def packed_targets(y: Any, num_graphs: int) -> Tensor:
    """A copy of targets ``[G, tasks]``: float32 where that alters none of them, else float64."""
    values = np.asarray(y.detach().cpu().double() if isinstance(y, Tensor) else y, dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != num_graphs:
        shapes = f"[{num_graphs}] or [{num_graphs}, tasks], for all graphs and not for a view"
        raise ValueError(f"PackedGraphs: y must be {shapes}, got shape {list(values.shape)}")
    if (wrong := np.argwhere(lost_in_float32(values))).size:
        value = f"{values[tuple(wrong[0])]:g} for graph {wrong[0][0]}"
        expected = "numbers that a float32 holds, or NaN for missing ones"
        raise ValueError(f"PackedGraphs: y must hold {expected}, got {value}")
    values = values.reshape(num_graphs, *(values.shape[1:] or (1,)))
    short = values.astype(np.float32)
    return torch.from_numpy(short if np.array_equal(short, values, equal_nan=True) else values.copy())


def _codes(name: str, values: Any, shape: str) -> np.ndarray:
    """Values as int64 of this shape, if that changes none of them and none is negative."""
    given = np.asarray(values)
    if given.ndim != shape.count(",") + 1:
        raise ValueError(f"PackedGraphs: {name} must be {shape}, got shape {list(given.shape)}")
    with np.errstate(invalid="ignore"):
        codes = given.astype(np.int64)
    if given.size and (codes.min() < 0 or (given.dtype.kind not in "iu" and (codes != given).any())):
        limits = f"{given.min()} … {given.max()}"
        raise ValueError(f"PackedGraphs: {name} must hold non-negative integers, got {limits}")
    return codes


def _features(values: Any, num_features: int) -> np.ndarray:
    given = np.asarray(values)
    if given.ndim != 2 or given.shape[1] != num_features:
        expected = f"[ΣV, num_node_features = {num_features}]"
        raise ValueError(f"PackedGraphs: x must be {expected}, got shape {list(given.shape)}")
    if (wrong := np.argwhere(np.isnan(given) | beyond_float32(given))).size:
        where = f"x[{wrong[0][0]}, {wrong[0][1]}] is {given[tuple(wrong[0])]}"
        raise ValueError(f"PackedGraphs: {where}, expected a number that a float32 holds")
    return np.ascontiguousarray(given, dtype=np.float32)


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
            expected = f"{len(about.node_dims)} of node_dims and {about.num_node_values} of num_node_values"
            raise ValueError(f"PackedGraphs: x has {table.shape[1]} columns, expected {expected}")
        # Every node has a row of the table, which is much shorter.
        if (wrong := np.argwhere(table > most)).size:
            row, column = wrong[0]
            where = f"x[{np.flatnonzero(node_type == row)[0]}, {column}] is {table[row, column]}"
            raise ValueError(f"PackedGraphs: {where}, expected at most {most[column]} by the description")
    if about.num_edge_types and edge_type.max(initial=0) >= about.num_edge_types:
        where = f"edge_type[{edge_type.argmax()}] is {edge_type.max()}"
        expected = f"less than num_edge_types = {about.num_edge_types}"
        raise ValueError(f"PackedGraphs: {where}, expected {expected}")


def _graph_values(values: Any) -> Tensor:
    given = np.asarray(values)
    if given.ndim != 2:
        raise ValueError(
            f"PackedGraphs: graph_x must be [G, num_graph_values], got shape {list(given.shape)}"
        )
    if np.issubdtype(given.dtype, np.floating):
        if (np.isnan(given) | beyond_float32(given)).any():
            raise ValueError("PackedGraphs: graph_x must hold numbers that a float32 holds")
        if (wrong := np.flatnonzero(~kept_by_float32(given))).size:
            raise ValueError(
                f"PackedGraphs: graph_x[:, {wrong[0]}]: a float32 cannot tell its values apart: subtract a "
                "constant from all of them"
            )
        return torch.from_numpy(np.ascontiguousarray(given, dtype=np.float32))
    result = given.astype(np.uint8)
    if (result != given).any():
        limits = f"{given.min()} … {given.max()}"
        raise ValueError(f"PackedGraphs: graph_x must hold integers from 0 to 255, got {limits}")
    return torch.from_numpy(result)
