from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines.structure2vec import (
    LoopyBPConv,
    LoopyBPNetwork,
    MeanFieldConv,
    MeanFieldNetwork,
    reverse_edges,
)
from wlkernelnn.datasets import PackedLoader
from wlkernelnn.models import GraphNetwork

# A square with a tail, and a node by itself; the edges in no order.
PAIRS = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]
TYPES = [0, 1, 2, 1, 0]
EDGES = [(u, v, t) for (u, v), t in zip(PAIRS, TYPES, strict=True)]
EDGES = EDGES + [(v, u, t) for u, v, t in reversed(EDGES)]
EDGE_INDEX = torch.tensor([[u, v] for u, v, _ in EDGES]).T
EDGE_TYPE = torch.tensor([t for *_, t in EDGES])


def input_of(channels: int) -> Tensor:
    return torch.randn(6, channels, dtype=torch.float64)


@pytest.mark.parametrize("iterations", [1, 3])
def test_mean_field_is_its_equation(iterations: int) -> None:
    conv = MeanFieldConv(5, 3, iterations).double()
    torch.nn.init.normal_(conv.bias)
    x, table, w = input_of(5), conv.edge_map.table, conv.lin.weight
    mu = [torch.zeros(5, dtype=torch.float64) for _ in range(6)]
    for _ in range(iterations):
        heard = [x[v] + conv.bias for v in range(6)]
        for u, v, t in EDGES:
            heard[v] = heard[v] + w @ mu[u] + table[t]
        mu = [row.relu() for row in heard]
    torch.testing.assert_close(conv(x, EDGE_INDEX, EDGE_TYPE), torch.stack(mu))


@pytest.mark.parametrize("iterations", [1, 3])
def test_loopy_bp_is_its_equation(iterations: int) -> None:
    conv = LoopyBPConv(5, 3, iterations).double()
    x, table, w = input_of(5), conv.edge_map.table, conv.lin.weight
    nu = {(u, v): torch.zeros(5, dtype=torch.float64) for u, v, _ in EDGES}
    for _ in range(iterations):
        nu = {
            (u, v): (
                x[u]
                + table[t]
                + w @ sum((nu[a, b] for a, b, _ in EDGES if b == u and a != v), torch.zeros(5).double())
            ).relu()
            for u, v, t in EDGES
        }
    rows = []
    for v in range(6):
        heard = sum((nu[a, b] for a, b, _ in EDGES if b == v), torch.zeros(5).double())
        rows.append((conv.lin_node.weight @ x[v] + conv.lin_message.weight @ heard).relu())
    torch.testing.assert_close(conv(x, EDGE_INDEX, EDGE_TYPE), torch.stack(rows))


def test_reverse_edges() -> None:
    reverse = reverse_edges(EDGE_INDEX, 6)
    assert torch.equal(EDGE_INDEX[:, reverse], EDGE_INDEX.flip(0))
    assert reverse_edges(EDGE_INDEX[:, :0], 6).numel() == 0
    with pytest.raises(ValueError, match="both directions"):
        reverse_edges(EDGE_INDEX[:, 1:], 6)


def test_messages_do_not_turn_back() -> None:
    """On a single edge nothing but the first messages arrives, however many iterations there are."""
    pair, types = torch.tensor([[0, 1], [1, 0]]), torch.tensor([2, 2])
    conv = LoopyBPConv(5, 3, 1)
    x = torch.randn(2, 5)
    once = conv(x, pair, types)
    conv.num_iterations = 4
    torch.testing.assert_close(conv(x, pair, types), once)


@pytest.mark.parametrize("network", [MeanFieldNetwork, LoopyBPNetwork])
def test_networks(network: type[GraphNetwork]) -> None:
    data = regression_set()
    net = network.from_data(data, hidden_channels=12, norm=False).eval()
    again = network(**net.config)
    again.load_state_dict(net.state_dict())
    batch = next(iter(PackedLoader(data, 9)))
    torch.testing.assert_close(again.eval()(batch), net(batch))
    alone = torch.cat([net(single) for single in PackedLoader(data[:9], 1)])
    torch.testing.assert_close(net(batch), alone, rtol=1e-4, atol=1e-5)
    net.train()(batch).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    before = [p.clone() for p in net.parameters()]
    net.reset_parameters()
    changed = [not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True)]
    assert sum(changed) >= len(changed) - 3  # biases that were and are 0


def test_mean_field_by_colours_is_mean_field_by_nodes() -> None:
    data = regression_set()
    net = MeanFieldNetwork.from_data(data, hidden_channels=12)
    by_colours = next(iter(PackedLoader(data, 30, quotient=4)))
    plain = MeanFieldNetwork(**net.config | {"quotient": False})
    plain.load_state_dict(net.state_dict())
    out, expected = net(by_colours), plain(by_colours)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    gradients = [
        torch.autograd.grad(result.square().sum(), list(model.parameters()))
        for result, model in ((out, net), (expected, plain))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
