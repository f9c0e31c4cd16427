"""Graphs of PyG as sequence models read them: the order of tokens is that of the edges."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from wlkernelnn.ops.autograd import to_numpy
from wlkernelnn.ops.string import Levels, Steps
from wlkernelnn.ops.string.levels import cycle_among
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.utils.checks import holds_integers


def opened(
    name: str, x: Any, ptr: Pointers | None, per_string: bool = False
) -> tuple[Data | None, Any, Pointers | None]:
    """The graph, if ``x`` is one, and else ``None``; its tokens, and where its strings begin.

    Args:
        name: The model's, for errors.
        per_string: Whether the model does something of its own for each string. What lies in a graph without
            ``ptr`` and ``batch`` is then one string.

    Raises:
        ValueError: A graph has no tokens, no edges, stands beside a ``ptr``, or is several strings where it
            may only be one.
    """
    if not isinstance(x, Data):
        return None, x, ptr
    for part in ("x", "edge_index"):
        if not isinstance(x.get(part), Tensor):
            keys = ", ".join(x.keys()) or "nothing"
            raise ValueError(f"{name} needs a graph with x and edge_index, got {keys}: see path_graph")
    if ptr is not None:
        raise ValueError(f"{name} needs either a graph, which knows its ptr, or x and ptr, got both")
    if per_string and x.get("ptr") is None and x.get("batch") is None:
        edges = _edges(name, x, len(x.x))
        if (several := len(set(_components(edges, len(x.x)).tolist()))) > 1:
            raise ValueError(
                f"{name}: a graph of {several} components needs ptr or batch, which tell its strings: "
                "Batch.from_data_list makes them"
            )
    return x, x.x, graph_ptr(x)


def with_tokens(graph: Data, x: Tensor) -> Data:
    """The same graph with other features."""
    graph = copy.copy(graph)
    graph.x = x
    return graph


def graph_ptr(graph: Data) -> Tensor:
    """Where the graphs of a batch begin, ``[B+1]``, by its ``ptr`` or ``batch``; one graph without both."""
    assert graph.x is not None
    ptr, batch = graph.get("ptr"), graph.get("batch")
    if ptr is not None:
        return torch.as_tensor(ptr)
    if batch is None:
        return torch.tensor([0, len(graph.x)], device=graph.x.device)
    if len(batch) != len(graph.x) or (batch.diff() < 0).any():
        raise ValueError(f"batch must never fall, with one entry for each of {len(graph.x)} nodes")
    return torch.nn.functional.pad(torch.bincount(batch).cumsum(0), (1, 0))


def graph_steps(name: str, graph: Data, branches: bool) -> Steps:
    """How the tokens of a graph are read, in the order of its nodes outside.

    Every graph of a batch is one string; where there is neither ``ptr`` nor ``batch``, every component is,
    in the order of their first nodes.

    Args:
        name: The model's, for errors.
        graph: With ``x`` and ``edge_index``.
        branches: Whether other directed acyclic graphs than paths are read, by their :class:`Levels`, and the
            weights ``edge_weight`` of edges.

    Raises:
        ValueError: A graph is not such: names the graph and the node.
    """
    assert graph.x is not None
    num_nodes, device = len(graph.x), graph.x.device
    edges = _edges(name, graph, num_nodes)
    # A graph without nodes is an empty string.
    batched = graph.get("ptr") is not None or graph.get("batch") is not None or not num_nodes
    steps = Steps.of(graph.x, graph_ptr(graph), name)
    begins = to_numpy(steps.ptr)
    number = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    crossing = np.flatnonzero(number[edges[0]] != number[edges[1]])
    if crossing.size:
        source, target = edges[:, crossing[0]]
        graphs = f"graphs {number[source]} and {number[target]}"
        raise ValueError(f"{name}: the edge {source} → {target} joins {graphs}")
    weight = graph.get("edge_weight")
    if weight is not None:
        if not branches:
            raise ValueError(f"{name} knows no edge_weight: leave it out of the graph")
        if weight.numel() != edges.shape[1]:
            shape = list(weight.shape)
            raise ValueError(f"{name}: edge_weight must be [{edges.shape[1]}], one per edge, got {shape}")
    problem, root, place = _paths(edges, number, batched)
    if branches and (problem is not None or weight is not None):
        if not batched:
            number = _components(edges, num_nodes)
        count = len(begins) - 1 if batched else int(number.max(initial=-1)) + 1
        try:
            return Levels(edges, number, count, weight, device)
        except ValueError as error:
            raise ValueError(f"{name} reads acyclic graphs: {error}") from None
    if problem is not None:
        raise ValueError(f"{name} reads strings, each a path of directed edges: {problem}")
    if not batched:
        number = pd.factorize(root)[0]  # as _components has them
        begins = np.concatenate([[0], np.cumsum(np.bincount(number))])
        steps = Steps(torch.from_numpy(begins), device)
    if _in_order(edges):
        return steps
    order = np.lexsort((place, number))
    return Steps(steps.ptr, device, torch.from_numpy(order).to(device))


def _edges(name: str, graph: Data, num_nodes: int) -> np.ndarray:
    """Sources and targets ``[2, E]``."""
    edge_index = graph.edge_index
    assert edge_index is not None
    edges = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    if edges.dim() != 2 or len(edges) != 2 or not holds_integers(edges):
        shape = list(edges.shape)
        raise ValueError(f"{name}: edge_index must be integers [2, E], got {edges.dtype} {shape}")
    numbers = to_numpy(edges.long())
    outside = (numbers < 0) | (numbers >= num_nodes)
    if outside.any():
        wrong = numbers[outside][0]
        raise ValueError(f"{name}: edge_index has node {wrong}, expected 0 … {num_nodes - 1}")
    return numbers


def _paths(edges: np.ndarray, number: np.ndarray, batched: bool) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Why graphs are no paths, or ``None``; where the path of every node begins and its place on it."""
    source, target = edges
    num_nodes, nothing = len(number), np.empty(0, dtype=np.int64)
    into, out = (np.bincount(side, minlength=num_nodes) for side in (target, source))
    for counts, way in ((into, "into it"), (out, "out of it")):
        if (counts > 1).any():
            node = int(np.argmax(counts > 1))
            problem = f"node {node} of graph {number[node]} has {counts[node]} edges {way}"
            return problem, nothing, nothing
    heads = np.flatnonzero(into == 0)
    root, place = np.arange(num_nodes), np.zeros(num_nodes, dtype=np.int64)
    root[target], place[target] = source, 1
    if _in_order(edges):
        root, place = heads[np.cumsum(into == 0) - 1], nothing
    # Else every node looks twice as far back in each round, until it sees where its path begins.
    for _ in range(num_nodes.bit_length() if into[root].any() else 0):
        place, root = place + place[root], root[root]
    looped = into[root] > 0
    if looped.any():
        shown = " → ".join(map(str, cycle_among(edges, looped)))
        node = int(np.argmax(looped))
        return f"nodes {shown} of graph {number[node]} are a cycle", nothing, nothing
    twice = np.flatnonzero(number[heads][1:] == number[heads][:-1])
    if batched and twice.size:
        first, second = heads[twice[0]], heads[twice[0] + 1]
        return f"graph {number[first]} has paths from nodes {first} and {second}", nothing, nothing
    return None, root, place


def _in_order(edges: np.ndarray) -> bool:
    """Whether every node is followed by the next one."""
    return bool((edges[1] - edges[0] == 1).all())


def _components(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """The component of every node, in the order of their first nodes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    adjacency = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(num_nodes, num_nodes))
    return connected_components(adjacency, directed=False)[1]
