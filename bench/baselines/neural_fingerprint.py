"""Neural fingerprints, as a layer and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, Linear, MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.typing import OptTensor

from wlkernelnn.conv.edge_map import EdgeMap
from wlkernelnn.conv.graph import EdgeFeatures
from wlkernelnn.models import GraphNetwork
from wlkernelnn.ops.colours import Quotient


class BondConv(MessagePassing):
    """Sums of a vector per neighbour, if given, and one per edge; edge codes are in [0, num_edge_types)."""

    def __init__(self, channels: int, num_edge_types: int | None) -> None:
        super().__init__(aggr="add")
        if num_edge_types is None:
            raise ValueError(f"{type(self).__name__} needs edge codes, got num_edge_types=None")
        self.edge_map = EdgeMap(channels, num_edge_types, None)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for child in self.children():
            reset(child)

    def message(self, m_j: OptTensor, edge: Tensor) -> Tensor:
        return edge if m_j is None else m_j + edge


class NeuralFingerprintConv(BondConv):
    r"""One layer of `"Convolutional Networks on Graphs for Learning Molecular Fingerprints"
    <https://arxiv.org/abs/1509.09292>`_ (Duvenaud et al. 2015, algorithm 2), as in the release of Lei et al.
    2017: one set of weights for all degrees, others for an atom than for its neighbours, and batch
    normalisation.

    .. math::
        r'_v = \mathrm{relu}\Big( \mathrm{norm}\big( W_1 r_v + b
        + \sum_{u \in N(v)} ( W_2 r_u + W_e e_{uv} ) \big) \Big)
    """

    def __init__(self, channels: int, num_edge_types: int | None) -> None:
        super().__init__(channels, num_edge_types)
        self.lin_self = Linear(channels, channels)
        self.lin_neighbors = Linear(channels, channels, bias=False)
        # A batch may be a single atom, which has no variance.
        self.norm = BatchNorm(channels, allow_single_element=True)

    def forward(self, r: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        edge = self.edge_map(EdgeFeatures(None, None, edge_type))
        total = self.propagate(edge_index, m=self.lin_neighbors(r), edge=edge)
        return self.norm(self.lin_self(r) + total).relu()


class NeuralFingerprintNetwork(GraphNetwork):
    r"""The neural fingerprint between the encoder and head of our networks.

    The fingerprint of a molecule is :math:`\sum_l \sum_v \mathrm{softmax}(W_o^{(l)} r_v^{(l)} + b^{(l)})`:
    every atom and layer writes 1 into it, shared out over the positions.
    """

    def __init__(
        self, node_dims: Sequence[int], hidden_channels: int = 140, num_layers: int = 4, **shared: Any
    ) -> None:
        # Batch normalisation counts nodes, not colours.
        super().__init__(node_dims, hidden_channels, num_steps=None, **shared)
        convs = [NeuralFingerprintConv(hidden_channels, self.num_edge_types) for _ in range(num_layers)]
        self.convs = torch.nn.ModuleList(convs)
        self.outputs = torch.nn.ModuleList(Linear(hidden_channels, hidden_channels) for _ in convs)

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        r = self.encoder(codes)
        written = torch.zeros_like(r)
        for conv, output in zip(self.convs, self.outputs, strict=True):
            r = conv(r, *self.edges(graph))
            written = written + output(r).softmax(dim=-1)
        return written
