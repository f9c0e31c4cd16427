"""Graphs of a packed store by their colours, without a batch of nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from wlkernelnn.ops.colours import Level, Quotient
from wlkernelnn.ops.colours.refine import numbered
from wlkernelnn.ops.spans import bounds_of, places_of

from .arrays import features_of
from .packed import PackedGraphs
from .pyg import plain_data


def store_quotient(data: PackedGraphs, depth: int) -> Data:
    """All graphs in view by their Weisfeiler-Lehman colours after ``depth`` iterations, each once.

    Of every node only the last colour is looked at; all else is read at one node of each colour, and at its
    neighbours.

    Returns:
        ``x``, codes or features of the colours 0, ``[C_0, F]``; ``ptr [B+1]``; ``graph_x [B,
        num_graph_values]`` where graphs have features of their own; and ``quotient``, in which ``first`` are
        rows of ``x``. Its ``colour`` has an entry for every node of a graph, of multiplicity 1: hardly any
        occurs in a molecule twice.
    """
    a, graphs = {name: tensor.numpy() for name, tensor in vars(data.arrays).items()}, data.index
    colours = data.colours(depth)
    start, num_nodes = a["node_ptr"][graphs], np.diff(a["node_ptr"])[graphs]
    ptr = bounds_of(num_nodes)
    node = places_of(start, ptr)
    degree = a["in_degree"].take(node)
    bounds = bounds_of(degree)
    number, first = numbered(colours[depth].take(node))
    # One node of each colour: its place in the store, its graph's, and that of the edges into it.
    graph = np.searchsorted(ptr, first, side="right") - 1
    start, edges = start[graph], a["edge_ptr"][graphs[graph]] + bounds[first] - bounds[ptr[graph]]
    node, degree = node[first], degree[first]
    levels: list[Level] = []
    for colour in colours[depth - 1 :: -1] if depth else []:
        indptr = bounds_of(degree)
        target, edge = np.repeat(np.arange(len(node)), degree), places_of(edges, indptr)
        around = start[target] + a["source"].take(edge)
        # What a node's neighbours were is what some of these nodes were themselves.
        before, first = numbered(np.concatenate([colour.take(node), colour.take(around)]))
        own, source = np.split(before, [len(node)])
        level = own, source, target, indptr, a["edge_type"].take(edge).astype(np.int64)
        levels.insert(0, Level(*map(torch.from_numpy, level)))
        node, start, edges, degree = node[first], start[first], edges[first], degree[first]
    last, members = torch.from_numpy(number), torch.from_numpy(ptr)
    parts = {"x": features_of(a["node_table"])[a["node_type"].take(node)]}
    if data.description.num_graph_values:
        parts["graph_x"] = a["graph_x"].take(graphs, axis=0)
    return plain_data(
        Data,
        **{name: torch.from_numpy(values) for name, values in parts.items()},
        ptr=members,
        quotient=Quotient(
            first=torch.arange(len(node)),
            levels=tuple(levels),
            node=last,
            colour=last,
            indptr=members,
            graph=torch.arange(len(graphs)).repeat_interleave(members.diff()),
            multiplicity=torch.ones(len(last)),
        ),
    )
