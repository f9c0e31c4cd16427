"""Batches of a packed store by index arithmetic, and a whole store by its colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from wlkernelnn.ops.colours import Level, Quotient, wl_quotient
from wlkernelnn.ops.colours.refine import numbered
from wlkernelnn.ops.spans import places_of

from .arrays import bounds_of, features_of, take_spans
from .epochs import EpochLoader, Resampler
from .packed import PackedGraphs
from .pyg import ColouredBatch, plain_data, sorted_edge_index

#: What public functions take: packed graphs, or a data set or list of PyG's.
Graphs = torch.utils.data.Dataset[Any] | Sequence[Data]


def check_untransformed(name: str, data: PackedGraphs) -> None:
    """Refuse a store whose ``transform`` nobody would apply."""
    if data.transform is not None:
        raise ValueError(
            f"{name} has a transform, which is not applied here: arrays are gathered, not graphs; "
            f"torch_geometric.loader.DataLoader applies it, and so does the list [*{name}]"
        )


def packed(name: str, data: Graphs, edge_values: Sequence[Sequence[float]] | None = None) -> PackedGraphs:
    """Graphs given to a public function: packed, or a list or data set of PyG's ``Data``, packed here.

    Args:
        name: Of the argument, for messages.
        data: The graphs, which may be none.
        edge_values: What codes of edges stand for, see ``PackedGraphs.from_pyg``.

    Raises:
        TypeError: Something else.
        ValueError: A value that a store cannot keep, or a store with a ``transform``, which is of single
            graphs.
    """
    if isinstance(data, PackedGraphs):
        check_untransformed(name, data)
        return data
    listed = isinstance(data, (list, tuple, np.ndarray))
    first = [*data[:1]] if listed else []
    if not (
        isinstance(data, torch.utils.data.Dataset) or (listed and all(isinstance(x, Data) for x in first))
    ):
        of = "".join(f" of {type(x).__name__}" for x in first)
        raise TypeError(
            f"{name} must be PackedGraphs, as of load_molecules, load_tu or PackedGraphs.from_pyg, or a list "
            f"or data set of PyG's Data (of one graph: [data]), got {type(data).__name__}{of}"
        )
    try:
        return PackedGraphs.from_pyg(data, edge_values=edge_values)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def as_packed(name: str, data: Graphs) -> PackedGraphs:
    """:func:`packed`, where nobody knows the codes of other graphs.

    Raises:
        TypeError: Neither a store nor graphs of PyG.
        ValueError: As :func:`packed`, or graphs of PyG whose codes of edges depend on which graphs are given.
    """
    graphs = packed(name, data)
    if graphs is not data and (values := graphs.description.numbered_edges):
        raise ValueError(
            f"{name}: graph 0: edge_attr has {len(values[0])} numbers per edge, whose codes depend on all "
            "graphs; expected one integer or a one-hot row. Convert all graphs once with "
            "PackedGraphs.from_pyg and give parts of that; others with its edge_values"
        )
    return graphs


class PackedLoader(EpochLoader):
    """Mini-batches of :class:`PackedGraphs` as plain PyG ``Data``, without workers.

    A batch holds ``x [N, F]``, ``edge_index [2, E]`` (an ``EdgeIndex`` sorted by target, pointers known),
    ``edge_type [E]``, ``y [B, tasks]``, ``batch [N]``, ``ptr [B+1]`` and B as ``num_graphs``; indices and
    codes are int64. Where graphs have features of their own, these are ``graph_x [B, num_graph_values]``,
    uint8 or float32; where targets are bounds, ``censored [B, tasks]`` says so.

    Args:
        data: The graphs, or a view on some of them; graphs of PyG are packed here.
        batch_size: Graphs in a batch.
        shuffle: Draw a new order in every epoch, from ``seed`` and the epoch's number.
        drop_last: Leave out a last batch that is smaller than the others.
        seed: Seed of the shuffling.
        resample: Maps an epoch's number to positions in ``data`` (with repetitions, if it likes) and takes
            the place of shuffling; see :class:`~wlkernelnn.datasets.BucketResampler`.
        quotient: Also give each batch as its Weisfeiler-Lehman colours after so many iterations, ``quotient``
            (:class:`~wlkernelnn.ops.colours.Quotient`): layers then compute each colour once.
        num_replicas: Processes that share each batch, consecutive parts of it: together they get what one
            would get. All have equally many batches; a process has none of the graphs of a batch that is
            smaller than their number. Default: those of ``torch.distributed`` if it is initialised, else 1.
        rank: Which of them this is; default that of ``torch.distributed``.

    Raises:
        ValueError: ``batch_size`` < 1, ``seed`` < 0, ``quotient`` < 0, both ``shuffle`` and ``resample``, a
            ``rank`` that is not below ``num_replicas``, or data with a ``transform``, which is of single
            graphs.
    """

    data: PackedGraphs

    def __init__(
        self,
        data: Graphs,
        batch_size: int = 128,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        resample: Resampler | None = None,
        quotient: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        data = as_packed("data", data)
        super().__init__(data, batch_size, shuffle, drop_last, seed, resample, num_replicas, rank)
        if quotient is not None and quotient < 0:
            raise ValueError(f"quotient is a number of iterations or None, got {quotient}")
        self.quotient = quotient

    def _batches(self, positions: np.ndarray, bounds: np.ndarray) -> Iterator[Data]:
        """Gather some graphs at once and cut the result into batches (views, not copies)."""
        data, graphs = self.data, self.data.index[positions]
        quotient = self.quotient
        a = {name: tensor.numpy() for name, tensor in vars(data.arrays).items()}
        known = [] if quotient is None else data.colours(quotient)
        (node_type, degree, *colours), num_nodes, node_bounds = take_spans(
            a["node_ptr"], graphs, a["node_type"], a["in_degree"], *known
        )
        (source, edge_type), num_edges, edge_bounds = take_spans(
            a["edge_ptr"], graphs, a["source"], a["edge_type"]
        )
        x = features_of(a["node_table"]).take(node_type, axis=0)
        y = data.all_y.numpy().take(graphs, axis=0)
        graph_x = a["graph_x"].take(graphs, axis=0) if data.description.num_graph_values else None
        censored = a["censored"].take(graphs, axis=0) if a["censored"].size else None
        batch = np.repeat(places_of(np.zeros(len(bounds) - 1, np.int64), bounds), num_nodes)
        edges_to = bounds_of(degree)
        edge_index = np.empty((2, len(source)), dtype=np.int64)
        np.add(source, np.repeat(node_bounds[:-1], num_edges), out=edge_index[0])
        edge_index[1] = np.repeat(np.arange(len(degree)), degree)
        edge_type = edge_type.astype(np.int64)

        node_cut, edge_cut = node_bounds.tolist(), edge_bounds.tolist()
        for g0, g1 in pairwise(bounds.tolist()):
            n0, n1, e0, e1 = node_cut[g0], node_cut[g1], edge_cut[g0], edge_cut[g1]
            # A batch counts its nodes from its own start.
            edges = edge_index[:, e0:e1]
            edges -= n0
            indptr = edges_to[n0 : n1 + 1] - e0
            batch_x, plain_edges, types, ptr = (
                torch.from_numpy(part)
                for part in (x[n0:n1], edges, edge_type[e0:e1], node_bounds[g0 : g1 + 1] - n0)
            )
            parts: dict[str, Any] = {
                "x": batch_x,
                "edge_index": sorted_edge_index(
                    plain_edges, torch.from_numpy(indptr), data.description.is_undirected
                ),
                "edge_type": types,
                "y": torch.from_numpy(y[g0:g1]),
                "batch": torch.from_numpy(batch[n0:n1]),
                "ptr": ptr,
                "num_graphs": g1 - g0,
            }
            if graph_x is not None:
                parts["graph_x"] = torch.from_numpy(graph_x[g0:g1])
            if censored is not None:
                parts["censored"] = torch.from_numpy(censored[g0:g1])
            if quotient is None:
                yield plain_data(**parts)
                continue
            levels = [colour[n0:n1] for colour in colours]
            parts["quotient"] = wl_quotient(levels, edges[0], indptr, edge_type[e0:e1], batch[n0:n1], g1 - g0)
            yield plain_data(ColouredBatch, **parts).seal()


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
