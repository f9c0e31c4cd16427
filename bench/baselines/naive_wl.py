"""The gated Weisfeiler-Lehman layer as one would write it first: the equations, edge by edge."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor
from torch_geometric.nn import Linear, MessagePassing

from wlkernelnn.conv.edge_map import EdgeMap
from wlkernelnn.conv.random_walk import RandomWalkKernelConv
from wlkernelnn.conv.wl import WLKernelConv
from wlkernelnn.models import GraphKernelNetwork


def _embedding(edge_map: torch.nn.Module | None) -> torch.nn.Embedding:
    table = cast(EdgeMap, edge_map).table
    assert table is not None
    return torch.nn.Embedding.from_pretrained(table, freeze=False)


def _linear(lin: torch.nn.Module | None) -> torch.nn.Module:
    """PyG's own, with the parameters of ours."""
    assert isinstance(lin, Linear)
    plain = Linear(lin.in_channels, lin.out_channels, bias=lin.bias is not None)
    plain.weight, plain.bias = lin.weight, lin.bias
    return plain


class _GatedWalk(MessagePassing):
    r""":math:`c_1 + c_2` with :math:`c_1[v] = W^{(1)} h_v`,
    :math:`c_2[v] = \sum_u \lambda_{uv} \odot W_e e_{uv} \odot W^{(1)} h_u \odot W^{(2)} h_v` and
    :math:`\lambda_{uv} = \mathrm{sigmoid}(U_s h_u + U_t h_v + U_e e_{uv} + b)`.
    """

    def __init__(self, layer: RandomWalkKernelConv) -> None:
        super().__init__(aggr="add")
        self.lins = torch.nn.ModuleList(map(_linear, layer.lins))
        self.gates = torch.nn.ModuleList(map(_linear, layer.decay.lins))
        self.edge_gate, self.edge_factor = _embedding(layer.edge_gate), _embedding(layer.edge_factors[0])

    def forward(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.lins[0](h) + self.propagate(edge_index, h=h, edge_type=edge_type) * self.lins[1](h)

    def message(self, h_i: Tensor, h_j: Tensor, edge_type: Tensor) -> Tensor:
        decay = torch.sigmoid(self.gates[0](h_j) + self.gates[1](h_i) + self.edge_gate(edge_type))
        return decay * self.edge_factor(edge_type) * self.lins[0](h_j)


class _Relabelling(MessagePassing):
    r""":math:`\mathrm{relu}(U_1 h_v + U_2 \sum_u \mathrm{relu}(V h_u + V_e e_{uv}))`."""

    def __init__(self, layer: WLKernelConv) -> None:
        super().__init__(aggr="add")
        self.lin_self, self.lin_neighbors = _linear(layer.lin_self), _linear(layer.lin_neighbors)
        self.lin_message, self.edge_message = _linear(layer.lin_message), _embedding(layer.edge_message)

    def forward(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        total = self.propagate(edge_index, h=h, edge_type=edge_type)
        return torch.relu(self.lin_self(h) + self.lin_neighbors(total))

    def message(self, h_j: Tensor, edge_type: Tensor) -> Tensor:
        return torch.relu(self.lin_message(h_j) + self.edge_message(edge_type))


class NaiveWLConv(torch.nn.Module):
    """A :class:`~wlkernelnn.WLKernelConv` in plain PyG: every message and its Linears are computed at edges.

    Args:
        layer: The layer whose parameters are used, one as a default
            :class:`~wlkernelnn.models.GraphKernelNetwork` has it: gated, relu, edge codes, walks of up to 2
            nodes that the iterations share, several iterations, readout "sum" or "last" (else a ValueError).
    """

    def __init__(self, layer: WLKernelConv) -> None:
        super().__init__()
        if layer.readout not in ("sum", "last"):
            raise ValueError(f'the naive layer has readout "sum" or "last", got {layer.readout!r}')
        self.num_iterations, self.num_edge_types = layer.num_iterations, layer.num_edge_types
        self.sums = layer.readout == "sum"
        self.walk = _GatedWalk(cast(RandomWalkKernelConv, layer.walks[0]))
        self.relabelling = _Relabelling(layer)

    def forward(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        outs = [self.walk(h, edge_index, edge_type)] if self.sums else []
        for iteration in range(1, self.num_iterations):
            h = self.relabelling(h, edge_index, edge_type)
            if self.sums or iteration == self.num_iterations - 1:
                outs.append(self.walk(h, edge_index, edge_type))
        return torch.stack(outs).sum(0)


def naive_network(net: GraphKernelNetwork) -> GraphKernelNetwork:
    """A copy of ``net`` whose layer is a :class:`NaiveWLConv`; encoder, pooling and head stay as they are."""
    naive = copy.deepcopy(net)
    naive.quotient, naive.quotient_depth = False, None
    naive.conv = NaiveWLConv(naive.conv)  # type: ignore[assignment]
    return naive
