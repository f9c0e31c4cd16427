"""What would be wrong by colours is refused or goes by nodes; what looks as if it would be is exact."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from tests.wlkernelnn.colours.batches import assert_same
from tests.wlkernelnn.colours.test_network import BATCH, GRAPHS, TwoLayers
from wlkernelnn.colours import Colours, colour_batch, to_colours
from wlkernelnn.colours.norms import weighted_batch_norm

Between = Callable[[Any, Tensor, Tensor], Tensor]


def with_between(between: Between, **modules: nn.Module) -> nn.Module:
    class Other(TwoLayers):
        pass

    Other.between = between
    net = Other()
    for name, module in modules.items():
        setattr(net, name, module)
    return net.double()


def writes(net: Any, h: Tensor, batch: Tensor) -> Tensor:
    h = h * 1
    kept = h
    h += 2 * h
    functional.relu(h, inplace=True)
    return h + kept


def writes_to_buffer(net: Any, h: Tensor, batch: Tensor) -> Tensor:
    net.norms.running_mean.mul_(0.9).add_(h.mean(0).detach())
    return h - net.norms.running_mean


EXACT: dict[str, Between] = {
    "number of nodes": lambda net, h, batch: h / h.size(0),
    "shape": lambda net, h, batch: h / (h.shape[0] + h.size()[0] + h.sum(1).shape[-1]),
    "values": lambda net, h, batch: h * h.max(1, keepdim=True).values,
    "keywords": lambda net, h, batch: torch.cat(tensors=[h, h], dim=-1)[:, :3],
    "heads": lambda net, h, batch: functional.softmax(input=h.view(-1, 3, 1), dim=1).flatten(1),
    "writes": writes,
    "buffer": writes_to_buffer,
    "constant": lambda net, h, batch: h * torch.tensor([1.0, 2.0, 3.0], dtype=torch.double),
}


@pytest.mark.parametrize("name", EXACT)
def test_between_layers_exactly(name: str) -> None:
    assert_same(with_between(EXACT[name], norms=nn.BatchNorm1d(3)), BATCH, "x", "edge_index", "batch")


def without_gradients(net: Any, h: Tensor, batch: Tensor) -> Tensor:
    with torch.no_grad():
        return h * 2


def stores(net: Any, h: Tensor, batch: Tensor) -> Tensor:
    net.kept = h
    return h


def chance(net: Any, h: Tensor, batch: Tensor) -> Tensor:
    return h if torch.rand(1) < 0.5 else -h


REFUSED: dict[str, tuple[Between, str]] = {
    "no_grad": (without_gradients, "switches gradients"),
    "stores": (stores, "changes its kept"),
    "chance": (chance, "draws random numbers"),
    "softmin": (lambda net, h, batch: functional.softmin(h, 0), "softmin"),
    "module": (lambda net, h, batch: net.act(h), "Softmax act"),
    "new shape": (lambda net, h, batch: h + h.new_zeros(h.shape), "new_zeros"),
    "from behind": (lambda net, h, batch: h - h.mean(-2, keepdim=True), "mean"),
    "first node": (lambda net, h, batch: h - h[0], "getitem"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_between_layers_refused(name: str) -> None:
    between, reason = REFUSED[name]
    net = with_between(between, act=nn.Softmax(dim=-2))
    state, attributes, drawn = copy.deepcopy(net.state_dict()), set(vars(net)), torch.get_rng_state()
    with pytest.raises(ValueError, match=reason):
        to_colours(net)
    assert set(vars(net)) == attributes
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.testing.assert_close(net.state_dict(), state)


def test_ranks_are_checked_as_they_are() -> None:
    with pytest.raises(ValueError, match=r"view \(in .*test_refused.py.*of \d+ rows"):
        to_colours(with_between(lambda net, h, batch: h.view(-1, 1).tanh().view(-1, 3)))(BATCH)
    # Features of positions: all nodes of a ring have one colour, which would take them all.
    ring = Data(
        x=torch.ones(4, 3).double(),
        edge_index=torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]]),
        batch=torch.zeros(4, dtype=torch.long),
    )
    net = with_between(lambda net, h, batch: h + net.place.weight, place=nn.Embedding(4, 3))
    with pytest.raises(ValueError, match=r"shape|rows"):
        to_colours(net)(ring)


class Halves(pyg.SAGEConv):
    """A layer that is not what its class is."""

    def message(self, x_j: Tensor) -> Tensor:
        return x_j - x_j.mean(dim=0)


class Centred(nn.Module):
    """Statistics of the batch, in training alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=0) if self.training else x


class Zero(pyg.MessagePassing):
    """Divides by the degrees of both ends; its weight is 0 at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.weight = pyg.GCNConv(3, 3), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.weight * self.conv(x, edge_index)


LAYERS = {
    "message": lambda: Halves(3, 3),
    "norm": lambda: pyg.GINConv(pyg.MLP([3, 3, 3], norm="graph_norm")),
    "training": lambda: pyg.GINConv(nn.Sequential(nn.Linear(3, 3), Centred())),
    "zero": Zero,
    "sizes": lambda: pyg.FeaStConv(3, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_look_like_known_ones_are_compared(name: str) -> None:
    net = pyg.Sequential("x, edge_index", [(LAYERS[name](), "x, edge_index -> x")]).double()
    fast = to_colours(net)
    if name == "training":
        fast.eval()(BATCH.x, BATCH.edge_index)
        fast.train()
    with pytest.raises(ValueError, match="cannot go by colours"):
        fast(BATCH.x, BATCH.edge_index)


def test_edges_that_change_in_the_network_are_refused() -> None:
    net = pyg.Sequential(
        "x, edge_index",
        [(lambda edges: edges.flip(0), "edge_index -> e"), (pyg.GraphConv(3, 3), "x, e -> x")],
    )
    with pytest.raises(ValueError, match="edge_index is not that of the batch"):
        to_colours(net)


def test_weights_of_attention_are_of_nodes() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GATConv(3, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            h, _ = self.conv(x, edge_index, return_attention_weights=True)
            return h

    with pytest.raises(ValueError, match=r"GATConv conv .*weights of attention"):
        to_colours(Attention())


class Scaled(nn.Module):
    """Numbers and other things that are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = pyg.GraphConv(3, 8), 2.0

    def forward(
        self, x: Tensor, edge_index: Tensor, factor: float = 1.0, add: Any = None, names: Any = None
    ) -> Tensor:
        h = self.conv(x, edge_index) * factor * self.scale
        h = h if add is None else h + add
        return h if names is None else h + len(names)


def test_follows_the_network_as_it_is() -> None:
    net = Scaled().double()
    fast = to_colours(net)

    def compare(**given: Any) -> None:
        found = fast(BATCH.x, BATCH.edge_index, **given)
        torch.testing.assert_close(found, net(BATCH.x, BATCH.edge_index, **given))

    compare()
    compare(factor=2.0)
    compare(factor=3)
    compare(add=torch.tensor(4.0))
    net.scale = 5.0
    compare()
    net.conv = pyg.SAGEConv(3, 8, normalize=True).double()
    compare()
    assert not fast.went_by_nodes
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    torch.testing.assert_close(other(BATCH.x, BATCH.edge_index), net(BATCH.x, BATCH.edge_index))
    assert other.net.conv is other.conv
    compare(names=["a"])
    assert fast.went_by_nodes == "names is a list"


def test_hooks_see_nodes() -> None:
    net = Scaled().double()
    fast, seen = to_colours(net), []
    net.conv.register_forward_hook(lambda module, given, out: seen.append(len(out)))
    fast(BATCH.x, BATCH.edge_index)
    assert seen == [len(BATCH.x)]
    assert fast.went_by_nodes == "an explainer or hook looks at GraphConv"


@pytest.mark.parametrize("conv", [pyg.GINConv(nn.Linear(3, 8)), pyg.GraphConv(3, 8), pyg.GATv2Conv(3, 8)])
def test_masks_of_explainers_count(conv: nn.Module) -> None:
    net = pyg.Sequential("x, edge_index", [(conv, "x, edge_index -> x"), nn.Linear(8, 2)]).double()
    fast, given = to_colours(net), (BATCH.x, BATCH.edge_index)
    with torch.no_grad():
        unmasked = fast(*given)
        assert not fast.went_by_nodes
        set_masks(fast, torch.linspace(0, 1, BATCH.num_edges).double(), BATCH.edge_index, apply_sigmoid=False)
        masked = fast(*given)
        torch.testing.assert_close(masked, net(*given))
        assert not torch.allclose(masked, unmasked)
        assert fast.went_by_nodes == f"an explainer or hook looks at {type(conv).__name__}"
        clear_masks(fast)
        torch.testing.assert_close(fast(*given), unmasked)


def test_attributes_of_data_as_they_are() -> None:
    class Flagged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GraphConv(3, 8)

        def forward(self, data: Data) -> Tensor:
            h = self.conv(data.x, data.edge_index)
            h = h + 1 if "pos" in data or data.pos is not None else h
            return (
                pyg.global_add_pool(h * 2 if data.flag else h, data.batch, data.num_graphs) / data.num_nodes
            )

    net = Flagged().double()
    fast = to_colours(net)
    batch = Batch.from_data_list([Colours(1)(graph.clone()) for graph in GRAPHS])
    for flag in (True, False):
        batch.flag = flag
        torch.testing.assert_close(fast(batch), net(batch))
    assert not fast.went_by_nodes


def test_batch_norm_in_low_precision() -> None:
    count = torch.tensor([1, 300, 2, 5])
    x = torch.randn(4, 8)
    for given in (x.bfloat16(), x):
        ours, theirs = ((torch.zeros(8), torch.ones(8)) for _ in range(2))
        weight = torch.rand(8)
        with torch.autocast("cpu", torch.bfloat16, enabled=given is x):
            found = weighted_batch_norm(given, count, *ours, weight, training=True)
            rows = given.repeat_interleave(count, 0)
            expected = functional.batch_norm(rows, *theirs, weight, training=True)
        assert found.dtype == given.dtype
        torch.testing.assert_close(found.repeat_interleave(count, 0), expected, rtol=1e-2, atol=1e-4)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_ties_of_a_maximum_are_shared_between_nodes() -> None:
    x = torch.tensor([[1.0], [1.0], [1.0], [0.0]])
    none, owner = torch.zeros(2, 0, dtype=torch.long), torch.zeros(4, dtype=torch.long)
    code = torch.tensor([0, 0, 1, 2])
    colours = colour_batch(1, none, owner, [code])
    rows = torch.tensor([[1.0], [1.0], [0.0]], requires_grad=True)
    colours.pool(colours.lift(rows, 0, 1), 1, "max").sum().backward()
    x.requires_grad_()
    pyg.global_max_pool(x, owner).sum().backward()
    assert rows.grad.flatten().tolist() == pytest.approx([float(x.grad[:2].sum()), float(x.grad[2]), 0])


@pytest.mark.parametrize("change", [None, "x", "edge_attr", "edge_index"])
def test_colours_of_the_transform_are_right_on_every_level(change: str | None) -> None:
    """One-hot features of nodes and of edges that are hashed alike, and batches that have changed since."""
    conv = nn.ModuleList([pyg.GINEConv(nn.Linear(3, 3), edge_dim=2) for _ in range(2)]).double()
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        graphs = []
        for _ in range(3):
            size = int(torch.randint(2, 6, (), generator=generator))
            edges = torch.unique(torch.randint(0, size, (2, 2 * size), generator=generator), dim=1)
            code = torch.randint(0, 3, (size,), generator=generator)
            kind = torch.randint(0, 2, (edges.size(1),), generator=generator)
            x, edge_attr = functional.one_hot(code, 3).double(), functional.one_hot(kind, 2).double()
            graphs.append(Colours(2)(Data(x=x, edge_index=edges, edge_attr=edge_attr)))
        batch = Batch.from_data_list(graphs * 3)
        if change == "edge_index":
            batch.edge_index = batch.edge_index.flip(0)
        elif change:
            order = torch.randperm(len(batch[change]), generator=generator)
            batch[change] = batch[change][order]
        inputs = batch.edge_index, batch.batch, [batch.x], [batch.edge_attr]
        colours, h, expected = colour_batch(2, *inputs, batch.colours), None, batch.x
        for layer, step in zip(conv, colours.steps, strict=True):
            h = colours.node(batch.x) if h is None else h
            edge_attr = colours.edge(batch.edge_attr)[step.kind]
            h = layer((h, step.lift(h)), step.edge_index, edge_attr)
            expected = layer(expected, batch.edge_index, batch.edge_attr)
        torch.testing.assert_close(colours.nodes(h, 2), expected, rtol=1e-10, atol=1e-10)


def test_batch_norm_where_levels_have_as_many_colours() -> None:
    colours = colour_batch(4, BATCH.edge_index, BATCH.batch, [BATCH.x])
    assert colours.count("node", 3) == colours.count("node", 4) > 1
    assert_same(pyg.models.GIN(3, 8, 4, 2, norm="batch_norm"), BATCH, "x", "edge_index")


def test_a_first_batch_that_tells_nothing() -> None:
    """By hand the degrees of sources, which all pairs have alike."""

    class OfSources(pyg.MessagePassing):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            degree = edge_index[0].bincount(minlength=len(x)).clamp(min=1)
            return self.propagate(edge_index, x=x / degree.unsqueeze(1))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = OfSources()

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return pyg.global_add_pool(self.conv(x, edge_index), batch)

    fast, pair = to_colours(Net()), torch.tensor([[0, 1], [1, 0]])
    alike = Batch.from_data_list([Data(x=torch.ones(2, 3, dtype=torch.double), edge_index=pair)] * 4)
    torch.testing.assert_close(fast(alike.x, alike.edge_index, alike.batch), 2 * torch.ones(4, 3).double())
    with pytest.raises(ValueError, match="OfSources cannot go by colours"):
        fast(BATCH.x, BATCH.edge_index, BATCH.batch)


def test_loops_are_compared_when_they_come() -> None:
    fast = to_colours(pyg.Sequential("x, edge_index", [(pyg.AGNNConv(), "x, edge_index -> x")]))
    fast(BATCH.x, BATCH.edge_index)
    looped = torch.cat([BATCH.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    fast(torch.ones_like(BATCH.x), looped)  # all rows alike tell nothing
    with pytest.raises(ValueError, match="AGNNConv cannot go by colours"):
        fast(BATCH.x, looped)


def test_layers_that_keep_tensors_are_refused_where_they_do() -> None:
    net = pyg.Sequential("x, edge_index", [(pyg.SuperGATConv(3, 3), "x, edge_index -> x")]).double()
    fast, given = to_colours(net), (BATCH.x, BATCH.edge_index)
    for _ in range(2):
        with pytest.raises(
            ValueError, match="SuperGATConv cannot go by colours: it keeps tensors on the mod"
        ):
            fast.train()(*given)
        net(*given)  # leaves its attention, which has gradients
        torch.testing.assert_close(fast.eval()(*given), net(*given))


def test_graphs_without_features() -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    with pytest.raises(ValueError, match=r"the graph has no x, which nodes=\('x',\) names"):
        Colours(2)(data)
    assert Colours(2, nodes=())(data).colours.shape == (2, 3)
