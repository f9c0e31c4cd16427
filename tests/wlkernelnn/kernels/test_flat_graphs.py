from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_smiles, to_networkx

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import Description, PackedGraphs, load_molecules
from wlkernelnn.kernels import (
    DeepGraphKernel,
    PathKernel,
    RandomWalkKernel,
    StructureKernel,
    WLSubtreeKernel,
    objects,
)
from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end, flat_graphs, paired
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.kernels.names import row_numbers

SMILES = ["CCO", "c1ccccc1O", "C", "CC(=O)[O-].[Na+]", "FC(F)F"]
KERNELS: dict[str, StructureKernel] = {
    "walks": RandomWalkKernel(3, 0.5),
    "deep": DeepGraphKernel(2, 2, 0.1),
}


def edge(**attributes: object) -> Data:
    """One edge between two nodes."""
    return Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, **attributes)  # type: ignore[arg-type]


def assert_same(a: FlatGraphs, b: FlatGraphs) -> None:
    for name, value in vars(a).items():
        other = getattr(b, name)
        assert (value is None) == (other is None), name
        if value is not None:
            np.testing.assert_array_equal(value, other, err_msg=name)


def test_packed_stores_are_lists_of_data() -> None:
    packed = random_packed(12)
    assert_same(flat_graphs(packed), flat_graphs([packed[i] for i in range(12)]))
    view = packed[np.array([7, 1, 7, 0])]
    assert_same(flat_graphs(view), flat_graphs([packed[i] for i in (7, 1, 7, 0)]))
    assert_same(flat_graphs(objects([packed[3]])), flat_graphs([packed[3]]))
    assert len(flat_graphs(packed[:0])) == 0


def test_features_of_packed_stores_are_doubles() -> None:
    nothing = torch.empty(2, 0, dtype=torch.long)
    graphs = [Data(x=torch.tensor([[4097.0]]), edge_index=nothing, y=torch.zeros(1, 1))]
    kernel = RandomWalkKernel(1, all_lengths=True)
    assert kernel(PackedGraphs.from_pyg(graphs)) == kernel(graphs) == 4097.0**2


def test_a_transform_is_refused() -> None:
    packed = random_packed(4)
    packed.transform = lambda graph: graph
    with pytest.raises(ValueError, match="data has a transform, which is not applied here"):
        WLSubtreeKernel(1)(packed)
    assert WLSubtreeKernel(1)([*packed]).shape == (4, 4)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_smiles_are_molecules(kernel: StructureKernel) -> None:
    molecules = load_molecules(SMILES)
    expected = kernel(molecules)
    np.testing.assert_array_equal(kernel(SMILES), expected)
    np.testing.assert_array_equal(kernel(np.array(SMILES)), expected)
    np.testing.assert_array_equal(kernel(SMILES, molecules), expected)


def test_a_bad_smiles_is_named() -> None:
    with pytest.raises(ValueError, match=r"SMILES 1: 'C\(': .*and 1 more"):
        flat_graphs(["C", "C(", ""])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("directed", [False, True])
def test_networkx_graphs(kernel: StructureKernel, directed: bool) -> None:
    """As PyG converts them: attributes have the names of Data's, edges of undirected graphs go both ways."""
    graphs = []
    for n in (1, 3, 5):
        graph = networkx.path_graph(n, create_using=networkx.DiGraph if directed else networkx.Graph)
        networkx.set_node_attributes(graph, {v: [v % 2] for v in graph}, "x")
        networkx.set_edge_attributes(graph, {e: e[0] % 2 for e in graph.edges}, "edge_type")
        graphs.append(graph)
    data = []
    for n in (1, 3, 5):
        steps = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        types = torch.arange(n - 1) % 2
        both = (
            (steps, types) if directed else (torch.cat([steps, steps.flip(0)], 1), torch.cat([types, types]))
        )
        data.append(Data(x=torch.arange(n)[:, None] % 2, edge_index=both[0], edge_type=both[1]))
    np.testing.assert_array_equal(kernel(graphs), kernel(data))
    assert kernel([to_networkx(edge())])[0, 0] == kernel([edge()])[0, 0]


@pytest.mark.parametrize(
    ("graphs", "error", "message"),
    [
        (edge(), TypeError, "a list of graphs or of SMILES, got one Data"),
        ("CCO", TypeError, "got one str"),
        (7, TypeError, "got one int"),
        ({"CCO": 1}, TypeError, "got one dict"),
        ({"CCO"}, TypeError, "got one set"),
        (pd.DataFrame({"CCO": [1]}), TypeError, "got one DataFrame"),
        ([edge(), 3], TypeError, "item 1: expected a PyG Data, .* got int"),
        ([edge(), "CCO"], TypeError, "several kinds in one list: Data, SMILES"),
        ([edge(x=torch.ones(3, 1))], ValueError, r"graph 0: x has shape \[3, 1\], expected 2 rows"),
        ([edge(edge_type=torch.zeros(4).long())], ValueError, r"graph 0: edge_type has shape \[4\]"),
        ([edge(edge_type=torch.zeros(1))], ValueError, "edge_type must hold integers"),
        ([edge(x=torch.ones(2, 1)), edge()], ValueError, "graph 0 has x, graph 1 has none"),
        (
            [edge(x=torch.ones(2, 1)), edge(x=torch.ones(2, 2))],
            ValueError,
            "graph 1: x has 2 columns of float64, graphs before it 1 of float64",
        ),
        (
            [edge(x=torch.ones(2, 1)), edge(x=torch.ones(2, 1).long())],
            ValueError,
            "graph 1: x has 1 columns of int64, graphs before it 1 of float64",
        ),
        (
            [Data(edge_index=torch.tensor([[0], [5]]), num_nodes=2)],
            ValueError,
            "graph 0: edge_index has nodes 0 … 5, expected 0 … 1",
        ),
        (
            [Data(edge_index=torch.zeros(3, 1).long(), num_nodes=2)],
            ValueError,
            r"must be integers \[2, E\], got int64 \[3, 1\]",
        ),
        (
            [Data(edge_index=torch.tensor([[0.0], [0.5]]), num_nodes=2)],
            ValueError,
            r"must be integers \[2, E\], got float32 \[2, 1\]",
        ),
        ([Data(adj_t=torch.eye(2).to_sparse(), num_nodes=2)], ValueError, "graph 0: its edges are in adj_t"),
        (
            [edge(x=torch.tensor([[0.0], [torch.nan]]))],
            ValueError,
            "graph 0: x holds values that are not fin",
        ),
        ([edge(edge_weight=torch.tensor([torch.inf]))], ValueError, "graph 0: edge_weight holds values that"),
        ([edge(x=torch.ones(2, 1) + 1j)], ValueError, "graph 0: x must hold real numbers: .*complex64"),
        ([edge(x=[{}, {}])], ValueError, "graph 0: x must hold numbers or hashable labels: .*dict"),
        ([edge(edge_weight=torch.ones(1, 2))], ValueError, r"edge_weight must be \[E\], got \[1, 2\]"),
        ([edge(edge_type=torch.ones(1, 2).long())], ValueError, r"edge_type must be \[E\], got \[1, 2\]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_lists_that_are_no_graphs(graphs: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        flat_graphs(graphs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_short_floats(dtype: torch.dtype) -> None:
    short = edge(x=torch.tensor([[0.5], [2.0]], dtype=dtype, requires_grad=True))
    assert flat_graphs([short]).x.tolist() == [[0.5], [2.0]]


@pytest.mark.filterwarnings("ignore:Unable to accurately infer")  # PyG says so too
def test_graphs_of_unknown_size() -> None:
    with pytest.raises(ValueError, match="graph 1: its number of nodes is unknown"):
        flat_graphs([edge(), Data()])


def test_sides_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="one side has x, the other has none"):
        paired([edge(x=torch.ones(2, 1))], [edge()])
    with pytest.raises(ValueError, match=r"x cannot be compared: float64 rows of shape \(1,\) .* int64"):
        paired([edge(x=torch.ones(2, 1))], [edge(x=torch.ones(2, 1).long())])
    with pytest.raises(ValueError, match="one side has edge_type"):
        paired([edge(edge_type=torch.zeros(1).long())], [edge()])


EDGE_KERNELS: dict[str, StructureKernel] = {
    **KERNELS,
    "geometric": RandomWalkKernel(None, 0.001),
    "subtree": WLSubtreeKernel(2),
}


@pytest.mark.parametrize("kernel", EDGE_KERNELS.values(), ids=EDGE_KERNELS)
@pytest.mark.parametrize("floats", [False, True], ids=["codes", "floats"])
def test_integer_attributes_of_edges_are_codes(kernel: StructureKernel, floats: bool) -> None:
    """Equal rows are one type, on both sides, however nodes are compared."""
    typed = list(random_packed(6, num_edge_types=3))
    attributed, both = [], []
    for graph in typed:
        if floats:
            graph.x = graph.x.double() / 10
        columns = torch.stack([graph.edge_type // 2, 7 * graph.edge_type], dim=1)
        parts = {"x": graph.x, "edge_index": graph.edge_index}
        attributed.append(Data(edge_attr=columns, **parts))
        both.append(Data(edge_attr=columns[:, 1:], edge_type=graph.edge_type // 2, **parts))
    expected = kernel(typed)
    for graphs in (attributed, both):
        np.testing.assert_allclose(kernel(graphs), expected, rtol=1e-13)
        np.testing.assert_allclose(kernel(graphs[3:], graphs[:4]), expected[3:, :4], rtol=1e-13)


def test_molecules_of_pyg_have_codes_of_bonds() -> None:
    ethane, ethene = (from_smiles(smiles) for smiles in ("CC", "C=C"))
    ethene.x = ethane.x
    for kernel in (RandomWalkKernel(2), DeepGraphKernel(1, 2, 1.0, composition="identity")):
        np.testing.assert_array_equal(kernel([ethane, ethene]), [[4, 0], [0, 4]])
    bond = edge(edge_attr=torch.tensor([[0]]))
    assert RandomWalkKernel(2)([bond])[0, 0] == 1
    with pytest.raises(ValueError, match=r"edge_attr cannot be compared: int64 .* float64"):
        paired([bond], [edge(edge_attr=torch.tensor([[0.0]]))])


@pytest.mark.parametrize("kernel", EDGE_KERNELS.values(), ids=EDGE_KERNELS)
def test_stores_without_types_of_edges_go_with_graphs_without(kernel: StructureKernel) -> None:
    def pack(**options: object) -> PackedGraphs:
        return PackedGraphs.pack([[1], [2], [1]], [[0, 1, 2], [1, 0, 0]], [0, 3], [0, 3], **options)

    store = pack()
    typed = store[0]
    plain = Data(x=typed.x, edge_index=typed.edge_index)
    expected = kernel([plain])
    lists = ([plain], [typed])
    for X, Y in ((store, store), *((store, given) for given in lists), *((given, store) for given in lists)):
        np.testing.assert_array_equal(kernel(X, Y), expected)
    np.testing.assert_array_equal(kernel([plain], [typed]), expected)
    own = Data(x=typed.x, edge_index=typed.edge_index, edge_type=typed.edge_type)
    for other in (pack(description=Description(num_edge_types=2)), pack(edge_type=[0, 0, 1]), [own]):
        with pytest.raises(ValueError, match="one side has edge_type, the other has none"):
            kernel([plain], other)


def test_graphs_without_rows_go_with_everything() -> None:
    empty, alone = Data(num_nodes=0), Data(x=torch.ones(1, 1), num_nodes=1)
    some = [edge(x=torch.ones(2, 1), edge_type=torch.zeros(1).long()), empty, alone]
    assert flat_graphs(some).sizes.tolist() == [2, 0, 1]
    a, b = paired([empty], some)
    assert b is not None
    assert (a.x is None) == (b.x is None)
    np.testing.assert_array_equal(RandomWalkKernel(2)([empty, alone], some), [[0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(RandomWalkKernel(1)([empty, alone], some), [[0, 0, 0], [2, 0, 1]])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_edges_without_a_weight_weigh_1(kernel: StructureKernel) -> None:
    plain, weighted = edge(), edge(edge_weight=torch.ones(1))
    column = edge(edge_weight=torch.ones(1, 1))
    expected = kernel([plain])
    for left, right in ((plain, weighted), (weighted, plain), (weighted, column)):
        np.testing.assert_array_equal(kernel([left], [right]), expected)


def test_labels_are_shared_by_both_sides() -> None:
    first = [edge(x=torch.tensor([[3, 1], [4, 1]]), edge_type=torch.tensor([7]), edge_weight=torch.ones(1))]
    second = [
        edge(x=torch.tensor([[4, 1], [4, 2]]), edge_type=torch.tensor([7]), edge_weight=torch.ones(1)),
        edge(x=torch.tensor([[3, 1], [3, 1]]), edge_type=torch.tensor([7]), edge_weight=2 * torch.ones(1)),
    ]
    a, b = paired(first, second)
    assert b is not None
    both = end_to_end(a, b)
    assert node_labels(both).tolist() == [0, 1, 1, 2, 0, 0]
    assert edge_labels(both).tolist() == [0, 0, 1]
    assert_same(end_to_end(a, b), flat_graphs([*first, *second]))


def test_row_numbers() -> None:
    columns = [np.array([2**40, 5, 2**40, 5]), np.array([0.5, 0.5, 0.5, -1.0])]
    assert row_numbers(columns, 4).tolist() == [0, 1, 0, 2]
    assert row_numbers([], 3).tolist() == [0, 0, 0]
    assert row_numbers([np.zeros(0)], 0).tolist() == []


def test_data_on_an_edge_index_of_a_loader(data_root: Path) -> None:
    molecules = load_molecules("freesolv", root=data_root)[:20]
    np.testing.assert_array_equal(RandomWalkKernel(3)(list(molecules)), RandomWalkKernel(3)(molecules))


def triangle(rows: torch.Tensor) -> Data:
    """A directed triangle whose edges have these attributes."""
    return Data(x=torch.zeros(3, 1).long(), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), edge_attr=rows)


NUMBERED = {
    "integers": [from_smiles(text) for text in ("c1ccncc1", "CC", "c1ccccc1")],
    "floats": [triangle(torch.tensor([[a], [a], [b]])) for a, b in ((0.5, 1.5), (7.5, 9.5), (0.5, 9.5))],
    "one-hot": [triangle(torch.eye(3)[list(codes)]) for codes in ((0, 1, 1), (1, 2, 2), (2, 2, 0))],
    "one-hot integers": [triangle(torch.eye(3).long()[[0, 1, c]]) for c in (0, 1, 2)],
    "one column": [triangle(torch.tensor(codes)) for codes in ([0, 1, 1], [1, 2, 2], [2, 2, 0])],
}


@pytest.mark.parametrize("graphs", NUMBERED.values(), ids=NUMBERED)
@pytest.mark.parametrize("kernel", [*KERNELS.values(), WLSubtreeKernel(2), PathKernel(2)], ids=str)
def test_stores_compare_what_their_codes_of_edges_stand_for(
    kernel: StructureKernel, graphs: list[Data]
) -> None:
    """Each store numbers the rows of ``edge_attr`` that it has."""
    expected = kernel(graphs)
    first, rest = (PackedGraphs.from_pyg(part) for part in (graphs[:1], graphs[1:]))
    whole = PackedGraphs.from_pyg(graphs)
    np.testing.assert_allclose(kernel(whole), expected)
    np.testing.assert_allclose(kernel(first, rest), expected[:1, 1:])
    np.testing.assert_allclose(kernel(graphs[:1], rest), expected[:1, 1:])
    np.testing.assert_allclose(kernel(first, graphs[1:]), expected[:1, 1:])
    np.testing.assert_allclose(kernel([first[0], *rest]), expected)
    for X, Y in (([*first], graphs[1:]), (graphs[:1], [*rest]), ([*first], rest), ([*first], [*rest])):
        np.testing.assert_allclose(kernel(X, Y), expected[:1, 1:])
    known = PackedGraphs.from_pyg(graphs[:1], edge_values=whole.description.edge_values)
    np.testing.assert_allclose(kernel(known, graphs), expected[:1])


@pytest.mark.parametrize("kernel", [*KERNELS.values(), WLSubtreeKernel(2)], ids=str)
def test_stores_without_labels_go_with_lists(kernel: StructureKernel) -> None:
    graphs = [edge(), Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)]
    packed = PackedGraphs.from_pyg(graphs)
    np.testing.assert_array_equal(kernel(packed, graphs), kernel(graphs))
    np.testing.assert_array_equal(kernel(graphs, packed), kernel(graphs))
    np.testing.assert_array_equal(kernel(graphs, [*packed]), kernel(graphs))
