"""Every layer that is to go by colours does, exactly; others are refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import add_self_loops, coalesce, degree, softmax

from tests.wlkernelnn.colours.batches import EDGES, Network, assert_same, batches
from tests.wlkernelnn.colours.test_network import BATCH, GRAPHS, path
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.colours import to_colours

DEGREES = torch.tensor([1, 5, 3, 2])


def perceptron(channels: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(channels, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 8)
    )


def of_edges(channels: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(EDGES, channels), torch.nn.BatchNorm1d(channels))


class Difference(pyg.MessagePassing):
    """A user's own layer, with batch norm on its messages."""

    def __init__(self, channels: int) -> None:
        super().__init__(aggr="mean")
        self.lin = torch.nn.Sequential(torch.nn.Linear(2 * channels, 8), torch.nn.BatchNorm1d(8))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j - x_i], dim=-1))


LAYERS: dict[str, Callable[[int], torch.nn.Module]] = {
    "GCN": lambda d: pyg.GCNConv(d, 8),
    "GCN without loops": lambda d: pyg.GCNConv(d, 8, add_self_loops=False),
    "GCN not normalized": lambda d: pyg.GCNConv(d, 8, normalize=False),
    "SAGE": lambda d: pyg.SAGEConv(d, 8, project=True),
    "SAGE, max": lambda d: pyg.SAGEConv(d, 8, aggr="max"),
    "SAGE, several": lambda d: pyg.SAGEConv(d, 8, aggr=["mean", "std", "min"]),
    "GraphConv": lambda d: pyg.GraphConv(d, 8),
    "GIN": lambda d: pyg.GINConv(perceptron(d), train_eps=True),
    "GINE": lambda d: pyg.GINEConv(perceptron(d), edge_dim=EDGES),
    "GAT": lambda d: pyg.GATConv(d, 4, heads=2, edge_dim=EDGES, residual=True),
    "GAT, filled with 1": lambda d: pyg.GATConv(d, 8, edge_dim=EDGES, fill_value=1.0),
    "GATv2": lambda d: pyg.GATv2Conv(d, 4, heads=2, edge_dim=EDGES),
    "GATv2 without loops": lambda d: pyg.GATv2Conv(d, 8, edge_dim=EDGES, add_self_loops=False),
    "Transformer": lambda d: pyg.TransformerConv(d, 4, heads=2, edge_dim=EDGES, beta=True),
    "PNA": lambda d: pyg.PNAConv(d, 8, ["mean", "max", "std"], ["identity", "attenuation"], DEGREES, EDGES),
    "NNConv": lambda d: pyg.NNConv(d, 8, of_edges(8 * d)),
    "ResGatedGraph": lambda d: pyg.ResGatedGraphConv(d, 8, edge_dim=EDGES),
    "WLKernelConv": lambda d: WLKernelConv(d, 8, num_iterations=3, edge_dim=EDGES),
    "RandomWalkKernelConv": lambda d: RandomWalkKernelConv(d, 8, 3, "gated", edge_dim=EDGES),
    "DeepKernelConv": lambda d: DeepKernelConv(d, 8, edge_dim=EDGES),
    "a user's own": Difference,
}  # fmt: skip
POOLS = [pyg.global_add_pool, pyg.global_mean_pool, pyg.global_max_pool]


class PoolsNumbers(torch.nn.Module):
    """Attention of PyG's softmax, which goes by nodes, on a number of each node."""

    def __init__(self, pool: Callable[..., Tensor], squeeze: bool) -> None:
        super().__init__()
        self.conv, self.lin = pyg.GraphConv(3, 8), torch.nn.Linear(8, 2)
        self.pool, self.squeeze = pool, squeeze

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        gate, value = self.lin(self.conv(x, edge_index)).split(1, dim=1)
        share = softmax(gate.squeeze(), batch) if self.squeeze else softmax(gate, batch)
        return self.pool(share * (value.squeeze() if self.squeeze else value), batch)


@pytest.mark.parametrize("squeeze", [False, True])
@pytest.mark.parametrize("pool", POOLS)
def test_numbers_of_nodes_are_pooled_by_nodes(pool: Callable[..., Tensor], squeeze: bool) -> None:
    net, batch = PoolsNumbers(pool, squeeze).double(), BATCH
    expected = net(batch.x, batch.edge_index, batch.batch)
    assert expected.shape == ((6,) if squeeze else (6, 1))
    torch.testing.assert_close(to_colours(net)(batch.x, batch.edge_index, batch.batch), expected)


class WithEdges(torch.nn.Module):
    """A layer with features of edges that does not say edge_dim as others do."""

    edge_dim = EDGES

    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.conv(x, edge_index, edge_attr)


@pytest.mark.halved
@pytest.mark.parametrize("name", LAYERS)
@given(batch=batches())
@settings(max_examples=4, deadline=None)
def test_layer_equals_nodes(name: str, batch: Batch) -> None:
    torch.manual_seed(0)
    make = LAYERS[name]
    layer = (lambda d: WithEdges(make(d))) if name in ("NNConv", "GINE") else make
    number = len(name) % len(POOLS)
    assert_same(Network(layer, lambda: torch.nn.BatchNorm1d(8), POOLS[number]), batch)


@given(batch=batches())
@settings(max_examples=4, deadline=None)
def test_crystal_layer(batch: Batch) -> None:
    torch.manual_seed(0)
    conv = pyg.CGConv(3, EDGES, batch_norm=True)
    net = pyg.Sequential(
        "x, edge_index, edge_attr, batch",
        [
            (conv, "x, edge_index, edge_attr -> x"),
            (pyg.global_add_pool, "x, batch -> x"),
        ],
    )
    assert_same(net, batch)


@given(batch=batches())
@settings(max_examples=4, deadline=None)
def test_weights_of_edges(batch: Batch) -> None:
    torch.manual_seed(0)

    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gcn = pyg.GCNConv(3, 8, improved=True)
            self.conv = pyg.GraphConv(8, 8)

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            return self.conv(self.gcn(x, edge_index, edge_weight), edge_index, edge_weight)

    batch.edge_weight = batch.edge_attr[:, 0] + 0.5
    assert_same(Weighted(), batch, "x", "edge_index", "edge_weight")


@pytest.mark.parametrize(
    ("name", "jk"),
    [("GIN", None), ("GIN", "lstm"), ("GraphSAGE", "cat"), ("GAT", "max"), ("PNA", "last"), ("GCN", "cat")],
)
@given(batch=batches())
@settings(max_examples=3, deadline=None)
def test_models_of_pyg(name: str, jk: str | None, batch: Batch) -> None:
    torch.manual_seed(0)
    more = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES} if name == "PNA" else {}
    net = getattr(pyg.models, name)(3, 8, 3, 2, jk=jk, norm="batch_norm", **more)
    assert_same(net, batch, "x", "edge_index")


def test_names_what_cannot_go_by_colours() -> None:
    for layer, reason in (
        (pyg.GATConv(3, 8, dropout=0.5), "dropout of attention"),
        (pyg.GCNConv(3, 8, cached=True), "cached"),
        (pyg.SAGEConv(3, 8, aggr="lstm"), "LSTMAggregation"),
        (pyg.GraphConv(3, 8, flow="target_to_source"), "target_to_source"),
    ):
        net = pyg.Sequential("x, edge_index", [(layer, "x, edge_index -> x")])
        with pytest.raises(ValueError, match=reason):
            to_colours(net)


class Normalized(pyg.MessagePassing):
    """Divides by the degrees of both ends, as in PyG's tutorial."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        source, target = edge_index
        scale = degree(target, x.size(0), dtype=x.dtype).pow(-0.5)
        return self.propagate(edge_index, x=self.lin(x), norm=scale[source] * scale[target])

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


@pytest.mark.parametrize("layer", [Normalized(), pyg.SGConv(3, 3, K=2)], ids=["degrees", "two steps"])
def test_unknown_layers_are_compared_with_nodes(layer: torch.nn.Module) -> None:
    edges = torch.tensor([[0, 1, 1, 2, 1, 3], [1, 0, 2, 1, 3, 1]])
    star = Data(x=torch.ones(4, 3), edge_index=edges)
    path = Data(x=torch.ones(3, 3), edge_index=edges[:, :4])
    batch = Batch.from_data_list([star, path] * 3)
    net = to_colours(pyg.Sequential("x, edge_index", [(layer, "x, edge_index -> x")]))
    with pytest.raises(ValueError, match="cannot go by colours: its result at a node depends on more"):
        net(batch.x, batch.edge_index)


class Pooled(torch.nn.Module):
    def __init__(self, conv: torch.nn.Module, flatten: bool = False) -> None:
        super().__init__()
        self.conv, self.flatten = conv, flatten

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        return pyg.global_add_pool(h.flatten(1) if self.flatten else h, batch)


@pytest.mark.parametrize("method", ["message", "update"])
def test_methods_that_are_set_on_one_layer(method: str) -> None:
    conv = pyg.GINConv(torch.nn.Linear(3, 3))
    setattr(conv, method, {"message": lambda x_j: 3 * x_j, "update": lambda inputs: 3 * inputs}[method])
    assert_same(Pooled(conv), BATCH, "x", "edge_index", "batch")


def test_layers_that_merge_edges_are_refused_when_it_shows() -> None:
    """Nodes with two neighbours that are alike have two edges of one colour."""

    class Merges(pyg.MessagePassing):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.propagate(coalesce(edge_index), x=x)

    net = Pooled(Merges())
    fast, alike = to_colours(net), Batch.from_data_list([GRAPHS[0]] * 2)
    for batch in (alike, alike):
        given = batch.x, batch.edge_index, batch.batch
        torch.testing.assert_close(fast(*given), net(*given))
    twice = Batch.from_data_list([path(1, 0, 1, 2)] * 2)
    with pytest.raises(ValueError, match="Merges cannot go by colours"):
        fast(twice.x, twice.edge_index, twice.batch)


def test_states_of_more_dimensions() -> None:
    x = BATCH.x.unsqueeze(1) * torch.ones(1, 4, 1)
    net = Pooled(pyg.GINConv(torch.nn.Linear(3, 3), node_dim=0), flatten=True).double()
    fast = to_colours(net)
    given = x, BATCH.edge_index, BATCH.batch
    torch.testing.assert_close(fast(*given), net(*given))
    assert not fast.went_by_nodes
    with pytest.raises(ValueError, match=r"SAGEConv with node_dim=-2 has no row per node in states of shape"):
        to_colours(Pooled(pyg.SAGEConv(3, 3)).double())(*given)


@pytest.mark.parametrize("state", ["scale", "codes", "matrices"])
def test_layers_of_ones_own_take_states_of_any_shape(state: str) -> None:
    class Own(pyg.MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr="add")
            self.table = torch.nn.Embedding(3, 3)

        def forward(self, x: Tensor, edge_index: Tensor, scale: Tensor | None = None) -> Tensor:
            x = x * scale.unsqueeze(1) if scale is not None else x
            x = x.flatten(1) @ self.table.weight if x.is_floating_point() else self.table(x)
            return self.propagate(edge_index, x=x)

    class Net(Pooled):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            scale = 1 + x.sum(1)
            if state == "codes":
                h = self.conv(x.argmax(1), edge_index)
            else:
                h = (
                    self.conv(x.unsqueeze(1), edge_index)
                    if state == "matrices"
                    else self.conv(x, edge_index, scale)
                )
            return pyg.global_add_pool(h, batch)

    assert_same(Net(Own()), BATCH, "x", "edge_index", "batch")


def test_states_that_are_numbers_are_compared() -> None:
    """A perceptron that looks at channels looks at nodes, where there are no channels."""
    net = Pooled(pyg.GINConv(torch.nn.Softmax(-1), node_dim=0))
    fast = to_colours(net)
    with pytest.raises(ValueError, match="GINConv cannot go by colours"):
        fast(BATCH.x.sum(1) + BATCH.x[:, 0], BATCH.edge_index, BATCH.batch)


def test_integers_are_summed() -> None:
    net = Pooled(pyg.GINConv(torch.nn.Identity()))
    given = (BATCH.x.long(), BATCH.edge_index, BATCH.batch)
    assert to_colours(net)(*given).equal(net(*given))


def test_comparisons_end_where_no_batch_tells() -> None:
    """Chains of different atoms have no node with two neighbours that are alike."""

    class Counting(pyg.MessagePassing):
        calls = 0

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            Counting.calls += 1
            return self.propagate(edge_index, x=x)

    batch = Batch.from_data_list([path(0, 1, 2)] * 2)
    fast = to_colours(Pooled(Counting()))
    for _ in range(16):
        fast(batch.x, batch.edge_index, batch.batch)
    # Each comparison runs the layer twice more: after 1, 2, 4, 8 and 16 batches.
    assert Counting.calls == 16 + 2 * 5


class AsksForSingle(pyg.MessagePassing):
    """A layer that reads codes of edges as numbers in single precision, as many do."""

    edge_dim = EDGES

    def __init__(self, channels: int, ask: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.ask, self.nodes, self.edges = ask, torch.nn.Linear(channels, 8), torch.nn.Linear(EDGES, 8)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.nodes(x), edge=self.edges(self.ask(edge_attr)))

    def message(self, x_j: Tensor, edge: Tensor) -> Tensor:
        return (x_j + edge).relu()


@pytest.mark.parametrize(
    "ask", [Tensor.float, lambda e: e.to(torch.float32), lambda e: e.to(dtype=torch.float)]
)
def test_layers_that_ask_for_single_precision(ask: Callable[[Tensor], Tensor]) -> None:
    """They are compared with nodes all the same, which is done in double precision."""
    batch = BATCH.clone()
    codes = torch.ones(batch.num_edges, EDGES, dtype=torch.long)
    given = (batch.x.float(), batch.edge_index, codes, batch.batch)
    net = Network(lambda channels: AsksForSingle(channels, ask))
    torch.testing.assert_close(to_colours(net)(*given), net(*given))


def test_layers_that_ask_for_half_precision_are_refused() -> None:
    net = Network(lambda channels: AsksForSingle(channels, Tensor.half))
    given = (BATCH.x.float(), BATCH.edge_index, torch.ones(BATCH.num_edges, EDGES), BATCH.batch)
    with pytest.raises(ValueError, match="AsksForSingle cannot go by colours: by nodes, in double precision"):
        to_colours(net)(*given)
