"""Small graphs of every awkward kind, and comparisons, for the tests of operations and layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from wlkernelnn.datasets import PackedGraphs, sorted_edge_index
from wlkernelnn.ops.graph import sort_edges


class Edges(NamedTuple):
    """Edges in no particular order, between ``num_sources`` and ``num_targets`` nodes."""

    edge_index: Tensor
    num_sources: int
    num_targets: int


def random_edges(num_sources: int, num_targets: int, num_edges: int, seed: int = 0) -> Edges:
    """Edges drawn with repetition: self loops, multi-edges and isolated nodes occur by themselves."""
    rng = torch.Generator().manual_seed(seed)
    sources = torch.randint(max(num_sources, 1), (num_edges,), generator=rng)
    targets = torch.randint(max(num_targets, 1), (num_edges,), generator=rng)
    return Edges(torch.stack([sources, targets]), num_sources, num_targets)


def _list(edges: Sequence[tuple[int, int]], num_nodes: int) -> Edges:
    return Edges(torch.tensor(edges).t().contiguous(), num_nodes, num_nodes)


EDGES: dict[str, Edges] = {
    "random": random_edges(12, 12, 40),
    "isolated": _list([(5, 1), (1, 5), (2, 1)], 7),
    "self_loops": _list([(2, 2), (0, 1), (0, 0), (2, 2)], 3),
    "multi_edges": _list([(1, 0), (0, 1), (1, 0), (1, 0)], 2),
    "no_edges": random_edges(4, 4, 0),
    "one_node": random_edges(1, 1, 0),
    "no_nodes": random_edges(0, 0, 0),
    "more_sources": random_edges(9, 3, 20),
    "more_targets": random_edges(3, 9, 20),
    "no_targets": random_edges(3, 0, 0),
    "no_sources": random_edges(0, 3, 0),
    "many_edges": random_edges(50, 60, 2000),
}

# Graphs of one kind of nodes, small enough to follow every walk.
GRAPHS = {
    name: EDGES[name] for name in ("random", "isolated", "self_loops", "multi_edges", "no_edges", "one_node")
}


def as_edge_index(edges: Edges, form: str) -> tuple[Tensor, Tensor]:
    """The edges in one of the ways in which users pass them, and where each stood in the original.

    Args:
        form: ``"plain"``, or an ``EdgeIndex``: ``"unsorted"``, ``"by_row"``, ``"by_col"`` (without pointers)
            or ``"by_col_with_pointers"``.
    """
    if form in ("plain", "unsorted"):
        order = torch.arange(edges.edge_index.size(1))
        return (edges.edge_index if form == "plain" else EdgeIndex(edges.edge_index)), order
    order = edges.edge_index[0 if form == "by_row" else 1].argsort(stable=True)
    edge_index = edges.edge_index[:, order]
    if form == "by_row":
        return EdgeIndex(edge_index, sort_order="row"), order
    if form == "by_col":
        return EdgeIndex(edge_index, sort_order="col"), order
    indptr = sort_edges(edge_index, edges.num_sources, edges.num_targets).indptr
    return sorted_edge_index(edge_index, indptr), order


EDGE_INDEX_FORMS = ("plain", "unsorted", "by_row", "by_col", "by_col_with_pointers")


def assert_same_with_gradients(
    fast: Callable[..., Tensor], naive: Callable[..., Tensor], inputs: Sequence[Tensor]
) -> None:
    """``fast(*inputs)`` and ``naive(*inputs)`` agree in value and in every gradient that is wanted."""
    tolerance = 1e-12 if inputs[0].dtype == torch.float64 else 1e-5
    results = []
    for function in (fast, naive):
        leaves = [value.detach().clone().requires_grad_(value.requires_grad) for value in inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        out = function(*leaves)
        assert out.requires_grad == bool(wanted)
        cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)
        gradients = torch.autograd.grad(out, wanted, cotangent) if wanted else ()
        results.append((out.detach(), *gradients))
    for came, expected in zip(*results, strict=True):
        # Sums of many terms cancel: what counts is the error beside the largest entry.
        largest = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
        torch.testing.assert_close(came, expected, rtol=tolerance, atol=tolerance * largest)


def random_packed(
    num_graphs: int, seed: int = 0, max_nodes: int = 12, num_edge_types: int = 5, num_tasks: int = 2
) -> PackedGraphs:
    """Random graphs with codes, missing targets and strings; the second has no nodes, the third no edges.

    The first target is a graph's number, so that it can be recognised.
    """
    rng = np.random.default_rng(seed)
    nodes = rng.integers(1, max_nodes + 1, num_graphs)
    edges = rng.integers(0, 3 * max_nodes, num_graphs)
    nodes[1:2] = 0
    edges[1:3] = 0
    owner = np.repeat(nodes, edges)
    y = rng.normal(size=(num_graphs, num_tasks))
    y[rng.random(y.shape) < 0.2] = np.nan
    y[:, 0] = np.arange(num_graphs)
    return PackedGraphs.pack(
        x=rng.integers(0, 7, (nodes.sum(), 3)),
        edge_index=rng.integers(0, owner, (2, edges.sum())),
        node_ptr=np.concatenate([[0], nodes.cumsum()]),
        edge_ptr=np.concatenate([[0], edges.cumsum()]),
        edge_type=rng.integers(0, num_edge_types, edges.sum()),
        y=y,
        row=rng.permutation(num_graphs),
        smiles=[f"graph № {i}" for i in range(num_graphs)],
    )


def packed_pair(**changes: Any) -> PackedGraphs:
    """0 ⇄ 1 and a single node."""
    arrays: dict[str, Any] = {
        "x": np.array([[1, 2], [3, 4], [1, 2]]),
        "edge_index": np.array([[0, 1], [1, 0]]),
        "node_ptr": [0, 2, 3],
        "edge_ptr": [0, 2, 2],
    }
    return PackedGraphs.pack(**arrays | changes)


def assert_same_arrays(a: PackedGraphs, b: PackedGraphs) -> None:
    """Two stores hold the same, in the same types."""
    for name, tensor in vars(a.arrays).items():
        other = getattr(b.arrays, name)
        assert tensor.dtype == other.dtype, name
        np.testing.assert_array_equal(tensor.numpy(), other.numpy(), err_msg=name)


def assert_equal_data(came: Data, expected: Data) -> None:
    """Two graphs hold the same values under the same names."""
    assert came.keys() == expected.keys()
    for name in came.keys():  # noqa: SIM118 (not a dict)
        a, b = came[name], expected[name]
        assert a == b if isinstance(a, str) else torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)), name
