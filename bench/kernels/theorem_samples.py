"""What theorems are checked on: graphs of every awkward kind, strings, and layers with drawn weights."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from wlkernelnn.testing.colours import node_colours

# Features, channels of a layer, and kinds of edges.
D, K, NUM_TYPES = 3, 6, 3

L = TypeVar("L", bound=torch.nn.Module)


def random_graphs(count: int, seed: int = 0, **options: bool) -> list[Data]:
    """Graphs of every awkward kind; the first are empty, a single node, and a single node with loops.

    With ``labels`` there are few kinds of nodes and edges, so that many are alike.
    """
    generator = torch.Generator().manual_seed(seed)

    def integers(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape, generator=generator)

    graphs = []
    for i in range(count):
        nodes = int(integers(9, 1)) if i > 2 else min(i, 1)
        edges = integers(max(nodes, 1), 2, int(integers(13, 1)) if nodes and i > 1 else 0)
        if options.get("no_isolated_nodes") and nodes:
            edges = torch.cat([edges, torch.stack([integers(nodes, nodes), torch.arange(nodes)])], dim=1)
        if i % 2:
            edges = torch.cat([edges, edges.flip(0)], dim=1)
        x = torch.randn(nodes, D, dtype=torch.float64, generator=generator)
        if options.get("labels"):
            x = torch.eye(D, dtype=torch.float64)[integers(D, nodes)]
        graph = Data(x=x, edge_index=edges)
        if not options.get("plain_edges"):
            graph.edge_type = integers(NUM_TYPES, edges.size(1))
            weight = torch.rand(edges.size(1), dtype=torch.float64, generator=generator)
            graph.edge_weight = weight.round().add(1) / 2 if options.get("labels") else weight
        graphs.append(graph)
    return graphs


def small_graphs(count: int, seed: int = 0) -> list[Data]:
    """Of 2 to 4 nodes, with edges of one kind."""
    drawn = random_graphs(20 * count, seed, plain_edges=True)
    return [graph for graph in drawn if 2 <= graph.x.size(0) <= 4 and graph.num_edges][:count]


def nodes_alike(graphs: list[Data], depth: int) -> int:
    """How many nodes with in-neighbours share their Weisfeiler-Lehman colour with another node."""
    _, colour, count = np.unique(node_colours(graphs, depth)[-1], return_inverse=True, return_counts=True)
    whole = Batch.from_data_list(graphs)
    has_neighbours = np.isin(np.arange(whole.num_nodes), whole.edge_index[1].numpy())
    return int((has_neighbours & (count[colour] > 1)).sum())


def random_strings(count: int, seed: int = 0) -> list[torch.Tensor]:
    """Strings of vectors; the first are empty, and a single token."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(8, (count,), generator=generator)
    lengths[:2] = torch.tensor([0, 1])[:count]
    return [torch.randn(n, D, dtype=torch.float64, generator=generator) for n in lengths.tolist()]


def needing_relabelling() -> list[tuple[Data, Data]]:
    """Pairs that walks of 2 nodes see no difference of: a path and a star, two trees with the same degrees,
    which differ after 2 rounds, and two rings with as many edges of each type, in another order.
    """
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    branch = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    pairs = (
        (([(0, 1), (1, 2), (2, 3)], [0, 0, 0]), ([(0, 1), (0, 2), (0, 3)], [0, 0, 0])),
        (([*branch, (1, 6)], [0] * 6), ([*branch, (2, 6)], [0] * 6)),
        ((ring, [0, 0, 1, 1]), (ring, [0, 1, 0, 1])),
    )

    def graph(edges: list[tuple[int, int]], types: list[int]) -> Data:
        one_way = torch.tensor(edges).t()
        x = torch.ones(int(one_way.max()) + 1, D, dtype=torch.float64)
        both_ways = torch.cat([one_way, one_way.flip(0)], dim=1)
        return Data(x=x, edge_index=both_ways, edge_type=torch.tensor(types * 2))

    return [(graph(*first), graph(*second)) for first, second in pairs]


def drawn(layer: L, scale: float = 0.5) -> L:
    """The layer in float64, with every parameter drawn."""
    layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=scale)
    return layer
