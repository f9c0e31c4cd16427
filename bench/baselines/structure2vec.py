"""structure2vec, embedded mean field and embedded loopy belief propagation, as layers and networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import Linear

from wlkernelnn.conv.graph import EdgeFeatures, graph_of_colours, graph_of_nodes
from wlkernelnn.models import GraphNetwork
from wlkernelnn.ops.colours import Quotient

from .neural_fingerprint import BondConv


class MeanFieldConv(BondConv):
    r"""Embedded mean field of `"Discriminative Embeddings of Latent Variable Models for Structured Data"
    <https://arxiv.org/abs/1603.05629>`_ (Dai et al. 2016, algorithm 1), with the bonds of their release.

    .. math::
        \mu_v^{(t)} = \mathrm{relu}\Big( x_v + b + \sum_{u \in N(v)} ( W \mu_u^{(t-1)} + W_e e_{uv} ) \Big)
        \qquad \mu_v^{(0)} = 0

    The input ``x [N, channels]`` is a linear map of the node features already. The output is
    :math:`\mu^{(T)}`, ``[N, channels]``; of a quotient, a row per last colour.
    """

    def __init__(self, channels: int, num_edge_types: int | None, num_iterations: int = 4) -> None:
        super().__init__(channels, num_edge_types)
        self.num_iterations = num_iterations
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.lin = Linear(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, edge_index: Tensor | Quotient, edge_type: Tensor | None = None) -> Tensor:
        x = x + self.bias
        if isinstance(edge_index, Quotient):
            graph = graph_of_colours(edge_index, x, None)
        else:
            graph = graph_of_nodes(edge_index, (x.size(0), x.size(0)), edge_type=edge_type)
        mu = torch.zeros_like(x)
        for t in range(self.num_iterations):
            edges, features = graph.step(t).by_target()
            total = self.propagate(
                torch.stack([edges.source, edges.target]),
                size=(edges.num_sources, edges.indptr.numel() - 1),
                m=(self.lin(mu), None),
                edge=self.edge_map(features),
            )
            mu = (graph.lift(x, 0, t + 1) + total).relu()
        return graph.lift(mu, self.num_iterations)


def reverse_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """For every edge u → v the position of v → u, int64 ``[E]``; a ValueError if it is not there."""
    source, target = edge_index
    key, reverse_key = source * num_nodes + target, target * num_nodes + source
    ordered, order = key.sort()
    reverse = order[torch.searchsorted(ordered, reverse_key).clamp(max=max(key.numel() - 1, 0))]
    if bool((key[reverse] != reverse_key).any()):
        raise ValueError("every edge must be there in both directions")
    return reverse


class LoopyBPConv(BondConv):
    r"""Embedded loopy belief propagation (Dai et al. 2016, algorithm 2), as in Lei et al. 2017's release.

    .. math::
        \nu_{uv}^{(t)} &= \mathrm{relu}\Big( x_u + W_e e_{uv}
        + W \sum_{w \in N(u) \setminus v} \nu_{wu}^{(t-1)} \Big) \qquad \nu^{(0)} = 0

        \mathrm{out}[v] &= \mathrm{relu}\Big( W_1 x_v + W_2 \sum_{u \in N(v)} \nu_{uv}^{(T)} \Big)

    The input ``x [N, channels]`` is a linear map of the node features already. Every edge is there in both
    directions (else a ValueError), and no two nodes are joined twice.
    """

    def __init__(self, channels: int, num_edge_types: int | None, num_iterations: int = 4) -> None:
        super().__init__(channels, num_edge_types)
        self.num_iterations = num_iterations
        self.lin = Linear(channels, channels, bias=False)
        self.lin_node = Linear(channels, channels, bias=False)
        self.lin_message = Linear(channels, channels, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        edge_index = edge_index.as_subclass(Tensor)
        source, size = edge_index[0], (x.size(0), x.size(0))
        reverse = reverse_edges(edge_index, x.size(0))
        potential = x.index_select(0, source) + self.edge_map(EdgeFeatures(None, None, edge_type))
        nu = potential.relu()
        for _ in range(self.num_iterations - 1):
            heard = self.propagate(edge_index, size=size, m=None, edge=nu)
            others = heard.index_select(0, source) - nu.index_select(0, reverse)
            nu = (potential + self.lin(others)).relu()
        heard = self.propagate(edge_index, size=size, m=None, edge=nu)
        return (self.lin_node(x) + self.lin_message(heard)).relu()


class MeanFieldNetwork(GraphNetwork):
    r"""Embedded mean field between the encoder, pooling and head of our networks.

    The vector of a graph is :math:`\sum_v \mathrm{relu}(W_o \mu_v^{(T)} + b_o)`, as in the release.
    """

    def __init__(
        self, node_dims: Sequence[int], hidden_channels: int = 285, num_iterations: int = 4, **shared: Any
    ) -> None:
        shared = {"quotient": "auto"} | shared
        super().__init__(node_dims, hidden_channels, num_steps=num_iterations, **shared)
        self.conv = MeanFieldConv(hidden_channels, self.num_edge_types, num_iterations)
        self.lin_out = Linear(hidden_channels, hidden_channels)

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        return self.lin_out(self.conv(self.encoder(codes), *self.edges(graph))).relu()


class LoopyBPNetwork(GraphNetwork):
    """Embedded loopy belief propagation between the encoder, pooling and head of our networks."""

    def __init__(
        self, node_dims: Sequence[int], hidden_channels: int = 235, num_iterations: int = 4, **shared: Any
    ) -> None:
        # Messages belong to edges, not to nodes: colours do not decide them.
        super().__init__(node_dims, hidden_channels, num_steps=None, **shared)
        self.conv = LoopyBPConv(hidden_channels, self.num_edge_types, num_iterations)

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        return self.conv(self.encoder(codes), *self.edges(graph))
