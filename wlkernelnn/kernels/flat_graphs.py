"""Graphs in every form that users have them, as flat arrays that two sides of a kernel share."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import networkx
import numpy as np
from torch_geometric.data import Data

from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.graphs.arrays import bounds_of, features_of, take_spans
from wlkernelnn.datasets.graphs.attributes import attribute_rows, edge_index_of, nodes_of, numpy_of
from wlkernelnn.datasets.graphs.description import Description, numbered
from wlkernelnn.datasets.graphs.from_pyg import are_codes
from wlkernelnn.datasets.graphs.loader import check_untransformed
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.graphs.pyg import ItemOf, item_of, shared_features
from wlkernelnn.datasets.molecules.ring_nodes import are_atoms

from .base import is_list, objects, structures_in
from .networkx_data import SAME_NAMES, networkx_data

EDGE_FEATURES = tuple(SAME_NAMES)


@dataclass(frozen=True)
class FlatGraphs:
    """Graphs end to end.

    Attributes:
        x: Floats ``[ΣV, d]`` (compared by inner products), integer codes or hashable labels ``[ΣV, F]``
            (equal rows are alike), or ``None`` (all nodes are alike).
        source, target: int64 ``[ΣE]``, counted over all graphs.
        node_ptr, edge_ptr: int64 ``[n+1]``.
        edge_type: int64 ``[ΣE]``, or ``None``.
        edge_attr: Floats, codes or labels ``[ΣE, D]``, compared as those of ``x``, or ``None``.
        edge_weight: float64 ``[ΣE]``, or ``None``.
        edge_values: Rows of ``edge_attr`` that codes of ``edge_type`` stand for, of a store.
        untyped: Every ``edge_type`` is 0, of a store whose description knows of none.
        unlabelled: Every ``x`` is 0, of a store whose description knows of no other code.
        stored: ``edge_type`` is of a store, which keeps one column of whole numbers of ``edge_attr`` there.
        features: Name of the columns of ``x`` and of the digits of ``edge_type``, of molecules.
        is_atom: Booleans ``[ΣV]`` of molecules whose rings are nodes too; ``None``: no ring is a node.
        shared: Results that several kernels need of the same edges, by name, each with its ``source``.
    """

    x: np.ndarray | None
    source: np.ndarray
    target: np.ndarray
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    edge_type: np.ndarray | None = None
    edge_attr: np.ndarray | None = None
    edge_weight: np.ndarray | None = None
    edge_values: tuple[tuple[float, ...], ...] = ()
    untyped: bool = False
    unlabelled: bool = False
    stored: bool = False
    features: str = ""
    is_atom: np.ndarray | None = None
    shared: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.node_ptr)

    def __len__(self) -> int:
        return len(self.node_ptr) - 1


def flat_graphs(graphs: Any, features: str = "ogb") -> FlatGraphs:
    """Flatten graphs.

    Args:
        graphs: A :class:`~wlkernelnn.datasets.PackedGraphs`, or a sequence (list, array) of PyG ``Data``,
            of networkx graphs whose attributes have the names of ``Data``, or of SMILES. Values of ``x``
            and ``edge_attr`` may be hashable labels of any kind.
        features: Columns of SMILES, see :func:`~wlkernelnn.datasets.get_features`.

    Raises:
        TypeError: Not such a sequence.
        ValueError: Graphs that do not go together, or a SMILES that gives no molecule.
    """
    if isinstance(graphs, FlatGraphs):
        return graphs
    if isinstance(graphs, PackedGraphs):
        flat = store_graphs(graphs)
        return _with_rows(flat) if graphs.description.numbered_edges else flat
    graphs = structures_in(graphs)
    if isinstance(graphs, (Data, networkx.Graph)) or not is_list(graphs):
        raise TypeError(f"expected a list of graphs or of SMILES, got one {type(graphs).__name__}")
    items = list(graphs)
    kinds = {_kind(item, i) for i, item in enumerate(items)}
    if len(kinds) > 1:
        raise TypeError(f"graphs of several kinds in one list: {', '.join(sorted(kinds))}")
    if kinds == {"SMILES"}:
        return _from_smiles([str(item) for item in items], features)
    if kinds == {"networkx"}:
        items = [networkx_data(f"graph {i}", item, "x", SAME_NAMES) for i, item in enumerate(items)]
    return _from_data(items)


def _kind(item: Any, i: int) -> str:
    for kind, types in (("SMILES", str), ("Data", Data), ("networkx", networkx.Graph)):
        if isinstance(item, types):
            return kind
    raise TypeError(
        f"item {i}: expected a PyG Data, a networkx graph or a SMILES string, got {type(item).__name__}"
    )


def _from_smiles(smiles: list[str], features: str) -> FlatGraphs:
    packed, rejects = featurize(smiles, features=features)
    if rejects:
        row, text, reason = rejects[0]
        more = f" (and {len(rejects) - 1:,} more)" if len(rejects) > 1 else ""
        raise ValueError(f"SMILES {row}: {text!r}: {reason}{more}")
    return store_graphs(packed)


def store_graphs(packed: PackedGraphs) -> FlatGraphs:
    """The graphs of a store, whose ``edge_type`` has its codes of edges, whatever these stand for."""
    check_untransformed("data", packed)
    a = {name: tensor.numpy() for name, tensor in vars(packed.arrays).items()}
    (node_type, in_degree), _, node_ptr = take_spans(
        a["node_ptr"], packed.index, a["node_type"], a["in_degree"]
    )
    (source, edge_type), num_edges, edge_ptr = take_spans(
        a["edge_ptr"], packed.index, a["source"], a["edge_type"]
    )
    x, features = features_of(a["node_table"])[node_type], packed.description.features
    if x.dtype.kind == "f":  # inner products are of doubles, as those of lists
        x = x.astype(np.float64)
    flat = FlatGraphs(
        x=x,
        source=source + np.repeat(node_ptr[:-1], num_edges),
        target=np.repeat(np.arange(len(node_type)), in_degree),
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        edge_type=edge_type.astype(np.int64),
        features=features,
        is_atom=are_atoms(x, features),
    )
    return _of_store(flat, packed.description)


def _with_rows(graphs: FlatGraphs) -> FlatGraphs:
    """Graphs of a store with the rows that its codes of edges stand for."""
    rows = np.array(graphs.edge_values)[graphs.edge_type]
    return replace(graphs, edge_type=None, edge_attr=rows, edge_values=(), untyped=False, stored=False)


def _with_codes(graphs: FlatGraphs) -> FlatGraphs:
    """Graphs with codes of edges where a store would keep a column of ``edge_attr`` as such."""
    rows = graphs.edge_attr
    if graphs.edge_type is not None or rows is None or rows.shape[1] != 1 or not are_codes(rows):
        return graphs
    return replace(graphs, edge_type=rows[:, 0].astype(np.int64), edge_attr=None)


def _item_with_rows(graph: Data) -> Data:
    """A graph of a store that has numbered its edges, with the rows that the codes stand for."""
    of, codes = item_of(graph), graph.get("edge_type")
    if of is None or codes is None or not numbered(of.edge_values):
        return graph
    graph = copy(graph)
    graph.edge_attr = np.array(of.edge_values)[numpy_of(codes)]
    del graph.edge_type
    return graph


def _from_data(graphs: list[Data]) -> FlatGraphs:
    features, notes = shared_features(graphs), {item_of(graph) for graph in graphs}
    graphs = [_item_with_rows(graph) for graph in graphs]
    num_nodes = nodes_of(graphs)
    edge_indices = [
        edge_index_of(graph, i, n) for i, (graph, n) in enumerate(zip(graphs, num_nodes, strict=True))
    ]
    num_edges = np.array([edges.shape[1] for edges in edge_indices], dtype=np.int64)
    node_ptr = bounds_of(num_nodes)
    edges = np.concatenate([np.zeros((2, 0), np.int64), *edge_indices], axis=1)
    first = np.repeat(node_ptr[:-1], num_edges)
    x = attribute_rows(graphs, "x", num_nodes, objects)
    edge_type = attribute_rows(graphs, "edge_type", num_edges, objects)
    edge_attr = attribute_rows(graphs, "edge_attr", num_edges, objects)
    edge_weight = attribute_rows(graphs, "edge_weight", num_edges, objects)
    if edge_type is not None and edge_type.dtype.kind == "f":
        raise ValueError("edge_type must hold integers; floats go into edge_attr")
    flat = FlatGraphs(
        x=x,
        source=edges[0] + first,
        target=edges[1] + first,
        node_ptr=node_ptr,
        edge_ptr=bounds_of(num_edges),
        edge_type=None if edge_type is None else edge_type.reshape(-1).astype(np.int64),
        edge_attr=edge_attr,
        edge_weight=None if edge_weight is None else edge_weight.reshape(-1).astype(np.float64),
        features=features,
        is_atom=None if x is None else are_atoms(x, features),
    )
    # Items of one store are read as the store.
    of = notes.pop() if len(notes) == 1 else None
    return flat if of is None else _of_store(flat, of)


def _of_store(graphs: FlatGraphs, of: Description | ItemOf) -> FlatGraphs:
    """Graphs with what their store knows of their codes."""
    x, codes = graphs.x, graphs.edge_type
    one_code = x is not None and x.dtype.kind == "i" and x.shape[1] == 1 and not x.any()
    return replace(
        graphs,
        edge_values=() if codes is None else of.edge_values,
        untyped=codes is not None and not of.num_edge_types and not codes.any(),
        unlabelled=one_code and of.node_dims == (1,),
        stored=codes is not None,
    )


def none_of(graphs: FlatGraphs) -> FlatGraphs:
    """No graphs, with the features of some."""
    of_rows = ("x", "source", "target", "edge_type", "edge_attr", "edge_weight", "is_atom")
    rows: dict[str, Any] = {
        name: None if (values := getattr(graphs, name)) is None else values[:0] for name in of_rows
    }
    return replace(graphs, node_ptr=graphs.node_ptr[:1], edge_ptr=graphs.edge_ptr[:1], shared={}, **rows)


def paired(X: Any, Y: Any, features: str = "ogb") -> tuple[FlatGraphs, FlatGraphs | None]:
    """Both sides flat, with the same features on both.

    Raises:
        TypeError, ValueError: As :func:`flat_graphs`, and where only one side has a feature.
    """
    a = flat_graphs(X, features)
    if Y is None:
        return a, None
    b = flat_graphs(Y, features)
    if not (len(a) and len(b)):  # no graphs have the features of the others
        a, b = (side if len(side) else none_of(other) for side, other in ((a, b), (b, a)))
    if (a.edge_weight is None) != (b.edge_weight is None):  # edges without a weight weigh 1
        a, b = (
            replace(side, edge_weight=np.ones(len(side.source))) if side.edge_weight is None else side
            for side in (a, b)
        )
    # Graphs without labels of nodes or types of edges go with those of a store that only has their place.
    if a.x is None or b.x is None:
        a, b = (replace(side, x=None) if side.unlabelled else side for side in (a, b))
    if a.edge_type is None or b.edge_type is None:
        a, b = (replace(side, edge_type=None, edge_values=()) if side.untyped else side for side in (a, b))
    if a.edge_type is None or b.edge_type is None:
        a, b = (_with_rows(side) if side.edge_values else side for side in (a, b))
    if a.stored != b.stored:
        a, b = (side if side.stored else _with_codes(side) for side in (a, b))
    for name in ("x", *EDGE_FEATURES):
        first, second = _together(name, a, b)
        a, b = replace(a, **{name: first}), replace(b, **{name: second})
    # Single graphs that know nothing of their columns have those of the other side.
    if a.is_atom is None and b.is_atom is not None and a.x is not None:
        a = replace(a, is_atom=are_atoms(a.x, b.features))
    elif b.is_atom is None and a.is_atom is not None and b.x is not None:
        b = replace(b, is_atom=are_atoms(b.x, a.features))
    return a, b


def _together(name: str, a: FlatGraphs, b: FlatGraphs) -> Any:
    """A feature of both sides, of the same kind; a side without rows may lack what the other has."""
    first, second = getattr(a, name), getattr(b, name)
    if first is None and second is None:
        return None, None
    no_rows = [(side.node_ptr if name == "x" else side.edge_ptr)[-1] == 0 for side in (a, b)]
    if first is None and no_rows[0]:
        first = second[:0]
    elif second is None and no_rows[1]:
        second = first[:0]
    if first is None or second is None:
        raise ValueError(f"one side has {name}, the other has none")
    if {first.dtype.kind, second.dtype.kind} == {"i", "O"}:  # integers are labels as well
        first, second = first.astype(object), second.astype(object)
    if first.dtype.kind != second.dtype.kind or first.shape[1:] != second.shape[1:]:
        raise ValueError(
            f"{name} cannot be compared: {first.dtype} rows of shape {first.shape[1:]} on one side, "
            f"{second.dtype} of {second.shape[1:]} on the other"
        )
    return first, second


def end_to_end(a: FlatGraphs, b: FlatGraphs) -> FlatGraphs:
    """The graphs of two sides, of :func:`paired`, as one."""
    nodes, edges = a.node_ptr[-1], a.edge_ptr[-1]
    features: dict[str, Any] = {
        name: None if (first := getattr(a, name)) is None else np.concatenate([first, getattr(b, name)])
        for name in ("x", "is_atom", *EDGE_FEATURES)
    }
    return FlatGraphs(
        source=np.concatenate([a.source, b.source + nodes]),
        target=np.concatenate([a.target, b.target + nodes]),
        node_ptr=np.concatenate([a.node_ptr, b.node_ptr[1:] + nodes]),
        edge_ptr=np.concatenate([a.edge_ptr, b.edge_ptr[1:] + edges]),
        **features,
    )
