"""What computes row by row, and what layers are given: all else is refused or checked as by nodes."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Batch, Data

from tests.wlkernelnn.colours.batches import assert_same
from tests.wlkernelnn.colours.test_network import BATCH
from wlkernelnn import DeepKernelConv, WLKernelConv
from wlkernelnn.colours import to_colours
from wlkernelnn.models import CodeEncoder, FeatureEncoder


def test_a_deviation_of_all_nodes_is_not_along_a_dimension() -> None:
    """The argument of ``std`` and ``var`` may be whether it is unbiased."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(3, 8)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            h = self.conv(x, edge_index)
            return h / h.std(True) + torch.var(h, True)

    net = Scaled().double()
    expected = net(BATCH.x, BATCH.edge_index)
    torch.testing.assert_close(to_colours(net)(BATCH.x, BATCH.edge_index), expected)


PATH = Data(x=torch.ones(3, 3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))


class Residual(WLKernelConv):
    def forward(self, x: Any, edge_index: Any, *given: Any, **more: Any) -> Tensor:
        return x + super().forward(x, edge_index, *given, **more)


class Alone(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class WithEdges(Alone):
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        return self.conv(x, edge_index, edge_attr, edge_type, edge_weight)


def mixes_nodes(h: Tensor) -> Tensor:
    return h - h.mean(0)


class CentredLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return mixes_nodes(super().forward(x))


class CentredSequential(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return mixes_nodes(super().forward(x))


class CentredMLP(pyg.MLP):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return mixes_nodes(super().forward(x))


class CentredSum(pyg.SumAggregation):
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return mixes_nodes(super().forward(*args, **kwargs))


def centred(linear: nn.Linear, x: Tensor) -> Tensor:
    return mixes_nodes(functional.linear(x, linear.weight, linear.bias))


def rebound() -> nn.Module:
    linear = nn.Linear(3, 4)
    linear.forward = MethodType(centred, linear)  # type: ignore[method-assign]
    return linear


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class DoubledSum(pyg.SumAggregation):
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return 2 * super().forward(*args, **kwargs)


OF_SEVERAL_NODES: dict[str, Callable[[], nn.Module]] = {
    "its class has its own forward": lambda: Residual(3, 3, 2),
    "its activation BatchNorm1d": lambda: WLKernelConv(3, 3, 2, act=nn.BatchNorm1d(3)),
    "its activation Softmax": lambda: WLKernelConv(3, 3, 2, act=nn.Softmax(dim=0)),
    "GINConv cannot go by colours": lambda: pyg.GINConv(pyg.MLP([3, 4, 4], act=nn.Softmax(dim=0), norm=None)),
    "GINConv cannot .* colours": lambda: pyg.GINConv(pyg.MLP([3, 4, 4], act=mixes_nodes, norm=None)),
    "its activation PairNorm": lambda: WLKernelConv(3, 3, 2, act=pyg.PairNorm()),
    "its activation GraphNorm": lambda: DeepKernelConv(3, 3, act=pyg.GraphNorm(3)),
    "its activation LayerNorm": lambda: WLKernelConv(3, 3, 2, act=pyg.LayerNorm(3)),
}
CENTRED: list[Callable[[], nn.Module]] = [
    lambda: pyg.GINConv(CentredLinear(3, 4)),
    lambda: pyg.GINConv(CentredSequential(nn.Linear(3, 4), nn.ReLU())),
    lambda: pyg.GINConv(nn.Sequential(nn.Linear(3, 4), CentredSequential())),
    lambda: pyg.GINConv(CentredMLP([3, 4, 4], norm=None)),
    lambda: pyg.GINConv(rebound()),
    lambda: pyg.GINConv(nn.Linear(3, 4), aggr=CentredSum()),
]


@pytest.mark.parametrize("why", OF_SEVERAL_NODES)
def test_layers_whose_parts_look_at_several_nodes(why: str) -> None:
    lone = Data(x=torch.rand(1, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    batch = Batch.from_data_list([PATH] * 4 + [lone])
    with pytest.raises(ValueError, match=why):
        to_colours(Alone(OF_SEVERAL_NODES[why]()))(batch)


@pytest.mark.parametrize("layer", CENTRED)
@pytest.mark.parametrize("training", [True, False])
def test_modules_of_ones_own_are_compared_whatever_they_extend(
    layer: Callable[[], nn.Module], training: bool
) -> None:
    batch = Batch.from_data_list([PATH] * 4 + [Data(x=torch.rand(1, 3), edge_index=PATH.edge_index[:, :0])])
    with pytest.raises(ValueError, match="GINConv cannot go by colours"):
        to_colours(Alone(layer()).train(training))(batch)


@pytest.mark.parametrize(
    "layer", [pyg.GINConv(Doubled(3, 4)), pyg.GINConv(nn.Linear(3, 4), aggr=DoubledSum())], ids=str
)
def test_modules_of_ones_own_that_go_by_rows(layer: nn.Module) -> None:
    batch = Batch.from_data_list([PATH] * 4 + [Data(x=torch.rand(1, 3), edge_index=PATH.edge_index[:, :0])])
    net = Alone(layer)
    torch.testing.assert_close(to_colours(net)(batch), net(batch.x, batch.edge_index))


class OverChannels(nn.Module):
    """``Softmax2d`` of three dimensions goes along the first, the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.softmax = pyg.GraphConv(3, 4), nn.Softmax2d()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.softmax(self.conv(x, edge_index).view(x.size(0), 2, 2)).flatten(1)
        return pyg.global_add_pool(h, batch)


def test_a_softmax_over_nodes_goes_by_nodes() -> None:
    batch = Batch.from_data_list([PATH] * 4)
    net = OverChannels()
    torch.testing.assert_close(to_colours(net)(batch), net(batch.x, batch.edge_index, batch.batch))


class Encoded(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.conv = encoder, WLKernelConv(4, 4, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return pyg.global_add_pool(self.conv(self.encoder(x), edge_index), batch)


@pytest.mark.parametrize("floats", [False, True])
def test_encoders_of_this_package(floats: bool) -> None:
    batch = Batch.from_data_list([PATH, PATH])
    batch.x = torch.randint(3, (6, 2))
    batch.x[3:] = batch.x[:3]
    batch.x = batch.x.float() if floats else batch.x
    net = Encoded(FeatureEncoder(2, 4) if floats else CodeEncoder((3, 3), 4))
    fast = to_colours(net)
    torch.testing.assert_close(fast(batch), net(batch.x, batch.edge_index, batch.batch))
    assert not fast.went_by_nodes


@pytest.mark.parametrize("act", [None, "relu", torch.tanh, functional.elu, nn.PReLU(), nn.Softmax(dim=-1)])
def test_perceptrons_with_activations_by_rows(act: Any) -> None:
    net = Alone(pyg.GINConv(pyg.MLP([3, 4, 4], act=act, norm=None))).double()
    batch = Batch.from_data_list([PATH] * 2)
    batch.x = batch.x.double()
    torch.testing.assert_close(to_colours(net)(batch), net(batch.x, batch.edge_index))


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 4, scale_grad_by_freq=True)
        self.conv = pyg.GraphConv(4, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.embedding(x), edge_index)


class EmbeddedByFunction(Embedded):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = functional.embedding(x, self.embedding.weight, scale_grad_by_freq=True)
        return self.conv(h, edge_index)


@pytest.mark.parametrize("net", [Embedded(), EmbeddedByFunction()])
def test_gradients_that_count_rows_are_not_by_colours(net: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"GraphConv.* it depends on .*mbedding"):
        to_colours(net)


def test_sums_of_our_layers_that_depend_on_an_order_are_refused() -> None:
    conv = WLKernelConv(3, 3, 2)
    for part in conv.modules():
        if isinstance(part, pyg.MessagePassing):
            part.aggr_module = pyg.LSTMAggregation(3, 3)
    with pytest.raises(ValueError, match="LSTMAggregation depends on more than the set"):
        to_colours(Alone(conv))


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"edge_attr": torch.ones(16, 2)}, "got edge_attr, but was made without edge_dim"),
        ({}, {"edge_type": torch.ones(16, dtype=torch.long)}, "got edge_type, but was made without num"),
        ({"num_edge_types": 2}, {"edge_type": torch.full((16,), 0.7)}, "needs edge_type: integers"),
        ({"num_edge_types": 2}, {}, "needs edge_type: integers of shape .E., got nothing"),
        ({}, {"edge_weight": torch.ones(16, 2)}, "expected one number per edge"),
        *(
            ({"num_edge_types": 2}, {"edge_type": torch.full((16,), code)}, "edge_type has values")
            for code in (-1, 2, 10**9)
        ),
    ],
)
def test_edges_are_checked_as_by_nodes(options: Any, given: Any, message: str) -> None:
    net, batch = WithEdges(WLKernelConv(3, 3, 2, **options)), Batch.from_data_list([PATH] * 4)
    for name, value in given.items():
        batch[name] = value
    for call in (lambda: net(batch.x, batch.edge_index, **given), lambda: to_colours(net)(batch)):
        with pytest.raises((ValueError, IndexError), match=message):
            call()


def test_a_propagate_of_its_own_is_run() -> None:
    class Twice(pyg.SAGEConv):
        def propagate(self, edge_index: Any, size: Any = None, **values: Any) -> Tensor:
            return 2 * super().propagate(edge_index, size=size, **values)

    net, batch = Alone(Twice(3, 3)).double(), Batch.from_data_list([PATH] * 4)
    batch.x = batch.x.double()
    torch.testing.assert_close(to_colours(net)(batch), net(batch.x, batch.edge_index))


class Between(nn.Module):
    """A network that computes something from ``h [N, 3]`` and ``a [N]``, before it pools."""

    def __init__(
        self,
        between: Callable[[Any, Tensor, Tensor], Tensor],
        act: nn.Module | None = None,
        pool: Callable[..., Tensor] = pyg.global_add_pool,
    ) -> None:
        super().__init__()
        self.conv, self.between, self.act = pyg.GINConv(nn.Linear(3, 3)), between, act
        self.pool = pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        return self.pool(self.between(self, h, h[:, 0]), batch)


GIVEN = BATCH.x, BATCH.edge_index, BATCH.batch


@pytest.mark.parametrize(
    "between",
    [
        lambda net, h, a: h * (h[:, :1] * a).mean(1, keepdim=True),
        lambda net, h, a: (h.unsqueeze(1) - h).square().sum(2).sum(1, keepdim=True),
        lambda net, h, a: torch.max(h[:, :1], a).sum(1, keepdim=True),
        lambda net, h, a: torch.where(h[:, :1] > 0, a, 0.0).sum(1, keepdim=True),
    ],
    ids=["product", "differences", "maximum", "where"],
)
def test_pairs_of_nodes_are_refused(between: Any) -> None:
    """``[N, 1]`` and ``[N]`` are broadcast to ``[N, N]``, and colours are fewer than nodes."""
    with pytest.raises(ValueError, match=r"pairs nodes with nodes: .* \[N.*\] and \[N.*; give them as many"):
        to_colours(Between(between).double())(*GIVEN)


@pytest.mark.parametrize(
    "between",
    [
        lambda net, h, a: a.expand(h.size(0), -1).mean(1, keepdim=True),
        lambda net, h, a: h.expand(h.size(0), -1, -1).sum(1),
    ],
    ids=["numbers", "states"],
)
def test_new_dimensions_in_front_are_refused(between: Any) -> None:
    with pytest.raises(ValueError, match=r"expand .* goes along the nodes, of shape"):
        to_colours(Between(between).double())(*GIVEN)


def test_numbers_of_edges_are_no_numbers_of_nodes() -> None:
    """Of a ring with twice as many edges as nodes."""

    class OfEdges(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GINConv(nn.Linear(3, 4))

        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
            h = self.conv(x, edge_index)
            pairs = (2 * edge_attr).view(h.size(0), 2, -1).sum(1)
            halves = h.view(edge_attr.size(0), -1)[: h.size(0)]
            return pyg.global_add_pool(h, batch) + pairs.sum() * halves.square().sum()

    ring = torch.arange(4)
    edges = torch.stack([ring.repeat(2), torch.cat([(ring + 1) % 4, (ring - 1) % 4])])
    data = Data(
        x=torch.eye(4, 3).double(), edge_index=edges, edge_attr=torch.arange(8.0).view(8, 1).double() % 3
    )
    assert_same(OfEdges(), Batch.from_data_list([data] * 2), "x", "edge_index", "edge_attr", "batch")


@pytest.mark.parametrize("act", [nn.Softmax(-1), nn.LogSoftmax(-1), nn.Softmin(-1)], ids=repr)
def test_a_softmax_along_the_nodes_is_refused(act: nn.Module) -> None:
    net = Between(lambda net, h, a: h * net.act(input=a).unsqueeze(1), act).double()
    with pytest.raises(ValueError, match="goes along the nodes, of shape"):
        to_colours(net)(*GIVEN)


def test_a_softmax_may_change_its_dimension() -> None:
    net = Between(lambda net, h, a: net.act(h), nn.Softmax(dim=1)).double()
    fast = to_colours(net)
    torch.testing.assert_close(fast(*GIVEN), net(*GIVEN))
    net.act.dim = 0
    with pytest.raises(ValueError, match="goes along the nodes"):
        fast(*GIVEN)


@pytest.mark.parametrize(
    "between",
    [
        lambda net, h, a: h.unsqueeze(1).expand(-1, h.size(0), -1).sum(1),
        lambda net, h, a: h.repeat(1, h.shape[0]).sum(1, keepdim=True),
        lambda net, h, a: a.repeat(h.size(0), 1).sum(0).unsqueeze(1),
        lambda net, h, a: (h.unsqueeze(2) * h.unsqueeze(1)).sum(2) + a.unsqueeze(-1),
        lambda net, h, a: h * (a > 0).type_as(h).unsqueeze(1) + (a > 0).to(h).unsqueeze(1),
    ],
    ids=["expand", "repeat", "repeat in front", "pairs of channels", "types"],
)
def test_sizes_beside_that_of_the_rows(between: Any) -> None:
    assert_same(Between(between), BATCH, "x", "edge_index", "batch")


OF_ALL = (pyg.global_add_pool, pyg.global_mean_pool, pyg.global_max_pool)


@pytest.mark.parametrize(
    ("what", "pools"),
    [
        (lambda net, h, a: (h > 0).long(), OF_ALL),
        (lambda net, h, a: functional.one_hot((a > 0).long(), 2), OF_ALL),
        (lambda net, h, a: h > 0, OF_ALL[::2]),  # a mean of booleans fails by nodes too
    ],
    ids=["integers", "histogram", "booleans"],
)
def test_integers_and_booleans_are_pooled(what: Any, pools: Any) -> None:
    for pool in pools:
        net = Between(what, pool=pool).double()
        found, expected = to_colours(net)(*GIVEN), net(*GIVEN)
        assert found.dtype == expected.dtype
        assert found.equal(expected)
