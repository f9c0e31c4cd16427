"""Lists and data sets of PyG as packed graphs: every value is kept or refused by name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import Description, PackedGraphs, PackedLoader
from wlkernelnn.kernels import RandomWalkKernel, WLSubtreeKernel, WLVectorizer
from wlkernelnn.models import GraphKernelNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions, fit, predict

EDGES = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]])  # by target, as a store sorts them
CODES, BONDS = torch.tensor([[0], [2], [1]]), torch.tensor([1, 1, 3, 3])


class InMemory(InMemoryDataset):
    """A data set as PyG keeps its own, without files."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def path(**attributes: Any) -> Data:
    """0 ⇄ 1 ⇄ 2 with codes as ZINC has them; ``None`` takes an attribute away."""
    given = {"x": CODES, "edge_attr": BONDS, "y": torch.tensor([0.5])} | attributes
    return Data(edge_index=EDGES, **{name: value for name, value in given.items() if value is not None})


def like_tu(count: int = 12) -> list[Data]:
    """One-hot floats of nodes and edges, and classes as integers."""
    rng = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(count):
        codes, bonds = torch.randint(0, 4, (3,), generator=rng), torch.randint(0, 2, (2,), generator=rng)
        edge_attr = one_hot(bonds.repeat_interleave(2), 3).float()
        graphs.append(path(x=one_hot(codes, 4).float(), edge_attr=edge_attr, y=torch.tensor([i % 2])))
    return graphs


def test_zinc_keeps_its_integers() -> None:
    graphs = [path(), path(x=CODES + 3, edge_attr=BONDS * 0, y=torch.tensor([-1.5]))]
    data = PackedGraphs.from_pyg(InMemory(graphs))
    assert (data.description.node_dims, data.description.num_edge_types) == ((6,), 4)
    assert data.task == "regression"
    assert data.y.tolist() == [[0.5], [-1.5]]
    for packed, graph in zip(data, graphs, strict=True):
        torch.testing.assert_close(packed.x, graph.x)
        torch.testing.assert_close(packed.edge_type, graph.edge_attr)
        assert packed.edge_index.tolist() == EDGES.tolist()


def test_tu_keeps_its_floats_and_classes(tmp_path: Path) -> None:
    graphs = like_tu()
    data = PackedGraphs.from_pyg(InMemory(graphs)[2:])
    assert (data.task, data.description.num_node_features) == ("classification", 4)
    assert len(data.arrays.node_table) == 4  # equal rows are stored once
    data.save(tmp_path / "graphs.safetensors")
    data = PackedGraphs.load(tmp_path / "graphs.safetensors")
    values = torch.tensor(data.description.edge_values)
    for packed, graph in zip(data, graphs[2:], strict=True):
        assert packed.x.dtype == torch.float32
        assert torch.equal(packed.x, graph.x)
        assert torch.equal(values[packed.edge_type], graph.edge_attr)
        assert packed.y.tolist() == [graph.y.tolist()]
    batch = next(iter(PackedLoader(data, 10, quotient=2)))
    assert torch.equal(batch.x, torch.cat([graph.x for graph in graphs[2:]]))


def test_qm9_keeps_its_targets(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.tensor([[1.0, 6.0], [0.0, 1.0], [0.25, -8.0]])
    several = {"x": x, "edge_attr": one_hot(BONDS, 4).float(), "pos": torch.rand(3, 3), "smiles": "CCO"}
    graphs = [path(**several, y=torch.tensor([[1.25, float("nan")]])), path(**several, y=None)]
    with caplog.at_level(logging.WARNING, "wlkernelnn"):
        data = PackedGraphs.from_pyg(graphs)
    assert "has no place for pos" in caplog.text
    assert data.y.isnan().tolist() == [[False, True], [True, True]]
    assert data.smiles == ["CCO", "CCO"]
    del graphs[1].smiles
    with pytest.raises(ValueError, match="graph 1: has no smiles, and graph 0 has"):
        PackedGraphs.from_pyg(graphs)
    assert PackedGraphs.from_pyg([path(y=2**24 + 1)], task="regression").measured.tolist() == [[2**24 + 1]]
    assert torch.equal(data[1].x, x)


def test_a_store_as_a_list_is_the_same_store() -> None:
    store = random_packed(10)
    again = PackedGraphs.from_pyg(list(store))
    for name in ("node_type", "node_table", "source", "in_degree", "edge_type", "smiles"):
        one, other = getattr(store.arrays, name), getattr(again.arrays, name)
        torch.testing.assert_close(one, other, msg=name)
    torch.testing.assert_close(store.y, again.y, equal_nan=True, rtol=0, atol=0)


def test_items_of_a_store_keep_its_number_of_codes() -> None:
    about = Description(node_dims=(4, 3), num_node_values=1, num_edge_types=5)
    x, edges = np.array([[3, 0, 200], [0, 2, 9], [1, 1, 0]]), np.array([[0], [1]])
    store = PackedGraphs.pack(x, edges, [0, 2, 3], [0, 1, 1], edge_type=np.array([4]), description=about)
    for items in ([store[0]], [store[1]], [store[1].clone(), Data(num_nodes=0)], [*store]):
        again = PackedGraphs.from_pyg(items).description
        assert (again.node_dims, again.num_node_values, again.num_edge_types) == ((4, 3), 1, 5)
    more = store[0].clone()
    more.x[0, 0], more.edge_type[0] = 7, 6
    again = PackedGraphs.from_pyg([store[1], more]).description
    assert (again.node_dims, again.num_edge_types) == ((8, 3), 7)
    other = Data(x=torch.tensor([[0, 0, 300]]), edge_index=torch.zeros(2, 0, dtype=torch.long))
    again = PackedGraphs.from_pyg([store[0], other]).description  # not all say that these are numbers
    assert (again.node_dims, again.num_node_values) == ((4, 3, 301), 0)
    more.x = more.x[:, :1]
    assert PackedGraphs.from_pyg([more]).description.node_dims == (8,)


def test_a_network_of_some_items_of_a_store_reads_the_others() -> None:
    """As scikit-learn cross-validates: by lists of items."""
    store = PackedGraphs.from_pyg([path(), path(x=CODES + 3, edge_attr=BONDS + 2)])
    for one, other in ((0, 1), (1, 0)):
        net = GraphKernelNetwork.from_data([store[one]], hidden_channels=8)
        assert np.isfinite(predict(net, [store[other]])).all()


def test_graphs_without_features_or_targets() -> None:
    data = PackedGraphs.from_pyg([Data(edge_index=EDGES, num_nodes=4), Data(num_nodes=0)])
    assert (data.num_tasks, data.task) == (0, None)
    assert data[0].x.tolist() == [[0]] * 4
    assert data.description.num_edge_types == 0
    with pytest.raises(ValueError, match="has no targets"):
        GraphKernelNetwork.from_data(data)


@pytest.mark.parametrize("dtype", [torch.long, torch.uint8, torch.float])
def test_a_graph_without_nodes_alone(dtype: torch.dtype) -> None:
    """As among others: of its features only the width is known."""
    edges = torch.tensor([[0, 1], [1, 0]])
    full = Data(x=torch.tensor([[0, 1], [1, 0]], dtype=dtype), edge_index=edges, y=torch.ones(1))
    empty = Data(x=full.x[:0], edge_index=edges[:, :0], y=torch.zeros(1))
    network = GraphKernelNetwork.from_data([full, empty], hidden_channels=4)
    assert predict(network, [empty]).tolist() == predict(network, [full, empty])[1:].tolist()


def test_rows_of_edges_are_numbered_and_kept() -> None:
    rows = torch.tensor([[1, 0, 2], [1, 0, 2], [0, 0, 1], [-1, 5, 0]])
    data = PackedGraphs.from_pyg([path(edge_attr=rows)])
    assert torch.equal(torch.tensor(data.description.edge_values)[data[0].edge_type], rows)
    with pytest.raises(ValueError, match=r"data: graph 0: edge_attr has 3 numbers per edge, .*from_pyg"):
        PackedLoader([path(edge_attr=rows)])


ORDERS = ((1.0,), (1.5,), (2.0,))


def test_rows_of_edges_that_are_known() -> None:
    row = torch.tensor([1.0, 2.0, 2.0, 1.0])
    data = PackedGraphs.from_pyg([path(edge_attr=row), Data(num_nodes=0)], edge_values=ORDERS)
    assert (data.description.edge_values, data.description.num_edge_types) == (ORDERS, 3)
    assert torch.equal(torch.tensor(ORDERS)[data[0].edge_type][:, 0], row)
    for values in (ORDERS, (), None):  # items of a store know its codes
        again = PackedGraphs.from_pyg([*data], edge_values=values)
        assert torch.equal(again[0].edge_type, data[0].edge_type)
        assert again.description.edge_values == ORDERS
    other = PackedGraphs.from_pyg([path(edge_attr=torch.tensor([1.5, 2.0, 2.0, 1.5]))])
    for graphs in ([data[0], other[0]], [other[0], data[0]]):
        with pytest.raises(
            ValueError, match="graph 1: is of a store whose codes of edges stand for other values"
        ):
            PackedGraphs.from_pyg(graphs)
    with pytest.raises(
        ValueError, match="graph 0: is of a store whose codes of edges stand for other values"
    ):
        PackedGraphs.from_pyg([*other], edge_values=ORDERS)


@pytest.mark.parametrize("values", [[1.0, 1.5], [[1.0], [1.0]], [[float("nan")]], [[1.0], [1.0, 2.0]], "ab"])
def test_values_of_edges_that_are_none(values: Any) -> None:
    with pytest.raises(ValueError, match="edge_values: expected 1 to 256 different rows of finite numbers"):
        PackedGraphs.from_pyg([path()], edge_values=values)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (path(edge_attr=torch.tensor([1, 2, 3, 1])), r"edge_attr\[2\] is \[3\], expected one of the 3 rows"),
        (path(edge_attr=torch.ones(4, 2)), "edge_attr has 2 columns, expected 1, as edge_values"),
        (
            path(edge_attr=None, edge_type=torch.tensor([0, 1, 2, 3])),
            r"edge_type\[3\] is \[3\], expected a code below 3",
        ),
        (path(edge_attr=None), "edges have neither edge_attr, whose rows edge_values lists, nor edge_type"),
    ],
)
def test_rows_of_edges_that_are_not_known(graph: Data, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedGraphs.from_pyg([graph], edge_values=ORDERS)


@pytest.mark.parametrize(
    ("y", "given", "task"),
    [
        ([0, 1], None, "classification"),
        ([0, 2], None, "multiclass"),
        ([0.0, 1.0], None, "classification"),
        ([0.0, 1.0], "regression", "regression"),
        ([0.0, 2.0], None, "regression"),
        ([-1, 7], "regression", "regression"),
    ],
)
def test_tasks(y: list[Any], given: str | None, task: str) -> None:
    assert PackedGraphs.from_pyg([path(y=torch.tensor([value])) for value in y], task=given).task == task


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"x": CODES - 1}, r"graph 1: x\[0\] is \[-1\], expected codes 0, 1, … \(integers\), or floats"),
        ({"x": CODES.double() + 0.1}, "graph 1: x has 1 columns of float64, graphs before it 1 of int64"),
        ({"x": CODES[:2], "num_nodes": 3}, r"graph 1: x has shape \[2, 1\], expected 3 rows"),
        ({"edge_attr": torch.tensor([0.5, 0.5])}, r"graph 1: edge_attr has shape \[2\], expected 4 rows"),
        ({"edge_attr": None}, "graph 0 has edge_attr, graph 1 has none"),
        ({"y": torch.tensor([1.0, 2.0])}, r"graph 1: y has shape \[2\], expected \[1\] or \[1, tasks\]"),
        ({"y": torch.tensor([[1.0, 2.0]])}, "graph 1: y has 2 targets, graphs before it 1"),
        ({"y": "high"}, "graph 1: y must hold real numbers"),
        ({"y": torch.tensor([torch.inf])}, "got inf for graph 1"),
        ({"edge_index": EDGES + 1}, "graph 1: edge_index has nodes 1 … 3, expected 0 … 2"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], message: str) -> None:
    wrong = path(**{name: value for name, value in attributes.items() if name != "edge_index"})
    wrong.edge_index = attributes.get("edge_index", EDGES)
    with pytest.raises(ValueError, match=message):
        PackedGraphs.from_pyg([path(), wrong])


def test_values_that_are_refused_in_all_graphs() -> None:
    def refused(message: str, **attributes: Any) -> None:
        with pytest.raises(ValueError, match=message):
            PackedGraphs.from_pyg([path(**attributes)])

    refused(r"edge_weight\[2\] is \[0.5\], expected 1: a store", edge_weight=torch.tensor([1, 1, 0.5, 1]))
    refused(r"graph 0: x\[0\] is \[0.1\], expected numbers that a float32 holds", x=CODES.double() + 0.1)
    refused("graph 0: y is .*-1.*, expected one class", y=torch.tensor([-1]))
    refused("expected edge_type or edge_attr, got both", edge_type=BONDS)
    many = [path(edge_attr=torch.rand(4, 2, generator=torch.Generator().manual_seed(i))) for i in range(70)]
    with pytest.raises(
        ValueError, match=r"edge_attr\[\d\] is .*expected at most 256 different rows .* got 280"
    ):
        PackedGraphs.from_pyg(many)
    with pytest.raises(TypeError, match="graph 1: expected a PyG Data, got HeteroData"):
        PackedGraphs.from_pyg([path(), HeteroData()])
    with pytest.raises(TypeError, match=r"a list of PyG's Data or a data set of them, got one Data"):
        PackedGraphs.from_pyg(path())
    with pytest.raises(ValueError, match="task must be one of"):
        PackedGraphs.from_pyg([path()], task="classes")


@pytest.mark.parametrize("network", [GraphKernelNetwork, KernelStackNetwork])
def test_a_data_set_of_pyg_trains_a_network(network: Any) -> None:
    dataset = InMemory(like_tu())
    net = network.from_data(dataset, hidden_channels=8)
    assert net.config["in_channels"] == 4
    result = fit(net, dataset[:8], list(dataset[8:]), FitOptions(epochs=2, batch_size=4), progress=False)
    assert np.isfinite(result.score)
    by_nodes = net.predict(next(iter(PackedLoader(dataset, 12)))).detach().numpy()
    np.testing.assert_allclose(predict(net, dataset), by_nodes, atol=1e-5)
    part = torch.utils.data.Subset(dataset, [3, 1])
    np.testing.assert_allclose(predict(net, part), by_nodes[[3, 1]], atol=1e-5)


def test_kernels_take_data_sets_of_pyg() -> None:
    dataset = InMemory(like_tu())
    graphs, packed = list(dataset), PackedGraphs.from_pyg(dataset)
    for kernel in (WLSubtreeKernel(2), RandomWalkKernel(3, 0.5)):
        expected = kernel(graphs)
        np.testing.assert_allclose(kernel(dataset), expected)
        np.testing.assert_allclose(kernel(packed), expected)
    assert WLVectorizer(2).fit_transform(dataset).shape[0] == len(dataset)
    with pytest.raises(TypeError, match="expected a list of graphs"):
        WLSubtreeKernel(2)(dataset[0])


def test_floats_of_python_are_rounded_as_torch_rounds_them() -> None:
    rows = [[0.1], [0.2], [0.3]]
    data = PackedGraphs.from_pyg([path(x=rows, num_nodes=3)])
    torch.testing.assert_close(data[0].x, torch.tensor(rows), rtol=0, atol=0)
    with pytest.raises(
        ValueError, match=r"graph 0: x\[1\] is \[1e\+39\], expected numbers that a float32 holds"
    ):
        PackedGraphs.from_pyg([path(x=[[0.1], [1e39], [0.3]], num_nodes=3)])


def test_items_keep_bounds_and_classes(caplog: pytest.LogCaptureFixture) -> None:
    store = random_packed(4)
    y, sides = np.array([[0.0], [2.0], [1.0], [2.0]]), np.array([[1], [0], [-1], [0]])
    bounded = store.with_targets(y, sides, task="regression")
    for data in (PackedGraphs.from_pyg([*bounded]), PackedGraphs.from_pyg(bounded + bounded)[:4]):
        np.testing.assert_array_equal(data.measured, bounded.measured)
        assert data.censored is not None
        np.testing.assert_array_equal(data.censored, sides)
    (batch,) = PackedLoader([*bounded], 4)
    assert batch.censored.tolist() == sides.tolist()
    classes = store.with_targets(y, task="multiclass", classes=("low", "mid", "high"))
    again = PackedGraphs.from_pyg(classes[:2] + classes[2:])
    assert (again.task, again.classes) == ("multiclass", ("low", "mid", "high"))
    assert not caplog.messages
    items = [*classes]
    items[0].y = torch.tensor([[0.5]])  # no class
    assert PackedGraphs.from_pyg(items).task == "regression"
    item = bounded[0]
    item.censored = torch.tensor([[2]])
    with pytest.raises(ValueError, match=r"graph 1: censored is \[2\], expected 1 of −1, 0 and 1"):
        PackedGraphs.from_pyg([bounded[1], item])


def test_what_a_float64_cannot_hold(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match=r"graph 1: y is \[9007199254740993\], expected numbers that a"):
        PackedGraphs.from_pyg([path(y=torch.tensor([2**53])), path(y=torch.tensor([2**53 + 1]))])
    assert PackedGraphs.from_pyg([path(smiles=["C"])]).smiles == []
    assert "no place for smiles that is not a text: left out" in caplog.text
