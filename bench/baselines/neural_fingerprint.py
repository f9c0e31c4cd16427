"""Neural fingerprints, as a layer and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, MessagePassing

from wlkernelnn.blocks.linear import Linear
from wlkernelnn.conv.edge_map import EdgeMap
from wlkernelnn.conv.graph import EdgeFeatures
from wlkernelnn.models import GraphNetwork
from wlkernelnn.ops.colours import Quotient


class NeuralFingerprintConv(MessagePassing):
    r"""One layer of `"Convolutional Networks on Graphs for Learning Molecular Fingerprints"
    <https://arxiv.org/abs/1509.09292>`_ (Duvenaud et al. 2015, algorithm 2), as in the release of Lei et al.
    2017: one set of weights for all degrees, others for an atom than for its neighbours, and batch
    normalisation.

    .. math::
        r'_v = \mathrm{relu}\Big( \mathrm{norm}\big( W_1 r_v + b
        + \sum_{u \in N(v)} ( W_2 r_u + W_e e_{uv} ) \big) \Big)

    Args:
        channels: Width of the states.
        num_edge_types: Edges carry codes in [0, num_edge_types).

    Shapes:
        - input: ``r [N, channels]``, ``edge_index [2, E]``, ``edge_type [E]``
        - output: ``[N, channels]``
    """

    def __init__(self, channels: int, num_edge_types: int) -> None:
        super().__init__(aggr="add")
        self.lin_self = Linear(channels, channels)
        self.lin_neighbors = Linear(channels, channels, bias=False)
        self.edge_map = EdgeMap(channels, num_edge_types, None)
        # A batch may be a single atom, which has no variance.
        self.norm = BatchNorm(channels, allow_single_element=True)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for module in (self.lin_self, self.lin_neighbors, self.edge_map, self.norm):
            module.reset_parameters()

    def forward(self, r: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        edge = self.edge_map.rows(EdgeFeatures(None, None, edge_type))
        total = self.propagate(edge_index, m=self.lin_neighbors(r), edge=edge)
        return self.norm(self.lin_self(r) + total).relu()

    def message(self, m_j: Tensor, edge: Tensor) -> Tensor:
        return m_j + edge


class NeuralFingerprintNetwork(GraphNetwork):
    r"""The neural fingerprint between the encoder and head of our networks.

    The fingerprint of a molecule is :math:`\sum_l \sum_v \mathrm{softmax}(W_o^{(l)} r_v^{(l)} + b^{(l)})`:
    every atom and layer l = 1 … L writes 1 into it, shared out over the positions.

    Args:
        node_dims: As of :class:`~wlkernelnn.models.GraphNetwork`.
        num_edge_types: Number of edge codes.
        hidden_channels: Width of everything.
        num_layers: L.
        **shared: Any other argument of :class:`~wlkernelnn.models.GraphNetwork`.
    """

    def __init__(
        self,
        node_dims: Sequence[int],
        num_edge_types: int,
        hidden_channels: int = 140,
        num_layers: int = 4,
        **shared: Any,
    ) -> None:
        super().__init__(
            node_dims, hidden_channels, num_steps=None, num_edge_types=num_edge_types, **shared
        )  # batch normalisation counts nodes, not colours
        layers = range(num_layers)
        self.convs = torch.nn.ModuleList(
            NeuralFingerprintConv(hidden_channels, num_edge_types) for _ in layers
        )
        self.outputs = torch.nn.ModuleList(Linear(hidden_channels, hidden_channels) for _ in layers)

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        assert isinstance(graph, Data)
        r = self.encoder(codes)
        written = torch.zeros_like(r)
        for conv, output in zip(self.convs, self.outputs, strict=True):
            r = conv(r, graph.edge_index, graph.edge_type)
            written = written + output(r).softmax(dim=-1)
        return written
