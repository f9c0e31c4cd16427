"""Lists and data sets of PyG's ``Data`` as plain arrays: what a store keeps of them, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_geometric.data import Data

from wlkernelnn.ops.spans import bounds_of
from wlkernelnn.utils.checks import check_one_of
from wlkernelnn.utils.text import shortened

from .arrays import distinct_rows
from .attributes import attribute_rows, edge_index_of, nodes_of, numpy_of
from .description import SEVERAL_CLASSES, TASKS, Description
from .pyg import item_of, item_of_codes, shared_features

logger = logging.getLogger("wlkernelnn")

#: Different edges that a store can tell apart: each is a row of the tables of a layer.
MOST_EDGE_CODES = 256
_READ = {
    *("x", "edge_index", "edge_type", "edge_attr", "edge_weight", "num_nodes"),
    *("y", "censored", "smiles", "graph_x"),
}


def pyg_parts(
    graphs: Any, task: str | None, edge_values: Sequence[Sequence[float]] | None = None
) -> dict[str, Any]:
    """The arguments of ``PackedGraphs.pack``; see ``PackedGraphs.from_pyg``."""
    items = _items(graphs)
    num_nodes = nodes_of(items)
    edges = [edge_index_of(graph, i, n) for i, (graph, n) in enumerate(zip(items, num_nodes, strict=True))]
    num_edges = np.array([part.shape[1] for part in edges], dtype=np.int64)
    nodes, ends = _Rows(items, bounds_of(num_nodes)), _Rows(items, bounds_of(num_edges))
    x, about_x = _node_features(nodes)
    edge_type, about_edges = _edge_codes(ends, _values_of(items, edge_values))
    y, about_y = _targets(items, task)
    name = getattr(graphs, "name", "")
    smiles = [graph.get("smiles") for graph in items]
    written = [isinstance(text, str) for text in smiles]
    left_out = set().union(*(graph.keys() for graph in items)) - _READ
    if any(text is not None and not isinstance(text, str) for text in smiles):
        left_out.add("smiles that is not a text")
    if left_out:
        shown = ", ".join(sorted(left_out))
        logger.warning(f"PackedGraphs.from_pyg: a store has no place for {shown}: left out")
    if any(written) and not all(written):
        raise ValueError(f"graph {written.index(False)}: has no smiles, and graph {written.index(True)} has")
    return {
        "x": x,
        "edge_index": np.concatenate([np.zeros((2, 0), np.int64), *edges], axis=1),
        "node_ptr": nodes.ptr,
        "edge_ptr": ends.ptr,
        "edge_type": edge_type,
        "y": y,
        "censored": None if y is None else _bounds(items, y.shape),
        "smiles": smiles if any(written) else None,
        "graph_x": attribute_rows(items, "graph_x", np.ones(len(items), dtype=np.int64)),
        "description": Description(
            name=name if isinstance(name, str) else "",
            features=shared_features(items),
            **about_x,
            **about_edges,
            **about_y,
        ),
    }


def _values_of(
    graphs: list[Data], given: Sequence[Sequence[float]] | None
) -> tuple[tuple[float, ...], ...] | None:
    """What codes of edges stand for, as it is given or as items of a store know it; ``None``: nobody says."""
    known = _checked_values(given) if given is not None and len(given) else None
    for i, graph in enumerate(graphs):
        item = item_of(graph)
        if item is not None and item.edge_values and graph.get("edge_type") is not None:
            known = item.edge_values if known is None else known
            if item.edge_values != known:
                raise ValueError(
                    f"graph {i}: is of a store whose codes of edges stand for other values than edge_values, "
                    "or than those of graphs before it"
                )
    return known


def _checked_values(given: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    try:
        values = np.asarray(given)
        values = values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    whole = values.ndim == 2 and values.shape[1] > 0 and bool(np.isfinite(values).all())
    if not whole or len(distinct_rows(values)[0]) < len(values) or len(values) > MOST_EDGE_CODES:
        raise ValueError(
            f"edge_values: expected 1 to {MOST_EDGE_CODES} different rows of finite numbers, [K, D], got "
            f"{shortened(given)}"
        )
    return tuple(map(tuple, values.tolist()))


def _items(graphs: Any) -> list[Data]:
    if isinstance(graphs, Data) or not hasattr(graphs, "__len__"):
        raise TypeError(
            f"graphs must be a list of PyG's Data or a data set of them, got one {type(graphs).__name__}"
        )
    items = [graphs[i] for i in range(len(graphs))]
    for i, item in enumerate(items):
        if not isinstance(item, Data):
            raise TypeError(f"graph {i}: expected a PyG Data, got {type(item).__name__}")
    return items


@dataclass(frozen=True)
class _Rows:
    """Graphs, and where the rows of their nodes or edges begin."""

    graphs: list[Data]
    ptr: np.ndarray

    def of(self, name: str) -> np.ndarray | None:
        return attribute_rows(self.graphs, name, np.diff(self.ptr))

    def refuse(self, name: str, rows: np.ndarray, wrong: Any, expected: str) -> None:
        """A ``ValueError`` about the first wrong one of the rows, if there is any."""
        if (where := np.flatnonzero(wrong)).size:
            graph = np.searchsorted(self.ptr, where[0], side="right") - 1
            given = rows[where[0]].tolist()
            raise ValueError(
                f"graph {graph}: {name}[{where[0] - self.ptr[graph]}] is {given}, expected {expected}"
            )


def _node_features(nodes: _Rows) -> tuple[np.ndarray, dict[str, Any]]:
    x = nodes.of("x")
    if not nodes.ptr[-1]:  # rows that are not there tell their width
        empty = (numpy_of(graph.x) for graph in nodes.graphs if graph.x is not None)
        x = next((rows for rows in empty if rows.ndim == 2), None)
        x = x if x is None or x.dtype.kind == "f" else x.astype(np.int64)
    if x is None or not x.shape[1]:
        return np.zeros((nodes.ptr[-1], 1), dtype=np.int64), {"node_dims": (1,)}
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):
            kept = x.astype(np.float32)
        # Floats of Python are rounded, as torch.tensor rounds them.
        typed = np.repeat([hasattr(graph.get("x"), "dtype") for graph in nodes.graphs], np.diff(nodes.ptr))
        wrong = (kept != x) & (typed[:, None] | np.isinf(kept))
        nodes.refuse("x", x, wrong.any(axis=1), "numbers that a float32 holds exactly (x.float())")
        return kept, {"num_node_features": x.shape[1]}
    nodes.refuse("x", x, (x < 0).any(axis=1), "codes 0, 1, … (integers), or floats")
    return x, _about_codes(nodes, x.max(axis=0, initial=0) + 1)


def _about_codes(nodes: _Rows, dims: np.ndarray) -> dict[str, Any]:
    """What columns of codes are: ``dims`` have the values found in each, items of a store know of more."""
    notes = {item_of_codes(graph) for graph, n in zip(nodes.graphs, np.diff(nodes.ptr), strict=True) if n}
    known = {of for of in notes if of is not None and len(of.node_dims) + of.num_node_values == len(dims)}
    for of in known:
        coded = len(of.node_dims)
        dims[:coded] = np.maximum(dims[:coded], of.node_dims)
    values = {of.num_node_values for of in known}
    num_values = values.pop() if known == notes and len(values) == 1 else 0
    return {"node_dims": tuple(dims[: len(dims) - num_values].tolist()), "num_node_values": num_values}


def _edge_codes(
    edges: _Rows, known: tuple[tuple[float, ...], ...] | None
) -> tuple[np.ndarray | None, dict[str, Any]]:
    """One code for each edge, and what the codes mean: the rows of ``known``, if it is given."""
    edge_type, rows, weight = (edges.of(name) for name in ("edge_type", "edge_attr", "edge_weight"))
    if weight is not None:
        edges.refuse("edge_weight", weight, (weight != 1).any(axis=1), "1: a store has no weights of edges")
    if edge_type is not None and rows is not None:
        raise ValueError("graph 0: expected edge_type or edge_attr, got both")
    if edge_type is not None:
        wrong = ((edge_type < 0) | (edge_type % 1 != 0)).any(axis=1)
        edges.refuse("edge_type", edge_type, wrong, "a code 0, 1, … (an integer)")
        rows = edge_type
    if known is not None:
        codes, values = _known_codes(edges, np.array(known), edge_type, rows), np.array(known)
        if rows is not edge_type and rows is not None and (values % 1 == 0).all():
            values = values.astype(rows.dtype)
        return codes, {"num_edge_types": len(known), "edge_values": tuple(map(tuple, values.tolist()))}
    notes = {item_of(graph) for graph in edges.graphs if graph.get("edge_type") is not None}
    num_known = max((of.num_edge_types for of in notes if of is not None), default=0)
    if rows is None or not rows.shape[1]:
        return None, {"num_edge_types": num_known}
    if rows.shape[1] == 1 and are_codes(rows):
        return rows[:, 0].astype(np.int64), {"num_edge_types": max(int(rows.max(initial=0)) + 1, num_known)}
    values = np.eye(rows.shape[1], dtype=rows.dtype)
    if rows.shape[1] > 1 and ((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all():
        codes = rows.argmax(axis=1)
    else:
        values, codes = distinct_rows(rows)
        if len(values) > MOST_EDGE_CODES:
            expected = f"at most {MOST_EDGE_CODES} different rows in all graphs, got {len(values):,}"
            edges.refuse("edge_attr", rows, codes >= MOST_EDGE_CODES, expected)
    return codes, {
        "num_edge_types": len(values),
        "edge_values": tuple(tuple(row) for row in values.tolist()),
    }


def _known_codes(
    edges: _Rows, known: np.ndarray, edge_type: np.ndarray | None, rows: np.ndarray | None
) -> np.ndarray | None:
    """Codes of edges whose rows are among ``known``, or that are given as codes of these."""
    if edge_type is not None:
        expected = f"a code below {len(known)}, the number of edge_values"
        edges.refuse("edge_type", edge_type, (edge_type >= len(known)).any(axis=1), expected)
        return edge_type[:, 0].astype(np.int64)
    if rows is None:
        if edges.ptr[-1]:
            raise ValueError("edges have neither edge_attr, whose rows edge_values lists, nor edge_type")
        return None
    if rows.shape[1] != known.shape[1]:
        raise ValueError(f"edge_attr has {rows.shape[1]} columns, expected {known.shape[1]}, as edge_values")
    distinct, number = distinct_rows(rows)
    # As float32 has them: what is a float32 here may be a float64 there.
    same = (distinct.astype(np.float32)[:, None] == known.astype(np.float32)).all(axis=2)
    expected = f"one of the {len(known)} rows of edge_values"
    edges.refuse("edge_attr", rows, ~same.any(axis=1)[number], expected)
    return same.argmax(axis=1)[number]


def are_codes(column: np.ndarray) -> bool:
    """Whether a store keeps a column of ``edge_attr`` as codes."""
    if column.dtype.kind not in "if":
        return False
    return bool(((column >= 0) & (column < MOST_EDGE_CODES) & (column % 1 == 0)).all())


def _targets(graphs: list[Data], task: str | None) -> tuple[np.ndarray | None, dict[str, Any]]:
    """Targets float64 ``[G, tasks]`` (NaN = missing), and their task."""
    if task is not None:
        check_one_of("task", task, TASKS)
    rows = {i: _target(i, graph.y) for i, graph in enumerate(graphs) if graph.get("y") is not None}
    if not rows:
        return None, {}
    width = len(next(iter(rows.values())))
    values = np.full((len(graphs), width), np.nan)
    for i, row in rows.items():
        if len(row) != width:
            raise ValueError(f"graph {i}: y has {len(row)} targets, graphs before it {width}")
        values[i] = row
        if row.dtype.kind in "iu" and values[i].tolist() != row.tolist():  # Python compares every digit
            raise ValueError(f"graph {i}: y is {row.tolist()}, expected numbers that a float64 holds exactly")
    known = _known_classes(graphs, values) if task is None else None
    if known is not None:
        return values, known
    are_classes = all(row.dtype.kind != "f" for row in rows.values())
    are_binary = bool(((values == 0) | (values == 1) | np.isnan(values)).all())
    if task is None:
        several = are_classes and not are_binary
        task = "multiclass" if several else "classification" if are_binary else "regression"
    if task in SEVERAL_CLASSES:
        wrong = ~(np.isnan(values) | ((values >= 0) & (values % 1 == 0)))
        for i in np.flatnonzero(wrong.any(axis=1) | (width > 1)).tolist():
            expected = 'one class, 0, 1, …, for each graph; task="regression" takes numbers'
            raise ValueError(f"graph {i}: y is {rows.get(i, values[i]).tolist()}, expected {expected}")
    return values, {"task": task}


def _known_classes(graphs: list[Data], values: np.ndarray) -> dict[str, Any] | None:
    """Task and names of classes of items of stores, if their targets still are such classes."""
    notes = {(None, ()) if (of := item_of(graph)) is None else (of.task, of.classes) for graph in graphs}
    task, classes = notes.pop()
    if notes or task not in SEVERAL_CLASSES or values.shape[1] > 1:
        return None
    there = values[~np.isnan(values)]
    if ((there < 0) | (there % 1 != 0) | (there >= len(classes))).any():
        return None
    return {"task": task, "classes": classes}


def _bounds(graphs: Sequence[Data], shape: tuple[int, ...]) -> np.ndarray | None:
    """Which targets of items of stores are bounds, int8 ``[G, tasks]``; ``None`` where none is.

    Raises:
        ValueError: ``censored`` has another shape than ``y``, or other values than −1, 0 and 1.
    """
    sides = np.zeros(shape, np.int8)
    for i, graph in enumerate(graphs):
        if graph.get("censored") is None:
            continue
        row = numpy_of(graph.censored).reshape(-1)
        if row.shape != shape[1:] or not np.isin(row, (-1, 0, 1)).all():
            raise ValueError(f"graph {i}: censored is {row.tolist()}, expected {shape[1]} of −1, 0 and 1")
        sides[i] = row
    return sides if sides.any() else None


def _target(i: int, y: Any) -> np.ndarray:
    try:
        row = numpy_of(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"graph {i}: y must hold real numbers: {error}") from error
    if row.shape not in ((), (1,)) and not (row.ndim == 2 and len(row) == 1):
        raise ValueError(
            f"graph {i}: y has shape {list(row.shape)}, expected [1] or [1, tasks]: targets are of graphs"
        )
    return row.reshape(-1)
