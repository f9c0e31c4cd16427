"""Graphs of networkx as PyG's, with labels of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx
import numpy as np
import torch
from torch_geometric.data import Data

from .base import objects

#: Attributes of networkx graphs that are read where nothing else is said: those of PyG's ``Data``.
SAME_NAMES = {name: name for name in ("edge_type", "edge_attr", "edge_weight")}


def from_networkx(
    graphs: Sequence[networkx.Graph],
    node_label: str | None = "label",
    edge_label: str | None = None,
    edge_weight: str | None = None,
) -> np.ndarray:
    """Graphs of networkx as the kernels take them, with attributes of your choice.

    A list of networkx graphs can also be given to a kernel directly: then the attributes that are read are
    called as in PyG's ``Data``: ``x`` of nodes, ``edge_type``, ``edge_attr`` and ``edge_weight`` of edges.

    Args:
        graphs: The graphs. Edges of undirected ones go both ways.
        node_label: Attribute of nodes that holds their labels, default ``"label"``: any hashable values, such
            as strings or tuples (equal labels are alike), or vectors of floats (compared by inner products).
            ``None``: all nodes are alike.
        edge_label: Such an attribute of edges; default none.
        edge_weight: Attribute of edges that holds their weights; default none: all weigh 1.

    Returns:
        An object array ``[n]`` of ``Data`` (see :func:`~wlkernelnn.kernels.objects`).

    Raises:
        ValueError: A node or an edge lacks the attribute.

    >>> import networkx
    >>> from wlkernelnn.kernels import WLSubtreeKernel, from_networkx
    >>> graph = networkx.Graph([("a", "b")])
    >>> networkx.set_node_attributes(graph, {"a": "C", "b": "O"}, "element")
    >>> WLSubtreeKernel(1)(from_networkx([graph], node_label="element")).tolist()
    [[4.0]]
    """
    of_edges = {"edge_attr": edge_label, "edge_weight": edge_weight}
    wanted = {name: attribute for name, attribute in of_edges.items() if attribute is not None}
    return objects(
        [networkx_data(f"graph {i}", graph, node_label, wanted, True) for i, graph in enumerate(graphs)]
    )


def networkx_data(
    name: str, graph: networkx.Graph, node: str | None, of_edges: Mapping[str, str], required: bool = False
) -> Data:
    """One graph; ``of_edges`` maps names of ``Data`` to attributes.

    Args:
        name: Of the graph, for messages.
        required: An attribute that neither any node nor any edge has is an error, too.
    """
    number = {v: i for i, v in enumerate(graph)}
    edges = [(number[u], number[v], attributes) for u, v, attributes in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(v, u, attributes) for u, v, attributes in edges if u != v]
    ends = torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).reshape(-1, 2).t()
    data = Data(edge_index=ends, num_nodes=len(number))
    if node is not None:
        data.x = _column(f"{name}: a node", (values for _, values in graph.nodes(data=True)), node, required)
    for key, attribute in of_edges.items():
        data[key] = _column(f"{name}: an edge", (edge[2] for edge in edges), attribute, required)
    return data


def _column(
    name: str, items: Iterable[Mapping[str, Any]], attribute: str, required: bool
) -> list[Any] | None:
    """The attribute of all nodes or edges; ``None`` where none has it."""
    rows = list(items)
    values = [row[attribute] for row in rows if attribute in row]
    if len(values) < len(rows) and (required or values):
        raise ValueError(f"{name} has no attribute {attribute!r}")
    return values or None
