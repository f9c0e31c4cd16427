"""to_colours: parameters in common, arguments, what goes by nodes, and what is refused with its line."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tests.inputs.molecules import regression_set
from tests.wlkernelnn.colours.batches import Network, assert_same
from wlkernelnn.colours import Colours, colour_batch, to_colours
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork


def path(*codes: int) -> Data:
    one = torch.arange(len(codes) - 1)
    edges = torch.stack([torch.cat([one, one + 1]), torch.cat([one + 1, one])])
    x = functional.one_hot(torch.tensor(codes), 3).double()
    return Data(x=x, edge_index=edges, edge_attr=torch.ones(edges.size(1), 2, dtype=torch.double))


GRAPHS = [path(0, 1, 2), path(0, 1, 1, 0), path(2), path(0, 1, 2), path(1, 1, 0, 2, 1), path(0, 1, 1, 0)]
BATCH = Batch.from_data_list(GRAPHS)


def network() -> Network:
    return Network(lambda d: pyg.GraphConv(d, 8), lambda: torch.nn.BatchNorm1d(8)).double()


def test_has_the_parameters_of_the_network() -> None:
    net = network()
    fast = to_colours(net)
    assert list(fast.state_dict()) == list(net.state_dict())
    assert all(mine is theirs for mine, theirs in zip(fast.parameters(), net.parameters(), strict=True))
    fast.load_state_dict({name: torch.zeros_like(value) for name, value in net.state_dict().items()})
    assert not net.head.weight.any()
    fast.float()
    assert net.norms[0].running_mean.dtype == net.head.weight.dtype == torch.float
    fast.eval()
    assert not net.training
    assert not net.norms[0].training
    other = copy.deepcopy(fast)
    assert other.net.head is other.head
    assert other.head is not net.head


def test_hundred_steps_of_training_are_the_same() -> None:
    net = network()
    other = copy.deepcopy(net)
    losses = []
    for model in (net, to_colours(other)):
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        of_model = []
        for _ in range(100):
            optimizer.zero_grad()
            out = model(BATCH.x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch)
            loss = (out - torch.arange(12.0).view(6, 2)).square().mean()
            loss.backward()
            optimizer.step()
            of_model.append(loss.item())
        losses.append(of_model)
    assert losses[1] == pytest.approx(losses[0], rel=1e-7)
    assert losses[0][-1] < losses[0][0] / 2


class TakesData(torch.nn.Module):
    """As most networks of PyG's examples: with a ``Data``, functional dropout, shapes and an aggregation."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(2, 4)
        self.first = pyg.GINEConv(torch.nn.Linear(3, 8), edge_dim=4)
        self.second = pyg.GINEConv(torch.nn.Linear(8, 8), edge_dim=4)
        self.pool = pyg.MeanAggregation()

    def forward(self, data: Data) -> Tensor:
        edge_attr = self.lin(data["edge_attr"]).relu()
        h = self.first(data.x, data.edge_index, edge_attr)
        h = functional.dropout(h, 0.0, training=self.training)
        h = torch.cat([h, h * 2], dim=-1)[:, :8].view(h.size(0), 2, 4).view(h.shape[0], -1)
        if self.training:
            h = h * 1.5
        h = self.second(h, data.edge_index, edge_attr) + h
        return self.pool(h.softmax(-1), data.batch)


def test_takes_data_in_both_modes() -> None:
    torch.manual_seed(0)
    net = TakesData().double()
    fast = to_colours(net)
    for mode in (True, False):
        net.train(mode)
        torch.testing.assert_close(fast(BATCH), net(BATCH), rtol=1e-12, atol=1e-12)
    assert not fast.went_by_nodes


@pytest.mark.parametrize("centre", [lambda h: h.mean(dim=0), lambda h: h[0], lambda h: h.max(1)[0][0]])
def test_unknown_operations_after_the_layers_go_by_nodes(centre: Callable[[Tensor], Tensor]) -> None:
    class Centred(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(3, 8)
            self.pool = pyg.AttentionalAggregation(torch.nn.Linear(8, 1))

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            h = self.conv(x, edge_index)
            return self.pool(h - centre(h), batch)

    assert_same(Centred(), BATCH, "x", "edge_index", "batch")


class TwoLayers(torch.nn.Module):
    """Two layers, and something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (pyg.GINConv(torch.nn.Linear(3, 3)) for _ in range(2))
        self.norm = pyg.GraphNorm(3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.second(self.between(self.first(x, edge_index), batch), edge_index)

    def between(self, h: Tensor, batch: Tensor) -> Tensor:
        return h


@pytest.mark.parametrize(
    ("between", "what"),
    [
        (lambda net, h, batch: net.norm(h, batch), "GraphNorm norm"),
        (lambda net, h, batch: h + torch.rand_like(h), "rand_like"),
        (lambda net, h, batch: h + pyg.global_add_pool(h, batch)[batch], "add"),
        (lambda net, h, batch: h / h.norm(dim=0), "norm"),
        (lambda net, h, batch: h.flip(0), "flip"),
    ],
)
def test_names_the_line_that_colours_do_not_decide(between: object, what: str) -> None:
    class Other(TwoLayers):
        pass

    Other.between = between
    with pytest.raises(
        ValueError, match=rf"GINConv second .*it depends on {what} \(in .*test_network.py.*line"
    ):
        to_colours(Other())


def test_dimension_from_behind_that_is_the_first() -> None:
    class Mean(TwoLayers):
        def between(self, h: Tensor, batch: Tensor) -> Tensor:
            return h * h.sum(-1).mean(-1, keepdim=True)

    net = to_colours(Mean().double())
    with pytest.raises(ValueError, match="goes along the nodes"):
        net(BATCH)


def test_control_flow_on_values_is_refused() -> None:
    class Control(TwoLayers):
        def between(self, h: Tensor, batch: Tensor) -> Tensor:
            return h if h.sum() > 0 else -h

    with pytest.raises(ValueError, match=r"cannot be traced by torch\.fx.*rowwise="):
        to_colours(Control())


def test_rowwise_modules_and_roles_that_are_declared() -> None:
    class Loop(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return sum(x[:, i : i + 1] * i for i in range(x.shape[1]))

    class Encoded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.conv = Loop(), pyg.GraphConv(1, 8)

        def forward(self, x: Tensor, edge_index: Tensor, scale: Tensor, batch: Tensor) -> Tensor:
            return pyg.global_add_pool(self.conv(self.encoder(x), edge_index), batch) * scale

    net = Encoded().double()
    with pytest.raises(ValueError, match="cannot be traced"):
        to_colours(net)
    given = BATCH.x, BATCH.edge_index, torch.arange(6.0).view(-1, 1), BATCH.batch
    with pytest.raises(ValueError, match=r"scale has shape \[6, 1\], expected 20 rows.*roles="):
        to_colours(net, rowwise=(Loop,))(*given)
    fast = to_colours(net, roles={"scale": "graph"}, rowwise=(Loop,))
    torch.testing.assert_close(fast(*given), net(*given))
    assert not fast.went_by_nodes
    with pytest.raises(ValueError, match="roles\\['scale'\\] must be one of node, edge, graph"):
        to_colours(net, roles={"scale": "molecule"})


def test_goes_by_nodes_where_rows_differ(caplog: pytest.LogCaptureFixture) -> None:
    net = network()
    fast = to_colours(net)
    x = torch.rand(20, 3, dtype=torch.double)
    with caplog.at_level(logging.WARNING, "wlkernelnn"):
        out = fast(x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch)
        fast(x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch)
    assert caplog.messages == ["Network goes by nodes: 20 of 20 nodes differ in x"]
    net.zero_grad()
    torch.testing.assert_close(out, net(x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch))


def test_gradients_of_inputs_are_of_nodes() -> None:
    net = network().eval()
    fast = to_colours(net)
    x = BATCH.x.clone().requires_grad_()
    fast(x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch).sum().backward()
    found = x.grad
    x.grad = None
    net(x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch).sum().backward()
    torch.testing.assert_close(found, x.grad)
    assert "gradients of the inputs" in fast.went_by_nodes


def test_missing_attributes_are_named() -> None:
    fast = to_colours(network())
    with pytest.raises(ValueError, match="Network takes edge_attr; the batch has batch, edge_index, x"):
        fast(Data(x=BATCH.x, edge_index=BATCH.edge_index, batch=BATCH.batch))


def test_our_networks_go_by_colours_themselves() -> None:
    with pytest.raises(ValueError, match=r'goes by colours itself: .* quotient="auto" instead'):
        to_colours(GraphKernelNetwork([3], 8))
    with pytest.raises(ValueError, match="or quotient=False"):
        to_colours(GraphKernelNetwork([3], 8, quotient=False))
    with pytest.raises(TypeError, match=r"net must be a torch\.nn\.Module, got str"):
        to_colours("GIN")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="net is a ColourNetwork: it goes by colours already"):
        to_colours(to_colours(network()))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (pyg.SAGEConv(-1, 4), "lin_l.weight"),
        (pyg.GINConv(torch.nn.LazyBatchNorm1d(affine=False)), "nn.running_mean"),
    ],
)
def test_lazy_sizes_are_refused_by_name(layer: torch.nn.Module, name: str) -> None:
    net = pyg.Sequential("x, edge_index", [(layer, "x, edge_index -> x")]).double()
    with pytest.raises(
        ValueError, match=rf"{name} of Sequential.* has no shape yet: run that on a batch first"
    ):
        to_colours(net)
    expected = net.eval()(BATCH.x, BATCH.edge_index)
    torch.testing.assert_close(to_colours(net)(BATCH.x, BATCH.edge_index), expected)


def test_arguments_that_do_not_fit() -> None:
    fast, given = to_colours(network()), (BATCH.x, BATCH.edge_index, BATCH.edge_attr)
    with pytest.raises(TypeError, match="missing a required argument: 'batch'"):
        fast(*given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'owner'"):
        fast(*given, batch=BATCH.batch, owner=BATCH.batch)
    with pytest.raises(TypeError, match="too many positional arguments"):
        fast(*given, BATCH.batch, 1)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        fast(*given, BATCH.batch, x=BATCH.x)
    edge_index = BATCH.edge_index.clone()
    edge_index[1, 0] = -1
    with pytest.raises(ValueError, match=r"edge_index has node -1, expected 0 … 19"):
        fast(BATCH.x, edge_index, BATCH.edge_attr, BATCH.batch)


def test_more_keywords_are_arguments_too() -> None:
    class More(Network):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, **more: Tensor) -> Tensor:
            h = super().forward(x, edge_index, x, batch)
            return h * more["scale_of_graph"] if more else h

    net, given = More(lambda d: pyg.GraphConv(d, 8)).double(), (BATCH.x, BATCH.edge_index, BATCH.batch)
    fast = to_colours(net, roles={"scale_of_graph": "graph"})
    scale = torch.arange(6.0).view(-1, 1)
    torch.testing.assert_close(fast(*given), net(*given))
    torch.testing.assert_close(fast(*given, scale_of_graph=scale), net(*given, scale_of_graph=scale))
    assert not fast.went_by_nodes


def test_colours_of_the_loader() -> None:
    class Embedded(torch.nn.Module):
        def __init__(self, data: PackedGraphs) -> None:
            super().__init__()
            self.atoms = torch.nn.ModuleList(torch.nn.Embedding(n, 8) for n in data.description.node_dims)
            self.bonds = torch.nn.Embedding(data.description.num_edge_types, 8)
            self.convs = torch.nn.ModuleList(pyg.GINEConv(torch.nn.Linear(8, 8)) for _ in range(2))

        def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, batch: Tensor) -> Tensor:
            h = sum(table(x[:, i]) for i, table in enumerate(self.atoms))
            for conv in self.convs:
                h = conv(h, edge_index, self.bonds(edge_type)).relu()
            return pyg.global_add_pool(h, batch)

    data = regression_set()
    net = Embedded(data).double()
    fast = to_colours(net)
    for quotient in (None, 2, 3, 8):
        for batch in PackedLoader(data, batch_size=16, quotient=quotient):
            expected = net(batch.x, batch.edge_index.as_tensor(), batch.edge_type, batch.batch)
            torch.testing.assert_close(fast(batch), expected, rtol=1e-12, atol=1e-12)
    assert not fast.went_by_nodes


def test_colours_of_the_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    fast = to_colours(net)
    coloured = [Colours(2)(graph.clone()) for graph in GRAPHS]
    (batch,) = DataLoader(coloured, batch_size=6)
    expected = net(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    with monkeypatch.context() as patch:
        patch.setattr("wlkernelnn.colours.colouring.wl_colours", None)  # nobody searches
        torch.testing.assert_close(fast(batch), expected)
    # A batch that was changed since has other colours.
    kept = torch.arange(batch.edge_index.size(1)) != 3
    batch.edge_index, batch.edge_attr = batch.edge_index[:, kept], batch.edge_attr[kept]
    expected = net(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    torch.testing.assert_close(fast(batch), expected)


def test_transform_numbers_what_is_alike_alike() -> None:
    one, two = (Colours(3)(graph.clone()).colours for graph in (path(0, 1, 2), path(2, 1, 0)))
    torch.testing.assert_close(one.flip(0), two, rtol=0, atol=0)
    assert repr(Colours(3)) == "Colours(3)"
    longer = Colours(3)(path(0, 1, 2, 2)).colours
    # The third node has another neighbour, which the first sees after three iterations.
    assert (longer[0] == one[0]).tolist() == [True, True, True, False]
    looped = path(0, 1, 2)
    looped.edge_index = torch.tensor([[0, 1, 1, 2], [0, 0, 2, 1]])
    assert Colours(1)(looped).colours[0, 1] != one[0, 1]
    with pytest.raises(ValueError, match="depth"):
        Colours(0)


def test_written_out_with_steps() -> None:
    convs = torch.nn.ModuleList([pyg.GraphConv(3, 8), pyg.GraphConv(8, 8)]).double()
    colours = colour_batch(2, BATCH.edge_index, BATCH.batch, [BATCH.x], [BATCH.edge_attr])
    h, expected = colours.node(BATCH.x), BATCH.x
    for conv, step in zip(convs, colours.steps, strict=True):
        h = conv((h, step.lift(h)), step.edge_index)
        expected = conv(expected, BATCH.edge_index)
    torch.testing.assert_close(colours.nodes(h, 2), expected, rtol=1e-12, atol=1e-12)
    pooled = pyg.global_mean_pool(expected, BATCH.batch)
    torch.testing.assert_close(colours.pool(h, 2, "mean"), pooled, rtol=1e-12, atol=1e-12)
    assert sum(step.size[1] for step in colours.steps) < 2 * BATCH.num_nodes


def test_other_edges_than_the_loaders_are_read() -> None:
    net, store = TwoLayers(), PackedGraphs.from_pyg(GRAPHS * 3)
    fast = to_colours(net)
    (batch,) = PackedLoader(store, 18, quotient=2)
    torch.testing.assert_close(fast(batch), net(batch.x, batch.edge_index, batch.batch))
    fewer = batch.edge_index.as_tensor()[:, ::2].contiguous()
    torch.testing.assert_close(fast(batch, edge_index=fewer), net(batch.x, fewer, batch.batch))


def test_modes_are_the_networks_own() -> None:
    class Frozen(Network):
        def train(self, mode: bool = True) -> Frozen:
            super().train(mode)
            self.norms.eval()
            return self

    net = Frozen(lambda d: pyg.GraphConv(d, 8), lambda: torch.nn.BatchNorm1d(8))
    fast = to_colours(net)
    assert fast.train() is fast
    assert (fast.training, net.norms[0].training) == (True, False)
    assert not fast.eval().training


def test_functions_and_norms_that_are_replaced() -> None:
    class Acting(Network):
        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
            h = self.act(self.convs[0](x, edge_index))
            return pyg.global_add_pool(self.more(h), batch)

    net = Acting(lambda d: pyg.GraphConv(d, 8)).double()
    net.act, net.more = torch.relu, torch.nn.Sequential(torch.nn.Linear(8, 8)).double()
    fast, given = to_colours(net), (BATCH.x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch)
    torch.testing.assert_close(fast(*given), net(*given))
    net.act = torch.tanh
    torch.testing.assert_close(fast(*given), net(*given))
    net.more.append(torch.nn.BatchNorm1d(8).double())
    torch.testing.assert_close(fast(*given), net(*given))
