"""Batches of small graphs with few features, as hypothesis draws them, and networks on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool

from wlkernelnn.colours import ColourNetwork, to_colours

NODES, EDGES = 3, 2  # channels


@st.composite
def graphs(draw: Any, loops: bool = True, most: int = 7) -> Data:
    """Any directed graph, isolated nodes and loops included, or a cycle, whose nodes are alike."""
    size = draw(st.integers(1, most))
    if draw(st.booleans()):
        ring = torch.arange(size)
        pairs = {(u, int((u + 1) % size)) for u in ring.tolist()} if size > 2 else set()
        pairs |= {(v, u) for u, v in pairs}
        code, kind = [0] * size, [0] * len(pairs)
    else:
        node = st.integers(0, size - 1)
        pairs = draw(st.sets(st.tuples(node, node), max_size=3 * size))
        pairs = {(u, v) for u, v in pairs if loops or u != v}
        code = draw(st.lists(st.integers(0, NODES - 1), min_size=size, max_size=size))
        kind = draw(st.lists(st.integers(0, EDGES - 1), min_size=len(pairs), max_size=len(pairs)))
    one_hot = torch.nn.functional.one_hot
    return Data(
        x=one_hot(torch.tensor(code), NODES).double(),
        edge_index=torch.tensor(sorted(pairs), dtype=torch.long).reshape(-1, 2).t().contiguous(),
        edge_attr=one_hot(torch.tensor(kind, dtype=torch.long), EDGES).double().reshape(-1, EDGES),
    )


def batches(**options: Any) -> st.SearchStrategy[Batch]:
    """Some graphs, each of them twice: half of the nodes share their colour with another."""
    some = st.lists(graphs(**options), min_size=1, max_size=4)
    return some.map(lambda found: Batch.from_data_list([*found, *found]))


class Network(torch.nn.Module):
    """Layers, norms, a residual sum, pooling and a head, as in most of PyG's examples."""

    def __init__(
        self,
        layer: Callable[[int], torch.nn.Module],
        norm: Callable[[], torch.nn.Module] = torch.nn.Identity,
        pool: Callable[..., Tensor] = global_add_pool,
    ) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([layer(NODES), layer(8)])
        self.norms = torch.nn.ModuleList([norm(), norm()])
        self.pool, self.head = pool, torch.nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        h, first = x, None
        for conv, norm in zip(self.convs, self.norms, strict=True):
            takes_edges = getattr(conv, "edge_dim", None) is not None
            h = conv(h, edge_index, edge_attr) if takes_edges else conv(h, edge_index)
            h = norm(h).relu()
            first = h if first is None else first
        return self.head(self.pool(h + first, batch))


def assert_same(net: torch.nn.Module, batch: Data, *names: str) -> ColourNetwork:
    """Compare outputs, gradients and buffers of a network by nodes and by colours, in both modes."""
    net = net.double()
    with torch.no_grad():  # no batch norm ends where a ReLU has two slopes
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    for module in net.modules():  # nor enlarges the rounding of equal rows
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eps = 0.1
    other = copy.deepcopy(net)
    fast = to_colours(other)
    for mode in (True, False):
        net.train(mode)
        fast.train(mode)
        given = [batch[name] for name in names or ("x", "edge_index", "edge_attr", "batch")]
        expected, found = net(*given), fast(**dict(zip(fast._parameters_of_call, given, strict=False)))
        assert not fast.went_by_nodes
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        expected.square().sum().backward()
        found.square().sum().backward()
    for (name, value), same in zip(net.named_parameters(), other.parameters(), strict=True):
        if value.grad is not None:
            scale = 1 + float(value.grad.abs().max())
            torch.testing.assert_close(same.grad / scale, value.grad / scale, rtol=0, atol=1e-10, msg=name)
    for value, same in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(same, value, rtol=1e-10, atol=1e-10)
    return fast
