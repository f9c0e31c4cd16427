"""Graphs and strings of every awkward kind, for hypothesis (which has to be installed)."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch_geometric.data import Data


@st.composite
def graphs(
    draw: st.DrawFn,
    num_features: int | None = None,
    num_labels: int | None = None,
    num_edge_types: int | None = None,
    edge_dim: int | None = None,
    weighted: bool = False,
    min_nodes: int = 0,
    max_nodes: int = 6,
    max_edges: int = 12,
    no_isolated_nodes: bool = False,
) -> Data:
    """A graph, possibly without nodes or edges, directed or not, with self loops and multi-edges.

    Args:
        num_features: Width of normal float64 ``x``.
        num_labels: Instead, ``x`` is the one-hot vector (float64) of one of so many labels.
        num_edge_types: ``edge_type`` in [0, num_edge_types).
        edge_dim: Width of normal float64 ``edge_attr``.
        weighted: With positive ``edge_weight``.
        min_nodes, max_nodes, max_edges: Sizes; an undirected graph lists every edge both ways.
        no_isolated_nodes: An edge ends in every node.
    """
    num_nodes = draw(st.integers(min_nodes, max_nodes))
    node = st.integers(0, max(0, num_nodes - 1))
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges if num_nodes else 0))
    if no_isolated_nodes:
        ends = {target for _, target in pairs}
        pairs += [(draw(node), target) for target in range(num_nodes) if target not in ends]
    if draw(st.booleans()):
        pairs = pairs + [(v, u) for u, v in pairs]
    edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    graph = Data(edge_index=edge_index, num_nodes=num_nodes)
    if num_features is not None:
        graph.x = normal(num_nodes, num_features)
    if num_labels is not None:
        graph.x = torch.eye(num_labels, dtype=torch.float64)[
            torch.randint(num_labels, (num_nodes,), generator=generator)
        ]
    if num_edge_types is not None:
        graph.edge_type = torch.randint(num_edge_types, (len(pairs),), generator=generator)
    if edge_dim is not None:
        graph.edge_attr = normal(len(pairs), edge_dim)
    if weighted:
        graph.edge_weight = normal(len(pairs)).abs()
    return graph


@st.composite
def strings(
    draw: st.DrawFn, width: int, max_strings: int = 4, max_tokens: int = 5, equal: bool = False
) -> list[torch.Tensor]:
    """Strings of normal float64 vectors ``[T_i, width]``, one of them at least with a token.

    Args:
        width: Width of the tokens.
        max_strings, max_tokens: Sizes; strings may be empty.
        equal: All of the same length.
    """
    tokens = st.integers(0, max_tokens)
    if equal:
        lengths = [draw(st.integers(1, max_tokens))] * draw(st.integers(1, max_strings))
    else:
        lengths = draw(st.lists(tokens, min_size=1, max_size=max_strings).filter(any))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    return [torch.randn(length, width, dtype=torch.float64, generator=generator) for length in lengths]
