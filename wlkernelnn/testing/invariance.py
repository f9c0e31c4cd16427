"""Laws of every graph layer: the numbering of nodes and the company of other graphs do not matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch_geometric.data import Batch, Data

from .calling import EDGE_FEATURES, Layer, call, largest_error, require, require_graphs


def permuted(graph: Data, nodes: torch.Tensor, edges: torch.Tensor) -> Data:
    """The same graph: node i of the new one is node ``nodes[i]`` of the old one, edges in another order."""
    number = torch.empty_like(nodes)
    number[nodes] = torch.arange(len(nodes))
    assert graph.x is not None
    assert graph.edge_index is not None
    new = Data(x=graph.x[nodes], edge_index=number[graph.edge_index.as_subclass(torch.Tensor)[:, edges]])
    for name in EDGE_FEATURES:
        if graph.get(name) is not None:
            new[name] = graph[name][edges]
    return new


def assert_permutation_equivariant(
    layer: Layer, graphs: Sequence[Data], rtol: float = 1e-9, seed: int = 0
) -> float:
    """Numbering the nodes differently, and listing the edges in another order, permutes the output.

    Args:
        layer: Called as ``layer(x, edge_index, **edge_features)``, with those of ``edge_attr``, ``edge_type``
            and ``edge_weight`` that a graph has; gives ``[N, …]``.
        graphs: With ``x`` and ``edge_index``.
        rtol: Allowed error beside the largest output of a graph.
        seed: Of the permutations.
    """
    require_graphs(graphs)
    generator, errors = torch.Generator().manual_seed(seed), {}
    for i, graph in enumerate(graphs):
        nodes = torch.randperm(int(graph.num_nodes or 0), generator=generator)
        edges = torch.randperm(graph.num_edges, generator=generator)
        came, expected = call(layer, permuted(graph, nodes, edges)), call(layer, graph)[nodes]
        errors[f"graph {i} with its nodes permuted"] = largest_error(came, expected)
    return require(errors, rtol)


def assert_batching_invariant(layer: Layer, graphs: Sequence[Data], rtol: float = 1e-9) -> float:
    """A batch of graphs gives what each graph gives alone; see :func:`assert_permutation_equivariant`."""
    require_graphs(graphs)
    batch = Batch.from_data_list(list(graphs))
    together = call(layer, batch).split([int(graph.num_nodes or 0) for graph in graphs])
    pairs = enumerate(zip(graphs, together, strict=True))
    of_batch = f"in a batch of {len(graphs)}"
    errors = {f"graph {i} {of_batch}": largest_error(came, call(layer, graph)) for i, (graph, came) in pairs}
    return require(errors, rtol)
