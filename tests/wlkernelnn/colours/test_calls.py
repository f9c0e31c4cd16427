"""to_colours follows what changes in a network after its conversion: settings, modules, arguments."""

from __future__ import annotations

import operator
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool

from wlkernelnn.colours import to_colours


def path(*codes: float) -> Data:
    one = torch.arange(len(codes) - 1)
    edges = torch.stack([torch.cat([one, one + 1]), torch.cat([one + 1, one])])
    return Data(x=torch.tensor(codes).view(-1, 1).expand(-1, 4) - 1, edge_index=edges)


BATCH = Batch.from_data_list(3 * [path(0.0, 1.0, 2.0), path(0.0, 1.0, 1.0, 0.0), path(2.0, 0.0, 0.0)])
ARGUMENTS = BATCH.x.double(), BATCH.edge_index, BATCH.batch


def gin() -> pyg.GINConv:
    return pyg.GINConv(torch.nn.Linear(4, 4)).double()


def assert_same(fast: torch.nn.Module, net: torch.nn.Module, *arguments: Any) -> None:
    torch.testing.assert_close(fast(*arguments), net(*arguments))
    assert fast.went_by_nodes == ""


@dataclass
class Options:
    residual: bool


class Configured(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = gin()
        self.args, self.options, self.names = Namespace(residual=False), Options(False), {"one"}
        self._scale = 1.0
        self.act = partial(torch.mul, other=2.0)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.act(self.conv(x, edge_index)) * self._scale
        for residual in (self.args.residual, self.options.residual, "two" in self.names):
            h = h + x if residual else h
        return global_add_pool(h, batch)


def _other(self: Configured, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_add_pool(5 * self.conv(x, edge_index), batch)


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.args, "residual", True),
        lambda net: setattr(net.options, "residual", True),
        lambda net: net.names.add("two"),
        lambda net: setattr(net, "_scale", 2.0),
        lambda net: setattr(net, "act", partial(torch.mul, other=3.0)),
        lambda net: setattr(net, "forward", MethodType(_other, net)),
        lambda net: setattr(net, "conv", pyg.GCNConv(4, 4).double()),
    ],
    ids=["Namespace", "dataclass", "set", "private", "partial", "forward", "module"],
)
def test_settings_may_change(change: Callable[[Configured], Any]) -> None:
    net = Configured()
    fast = to_colours(net)
    before = fast(*ARGUMENTS)
    change(net)
    assert_same(fast, net, *ARGUMENTS)
    assert not torch.allclose(fast(*ARGUMENTS), before)
    assert_same(to_colours(net), net, *ARGUMENTS)


def test_every_sequential_of_pyg_is_its_own() -> None:
    def build(last: str) -> pyg.Sequential:
        layers = [(gin(), "x, edge_index -> h"), (gin(), "h, edge_index -> g"), (lambda a, b: a + b, last)]
        return pyg.Sequential("x, edge_index, batch", [*layers, (global_add_pool, "y, batch -> z")])

    first, second = build("g, x -> y"), build("g, h -> y")
    for net in (first, second):
        assert_same(to_colours(net), net, *ARGUMENTS)


def test_a_layer_in_two_places_may_become_another() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = torch.nn.ModuleList([gin(), gin()])
            self.convs.append(self.convs[0])

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            for conv in self.convs:
                x = conv(x, edge_index)
            return global_add_pool(x, batch)

    net = Shared()
    fast = to_colours(net)
    assert_same(fast, net, *ARGUMENTS)
    net.convs[2] = net.convs[1]
    assert_same(fast, net, *ARGUMENTS)


class OneLayer(torch.nn.Module):
    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        return global_add_pool(self.conv(x, edge_index, edge_weight), batch)


def test_layers_that_nobody_knows_are_compared_again_with_other_settings() -> None:
    net = OneLayer(pyg.APPNP(K=1, alpha=0.1, normalize=False))
    fast = to_colours(net)
    assert_same(fast, net, *ARGUMENTS)
    net.conv.K = 5
    with pytest.raises(ValueError, match="APPNP cannot go by colours"):
        fast(*ARGUMENTS)


def test_layers_that_nobody_knows_are_compared_again_with_other_arguments() -> None:
    class Shares(pyg.MessagePassing):
        """With weights it divides them by the sum of those that leave the source."""

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            if edge_weight is not None:
                total = edge_weight.new_zeros(x.size(0)).index_add(0, edge_index[0], edge_weight)
                edge_weight = edge_weight / total[edge_index[0]]
            return self.propagate(edge_index, x=x, edge_weight=edge_weight)

        def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
            return x_j if edge_weight is None else x_j * edge_weight.view(-1, 1)

    net = OneLayer(Shares())
    fast = to_colours(net)
    assert_same(fast, net, *ARGUMENTS)
    with pytest.raises(ValueError, match="Shares cannot go by colours"):
        fast(*ARGUMENTS, torch.ones(BATCH.num_edges, dtype=torch.float64))


@pytest.mark.parametrize(
    "write",
    [torch.relu_, lambda x: x.relu_(), partial(functional.relu, inplace=True), torch.nn.ReLU(inplace=True)],
    ids=["function", "method", "inplace", "module"],
)
def test_writes_to_an_argument_are_seen_by_nodes_too(write: Callable[[Tensor], Tensor]) -> None:
    class Writes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.write = gin(), write

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, ...]:
            self.write(x)
            return global_add_pool(self.conv(x, edge_index), batch), x.cumsum(0)

    net = Writes()
    fast = to_colours(net)
    x, *others = ARGUMENTS
    torch.testing.assert_close(fast(x.clone(), *others), net(x.clone(), *others))
    assert fast.went_by_nodes == ""


def relu_of_a_view(net: Any, h: Tensor) -> Tensor:
    k = h.t()
    h.relu_()
    return k.t()


def relu_into_a_view(net: Any, h: Tensor) -> Tensor:
    h.t().relu_()
    return h


def module_into_a_view(net: Any, h: Tensor) -> Tensor:
    net.relu(input=h.view(-1, 2, 2).transpose(0, 1))
    return h


def sum_into_an_attribute(net: Any, h: Tensor) -> Tensor:
    k = h.T
    k += 1
    return h


def sigmoid_into_out(net: Any, h: Tensor) -> Tensor:
    torch.sigmoid(h.detach(), out=h.detach())
    return h


def of_another_level(net: Any, h: Tensor) -> Tensor:
    k = h.type_as(net.conv(h, net.edge_index))
    h.relu_()
    return k


class Writes(torch.nn.Module):
    """A layer, what is tried, and a sum by nodes."""

    def __init__(self, write: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.relu, self.write = gin(), torch.nn.ReLU(inplace=True), write

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        self.edge_index, self.batch = edge_index, batch
        out = self.write(self, self.conv(x, edge_index)).cumsum(0)
        del self.edge_index, self.batch
        return out, x.cumsum(0)


@pytest.mark.parametrize(
    "write",
    [
        relu_of_a_view,
        relu_into_a_view,
        module_into_a_view,
        sum_into_an_attribute,
        sigmoid_into_out,
        of_another_level,
    ],
    ids=lambda f: f.__name__,
)
def test_writes_that_views_by_nodes_would_not_see_are_refused(write: Callable[[Any, Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match=r"it writes to .*: (write h = h \+ other|take what it returns)"):
        to_colours(Writes(write))


@pytest.mark.parametrize(
    "write",
    [
        lambda net, h: net.relu(h.squeeze()),
        lambda net, h: net.relu(h.unsqueeze(0)).squeeze(0),
        lambda net, h: h[net.batch > 1].sum(0) + net.relu(h),
        lambda net, h: h.data.mean() + net.relu(h),
        lambda net, h: h.tanh_(),
    ],
)
def test_writes_that_nobody_else_reads(write: Callable[[Any, Tensor], Tensor]) -> None:
    net = Writes(write)
    assert_same(to_colours(net), net, *ARGUMENTS)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[:, :2].relu_(),
        lambda x: operator.imul(x.detach(), 2),
        lambda x: operator.ipow(x.view(-1, 2, 2), 2),
    ],
)
def test_writes_to_views_of_arguments(write: Callable[[Tensor], Tensor]) -> None:
    class OfArgument(Writes):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            write(x)
            return super().forward(x, edge_index, batch)

    net = OfArgument(lambda net, h: h)
    x, *others = ARGUMENTS
    torch.testing.assert_close(to_colours(net)(x.clone(), *others), net(x.clone(), *others))


def test_writes_to_the_batch_and_by_layers_are_refused() -> None:
    def clamps(net: Any, h: Tensor) -> Tensor:
        net.batch.clamp_(max=1)
        return h

    with pytest.raises(ValueError, match="it writes to batch"):
        to_colours(Writes(clamps))

    class Activates(pyg.SimpleConv):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x.relu_(), edge_index)

    class Net(Writes):
        def __init__(self) -> None:
            super().__init__(lambda net, h: self.other(h, net.edge_index) + h)
            self.other = Activates()

    with pytest.raises(ValueError, match="Activates writes to the states that it is given"):
        to_colours(Net())(*ARGUMENTS)


def test_compiled_whole_it_goes_by_nodes() -> None:
    net = OneLayer(gin())
    compiled = torch.compile(to_colours(net), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*ARGUMENTS), net(*ARGUMENTS))


def test_extra_state_is_the_networks() -> None:
    class Remembers(OneLayer):
        mean = 3.0

        def get_extra_state(self) -> dict[str, float]:
            return {"mean": self.mean}

        def set_extra_state(self, state: dict[str, float]) -> None:
            self.mean = state["mean"]

    net, other = Remembers(gin()), Remembers(gin())
    other.mean = 5.0
    fast = to_colours(net)
    assert list(fast.state_dict()) == list(net.state_dict())
    fast.load_state_dict(other.state_dict())
    assert net.mean == 5.0
    whole = torch.nn.Sequential(fast)
    state = whole.state_dict()
    state["0._extra_state"] = {"mean": 7.0}
    whole.load_state_dict(state)
    assert net.mean == 7.0


def test_two_loops_at_a_node_go_by_nodes_where_a_layer_keeps_one() -> None:
    class Pooled(torch.nn.Module):
        def __init__(self, conv: torch.nn.Module) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return global_add_pool(self.conv(x, edge_index), batch)

    x, edge_index, batch = ARGUMENTS
    looped = torch.cat([edge_index, torch.zeros(2, 2, dtype=torch.long)], dim=1)
    net = Pooled(pyg.GCNConv(4, 4).double())
    fast = to_colours(net)
    torch.testing.assert_close(fast(x, looped, batch), net(x, looped, batch))
    assert "keeps one of several edges" in fast.went_by_nodes
    sums = Pooled(gin())
    assert_same(to_colours(sums), sums, x, looped, batch)


def test_edges_are_integers() -> None:
    x, edge_index, batch = ARGUMENTS
    fast = to_colours(Configured())
    with pytest.raises(ValueError, match=r"edge_index must be int64, got torch\.float32"):
        fast(x, edge_index + 0.9, batch)
