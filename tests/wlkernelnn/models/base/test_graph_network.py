"""What all networks for graphs share, where no other file has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from tests.checks.pairwise import pairwise
from tests.inputs.molecules import classification_set, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs, PackedLoader, molecules_from
from wlkernelnn.datasets.graphs.description import Description
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.models.export import export_network
from wlkernelnn.training import FitOptions, embed, fit, load_checkpoint, predict, save_checkpoint
from wlkernelnn.training.molecules.module import masked_loss


def left_out_one_by_one(net: GraphNetwork, data: PackedGraphs) -> torch.Tensor:
    """The definition of contributions, a node at a time."""
    (batch,) = PackedLoader(data, len(data))
    states, values = net.states(batch.x, batch), []
    for graph, (begin, end) in enumerate(zip(batch.ptr[:-1], batch.ptr[1:], strict=True)):
        h = states[begin:end]
        of_graph = [] if net.fingerprint is None else [net.fingerprint(batch.graph_x[graph : graph + 1])[0]]

        def predicted(rows: torch.Tensor, of_graph: list[torch.Tensor] = of_graph) -> torch.Tensor:
            pooled = rows.sum(0) / (max(len(rows), 1) if net.pooling == "mean" else 1)
            out = net.head(torch.cat([net.norm(pooled), *of_graph]).unsqueeze(0))[0]
            return out * net.target_std + net.target_mean if net.task == "regression" else out

        for node in range(len(h)):
            values.append(predicted(h) - predicted(torch.cat([h[:node], h[node + 1 :]])))
    return torch.stack(values)


@pairwise(
    network=[GraphKernelNetwork, KernelStackNetwork],
    options=[{}, {"pooling": "mean"}, {"norm": False}],
    task=["regression", "classification", "fingerprint"],
)
def test_contributions(network: type[GraphNetwork], options: dict[str, Any], task: str) -> None:
    data = (classification_set if task == "classification" else regression_set)(10)
    if task == "fingerprint":
        y = data.y.numpy()
        data = molecules_from(["C", *data.smiles[1:]], y, features="ogb+morgan", cache=False)
    torch.manual_seed(0)
    net = network.from_data(data, hidden_channels=16, **options).double().eval()
    (batch,) = PackedLoader(data, len(data))
    came = net.contributions(batch)
    torch.testing.assert_close(came, left_out_one_by_one(net, data), rtol=1e-9, atol=1e-9)
    assert came.abs().max() > 1e-3


def test_atoms_that_look_alike_contribute_alike() -> None:
    net = GraphKernelNetwork((119, 5, 12, 12, 10, 6, 6, 2, 2), 60, hidden_channels=8).eval()
    (batch,) = PackedLoader(molecules_from(["Cc1ccccc1"], cache=False), 1)
    _, _, ortho, meta, para, meta_2, ortho_2 = net.contributions(batch).detach().numpy()
    np.testing.assert_allclose(ortho, ortho_2, rtol=1e-4)
    np.testing.assert_allclose(meta, meta_2, rtol=1e-4)
    assert abs(ortho - para) > 1e-5


@pytest.mark.parametrize("network", [GraphKernelNetwork, KernelStackNetwork])
def test_arguments_are_checked_without_data(network: type[GraphNetwork]) -> None:
    state = torch.get_rng_state()
    network.check_arguments(hidden_channels=10**6, decay="learned", pooling="mean", quotient=True)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"decay must be a float in \[0, 1\], .* got 2"):
        network.check_arguments(decay=2)
    with pytest.raises(ValueError, match=r"^hidden_channels must be an integer of at least 1, got 0"):
        network.check_arguments(hidden_channels=0)
    with pytest.raises(TypeError, match="'colour'"):
        network.check_arguments(colour="red")


@pytest.mark.parametrize(("network", "quotient"), [(GraphKernelNetwork, None), (KernelStackNetwork, 6)])
def test_an_ensemble_at_once(network: type[GraphNetwork], quotient: int | None) -> None:
    """As torch.func has it: the weights of several networks in one call, and gradients of them."""
    data = regression_set(10)
    nets = [network.from_data(data, hidden_channels=8).double().eval() for _ in range(3)]
    (batch,) = PackedLoader(data, len(data), quotient=quotient)
    together = torch.func.vmap(lambda *states: torch.func.functional_call(nets[0], states, (batch,)))
    out = together(*torch.func.stack_module_state(nets))
    torch.testing.assert_close(out, torch.stack([net(batch) for net in nets]))

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(nets[0], weights, (batch,)).square().sum()

    weights = dict(nets[0].named_parameters())
    expected = torch.autograd.grad(loss(weights), list(weights.values()), materialize_grads=True)
    torch.testing.assert_close(list(torch.func.grad(loss)(weights).values()), list(expected))
    _, slope = torch.func.jvp(loss, (weights,), (weights,))
    products = [(grad * weight).sum() for grad, weight in zip(expected, weights.values(), strict=True)]
    torch.testing.assert_close(slope, torch.stack(products).sum())


def test_targets_that_float32_cannot_tell_apart(tmp_path: Path) -> None:
    """Total energies: outputs are those of the same targets around 0, moved."""
    data, away = regression_set(), -135123456.0
    y = data.measured.numpy()
    near, far = small_network(data.with_targets(y)), small_network(data.with_targets(y + away))
    (batch,) = PackedLoader(data)
    assert near(batch).dtype == torch.float32
    save_checkpoint(tmp_path, far, {})
    for net in (far, load_checkpoint(tmp_path)[0]):
        assert net(batch).dtype == torch.float64
        torch.testing.assert_close(net(batch) - away, near(batch).double(), rtol=0, atol=1e-5)
        loss = masked_loss(net, net(batch), torch.from_numpy(y + away))
        torch.testing.assert_close(loss.float(), masked_loss(near, near(batch), data.y), rtol=1e-5, atol=0)
        loss.backward()


def test_weights_of_edges_are_refused() -> None:
    net = GraphKernelNetwork(in_channels=3)
    data = Data(x=torch.randn(3, 3), edge_index=torch.tensor([[0, 1], [1, 2]]))
    data.edge_weight = torch.ones(2)
    net(data)
    data.edge_weight = torch.tensor([1.0, 0.5])
    with pytest.raises(ValueError, match="networks read no edge_weight"):
        net(data)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_features_of_other_precisions(dtype: torch.dtype) -> None:
    net = GraphKernelNetwork(in_channels=3).eval()
    x = torch.randn(6, 3).to(torch.bfloat16)
    data = Data(x=x.float(), edge_index=torch.tensor([[0, 1, 3], [1, 2, 4]]))
    expected = net(data)
    data.x = x.to(dtype)
    found = net.to(dtype)(data)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)


def test_a_batch_of_floats_without_edges() -> None:
    net = GraphKernelNetwork(in_channels=3, num_edge_types=4)
    assert net(Data(x=torch.randn(3, 3), edge_index=torch.zeros(2, 0).long())).shape == (1, 1)


def chain(orders: Sequence[float], y: float = 0.0) -> Data:
    """A path whose edges have bond orders, in both directions."""
    ends = torch.arange(len(orders))
    edges = torch.stack([torch.cat([ends, ends + 1]), torch.cat([ends + 1, ends])])
    rows = torch.tensor([*orders, *orders])
    return Data(
        x=torch.zeros(len(orders) + 1, 1, dtype=torch.long),
        edge_index=edges,
        edge_attr=rows,
        y=torch.tensor([y]),
    )


@pytest.mark.parametrize("network", [GraphKernelNetwork, KernelStackNetwork])
def test_graphs_of_pyg_have_the_codes_of_those_it_learned(
    network: type[GraphNetwork], tmp_path: Path
) -> None:
    graphs = [chain([1.0, 1.5, 2.0], 0.1), chain([2.0, 1.5], 0.3), chain([1.0, 2.0, 2.0], 0.2)]
    net = network.from_data(graphs, hidden_channels=8)
    assert net.edge_values == ((1.0,), (1.5,), (2.0,))
    fit(net, graphs, graphs[:1], FitOptions(epochs=1))
    whole = PackedGraphs.from_pyg(graphs, edge_values=net.edge_values)
    save_checkpoint(tmp_path / "model", net, {})
    loaded, _ = load_checkpoint(tmp_path / "model")
    for one in (net, loaded):
        expected = predict(one, whole)
        assert np.array_equal(predict(one, graphs), expected)
        assert np.array_equal(predict(one, [*whole]), expected)  # items of a store have its codes
        assert np.array_equal(predict(one, graphs[2:]), expected[2:])  # without an order of 1.5
        assert np.array_equal(predict(one, [chain([1, 2, 2])]), expected[2:])  # integers
    for store, what in ((graphs[2:], "are not said to stand for"), (graphs[1:2], "stand for other values")):
        with pytest.raises(ValueError, match=f"data: its codes of edges {what}.*edge_values=network"):
            predict(net, PackedGraphs.from_pyg(store))
    with pytest.raises(ValueError, match="data: graph 0: is of a store whose codes of edges stand for other"):
        predict(net, [*PackedGraphs.from_pyg(graphs[1:2])])
    single = [Data(x=graphs[0].x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long))]
    assert np.array_equal(predict(net, PackedGraphs.from_pyg(single)), predict(net, single))
    with pytest.raises(
        ValueError, match=r"data: graph 0: edge_attr\[0\] is \[3.0\], expected one of the 3 rows"
    ):
        embed(net, [chain([3.0])])
    with pytest.raises(ValueError, match=r"edge_values has 3 rows, expected num_edge_types=2"):
        network(node_dims=[1], num_edge_types=2, edge_values=net.edge_values)


@pytest.mark.parametrize("kind", ["codes", "one-hot"])
def test_a_network_of_codes_refuses_a_store_of_other_edges(kind: str) -> None:
    def of(*codes: int) -> Data:
        return chain(list(codes) if kind == "codes" else torch.eye(3)[list(codes)].tolist(), sum(codes))

    graphs = [of(0, 1, 2), of(1, 1)]
    net = GraphKernelNetwork.from_data(graphs, hidden_channels=8)
    others = [chain([0.5, 1.5])] if kind == "codes" else [chain([[0.0, 0, 0], [1, 1, 0]])]
    store = PackedGraphs.from_pyg(others)
    for given in (store, store[:1], others):
        with pytest.raises(ValueError, match=r"data: .*codes .*expected .*one-hot row"):
            predict(net, given)
    with pytest.raises(
        ValueError, match=r"train: its codes of edges stand for the rows \(\(0\..*no edge_values"
    ):
        fit(net, store, store, FitOptions(epochs=1))
    values = [[0], [1], [2]] if kind == "codes" else torch.eye(3).tolist()
    same, expected = PackedGraphs.from_pyg(graphs, edge_values=values), predict(net, graphs)
    for given in (same, [*same]):
        assert np.array_equal(predict(net, given), expected)
    bare = GraphKernelNetwork(node_dims=[1], hidden_channels=8)  # looks at no edges
    assert predict(bare, store).shape == (1, 1)


@pytest.mark.parametrize("kind", ["codes", "one-hot"])
def test_a_network_that_reads_edges_refuses_those_without_codes(kind: str) -> None:
    def of(*codes: int) -> Data:
        return chain(list(codes) if kind == "codes" else torch.eye(3)[list(codes)].tolist(), sum(codes))

    graphs = [of(0, 1, 2), of(1, 1)]
    net = GraphKernelNetwork.from_data(graphs, hidden_channels=8)
    bare = [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs]
    for given in (bare, PackedGraphs.from_pyg(bare)):
        with pytest.raises(ValueError, match=r"data: its edges have neither edge_attr nor edge_type.*=3"):
            predict(net, given)
    wide = [chain(torch.eye(4)[[1, 2]].tolist())]
    for given in (wide, PackedGraphs.from_pyg(wide)):
        with pytest.raises(
            ValueError, match="data: its edge_attr has one-hot rows of width 4, expected width 3"
        ):
            predict(net, given)
    store = PackedGraphs.from_pyg(graphs)
    undescribed = PackedGraphs(store.arrays, Description(node_dims=(1,)))
    assert np.array_equal(predict(net, undescribed), predict(net, graphs))
    alone = [Data(x=graphs[0].x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long))]
    assert predict(net, alone).shape == (1, net.num_tasks)
    one_kind = GraphKernelNetwork(node_dims=[1], num_edge_types=1, hidden_channels=8)
    assert predict(one_kind, bare).shape == (2, 1)


def test_a_network_of_ones_own_may_not_know_values_of_edges() -> None:
    class Own(GraphKernelNetwork):
        def __init__(
            self, node_dims: Sequence[int], num_edge_types: int | None, num_tasks: int, task: str
        ) -> None:
            super().__init__(node_dims, num_edge_types, num_tasks, hidden_channels=8)

    class Drops(GraphKernelNetwork):
        def __init__(self, edge_values: Any = (), **sizes: Any) -> None:
            super().__init__(**sizes, hidden_channels=8)

    store = PackedGraphs.from_pyg([chain([1.0, 1.5], 0.1), chain([2.0], 0.3)])
    for network in (Own, Drops):
        net = network.from_data(store)
        assert net.edge_values == ()
        assert predict(net, store).shape == (2, 1)


def test_networks_that_read_other_values_are_not_exported_together(tmp_path: Path) -> None:
    several = [
        GraphKernelNetwork.from_data([chain(orders, 0.1), chain([2.0], 0.3)], hidden_channels=8)
        for orders in ([1.0, 1.5], [1.5, 3.0])
    ]
    for networks in (several, []):
        with pytest.raises(
            ValueError, match="networks: expected at least one, and the same edge_values of all"
        ):
            export_network(networks, tmp_path / "net.pt2", [chain([2.0]), chain([1.5])])


def test_a_network_of_codes_refuses_graphs_without_them() -> None:
    """A store would take them for the code 0."""
    graphs = [chain([0, 1], 0.1), chain([1], 0.2)]
    for i, graph in enumerate(graphs):
        graph.x[:] = i
    net = GraphKernelNetwork.from_data(graphs, hidden_channels=8)
    for x in (None, torch.zeros(3, 0).long()):
        bare = Data(x=x, edge_index=graphs[0].edge_index, edge_attr=graphs[0].edge_attr, num_nodes=3)
        with pytest.raises(ValueError, match=r"data: graph 1 has no x, expected codes \[N, 1\], as those of"):
            predict(net, [Data(num_nodes=0), bare])
    for graph in graphs:
        graph.x[:] = 0
    alike = GraphKernelNetwork.from_data(graphs, hidden_channels=8)  # has one code
    bare = Data(edge_index=graphs[0].edge_index, edge_attr=graphs[0].edge_attr, num_nodes=3)
    assert np.array_equal(predict(alike, [bare]), predict(alike, graphs[:1]))


def test_codes_of_edges_that_a_network_leaves_out_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    graphs = [chain([0, 1], 0.1), chain([1], 0.2)]
    bare = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in graphs]
    net = GraphKernelNetwork.from_data(bare, hidden_channels=8)
    expected = predict(net, bare)
    assert not caplog.messages
    assert np.array_equal(predict(net, graphs), expected)
    assert caplog.messages == ["data: the network has no codes of edges: those of the graphs are left out"]
