"""Graphs with several kinds of nodes, for all layers alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, to_hetero
from torch_geometric.testing import assert_module

from tests.checks.kernel_convs import (
    K,
    watch,
)
from tests.inputs.graphs import EDGES, random_edges
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv

BIPARTITE: dict[str, tuple[type[KernelConv], dict[str, Any]]] = {
    "random_walk": (RandomWalkKernelConv, {"decay": 0.7}),
    "random_walk-gated": (RandomWalkKernelConv, {"decay": "gated"}),
    "deep": (DeepKernelConv, {}),
    "wl": (WLKernelConv, {"num_iterations": 1}),
}


@pytest.mark.parametrize(("kind", "options"), BIPARTITE.values(), ids=BIPARTITE)
@pytest.mark.parametrize("edges", ["more_sources", "more_targets", "no_sources", "no_targets"])
def test_bipartite_graphs(kind: type[KernelConv], options: dict[str, Any], edges: str) -> None:
    edge_index, num_sources, num_targets = EDGES[edges]
    x = torch.randn(num_sources, 4, requires_grad=True), torch.randn(num_targets, 2, requires_grad=True)
    conv = kind((4, 2), K, **options)
    out = assert_module(conv, x, edge_index, expected_size=(num_targets, K), test_sparse_layouts=[])
    gradients = torch.autograd.grad(out.square().sum(), x)
    watch(conv, "register_message_forward_hook")
    watched = conv(x, edge_index)
    torch.testing.assert_close(watched, out)
    torch.testing.assert_close(torch.autograd.grad(watched.square().sum(), x), gradients)


@pytest.fixture
def hetero_data() -> HeteroData:
    data = HeteroData()
    data["atom"].x = torch.randn(9, 4)
    data["ring"].x = torch.randn(3, 2)
    data["atom", "in", "ring"].edge_index = random_edges(9, 3, 12).edge_index
    data["ring", "has", "atom"].edge_index = data["atom", "in", "ring"].edge_index.flip(0)
    data["atom", "bond", "atom"].edge_index = random_edges(9, 9, 14).edge_index
    return data


@pytest.mark.parametrize(("kind", "options"), BIPARTITE.values(), ids=BIPARTITE)
def test_to_hetero(kind: type[KernelConv], options: dict[str, Any], hetero_data: HeteroData) -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = kind((-1, -1), 8, **options)
            self.conv2 = kind((-1, -1), K, **options)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    network = to_hetero(Network(), hetero_data.metadata())
    out = network(hetero_data.x_dict, hetero_data.edge_index_dict)
    assert {name: value.shape for name, value in out.items()} == {"atom": (9, K), "ring": (3, K)}
    sum(value.square().sum() for value in out.values()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_hetero_conv(hetero_data: HeteroData) -> None:
    convs = {edge_type: RandomWalkKernelConv((-1, -1), K) for edge_type in hetero_data.edge_types}
    out = HeteroConv(convs)(hetero_data.x_dict, hetero_data.edge_index_dict)
    expected = convs["atom", "in", "ring"](
        (hetero_data["atom"].x, hetero_data["ring"].x), hetero_data["atom", "in", "ring"].edge_index
    )
    torch.testing.assert_close(out["ring"], expected)
