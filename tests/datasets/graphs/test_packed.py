from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tests.inputs.graphs import assert_equal_data, packed_pair, random_packed
from wlkernelnn.datasets import PackedGraphs, PackedLoader, Reject


def test_graphs_come_back() -> None:
    """As multisets of edges: the store sorts them by target, then source."""
    rng = np.random.default_rng(0)
    graphs = []
    for num_nodes, num_edges in [(3, 7), (0, 0), (5, 0), (1, 2), (300, 900)]:
        x = rng.integers(0, 9, (num_nodes, 2))
        edge_index = rng.integers(0, max(num_nodes, 1), (2, num_edges))
        graphs.append((x, edge_index, rng.integers(0, 300, num_edges)))
    data = PackedGraphs.pack(
        x=np.concatenate([x for x, _, _ in graphs]),
        edge_index=np.concatenate([e for _, e, _ in graphs], axis=1),
        edge_type=np.concatenate([t for _, _, t in graphs]),
        node_ptr=np.cumsum([0, *(len(x) for x, _, _ in graphs)]),
        edge_ptr=np.cumsum([0, *(e.shape[1] for _, e, _ in graphs)]),
        y=np.arange(5.0),
        smiles=["a", "", "β", "c c", "d"],
        row=[4, 9, 2, 0, 7],
    )
    assert len(data) == 5
    assert data.smiles == ["a", "", "β", "c c", "d"]
    assert data.row.tolist() == [4, 9, 2, 0, 7]
    assert data.num_nodes_per_graph.tolist() == [3, 0, 5, 1, 300]
    for i, (x, edge_index, edge_type) in enumerate(graphs):
        came = data[i]
        assert not isinstance(came.edge_index, EdgeIndex)
        assert came.x.dtype == came.edge_type.dtype == came.edge_index.dtype == torch.int64
        assert torch.equal(came.x, torch.from_numpy(x))
        assert came.y.tolist() == [[i]]
        source, target = came.edge_index.tolist()
        edges = list(zip(target, source, came.edge_type.tolist(), strict=True))
        assert sorted(edges) == sorted(zip(*edge_index[::-1].tolist(), edge_type.tolist(), strict=True))
        assert list(zip(target, source, strict=True)) == sorted(zip(target, source, strict=True))


def test_defaults() -> None:
    data = packed_pair()
    assert data.num_tasks == 0
    assert data.y.shape == (2, 0)
    assert data.row.tolist() == [0, 1]
    assert data.smiles == []
    assert "smiles" not in data[0]
    assert "graph_x" not in data[0]
    assert data[0].edge_type.tolist() == [0, 0]
    assert (data.task, data.metric, data.split_idx) == (None, None, None)


def test_numbers_of_whole_graphs(tmp_path: Path) -> None:
    graph_x = np.array([[0.5, -3e30], [1.0, 2.0]])
    packed_pair(graph_x=graph_x).save(tmp_path / "graphs.safetensors")
    data = PackedGraphs.load(tmp_path / "graphs.safetensors")
    assert data.arrays.graph_x.dtype == torch.float32
    np.testing.assert_array_equal(data[1].graph_x.numpy(), graph_x[1:].astype(np.float32))


def test_features_of_whole_graphs() -> None:
    graph_x = np.array([[0, 255, 3], [1, 0, 0]])
    data = packed_pair(graph_x=graph_x)
    assert data.description.num_graph_values == 3
    assert data.arrays.graph_x.dtype == torch.uint8
    assert data.nbytes == packed_pair().nbytes + 6
    assert [data[i].graph_x.tolist() for i in (0, 1)] == [[row] for row in graph_x.tolist()]
    assert Batch.from_data_list([Data(graph_x=g.graph_x) for g in data]).graph_x.tolist() == graph_x.tolist()
    assert [graph.graph_x.tolist() for graph in data[[1, 0, 1]]] == [[graph_x[i].tolist()] for i in (1, 0, 1)]
    assert data.with_targets(np.zeros(2))[1].graph_x.tolist() == [[1, 0, 0]]
    data[0].graph_x.fill_(7)
    assert data[0].graph_x.tolist() == [[0, 255, 3]]


@pytest.mark.parametrize("num_nodes", [257, 40_000])
def test_large_graphs(num_nodes: int) -> None:
    """A star: node numbers and one node's number of edges leave a byte, and two."""
    leaves = np.arange(1, num_nodes)
    data = PackedGraphs.pack(
        x=np.zeros((num_nodes, 1), dtype=np.int64),
        edge_index=np.stack([leaves, np.zeros_like(leaves)]),
        node_ptr=[0, num_nodes],
        edge_ptr=[0, num_nodes - 1],
        edge_type=leaves,
    )
    graph = data[0]
    assert torch.equal(graph.edge_index[0], torch.from_numpy(leaves))
    assert not graph.edge_index[1].any()
    assert torch.equal(graph.edge_type, torch.from_numpy(leaves))


# Views

SELECTIONS: dict[str, tuple[Any, list[int]]] = {
    "slice": (slice(2, 9, 3), [2, 5, 8]),
    "tensor_mask": (torch.arange(10) % 4 == 1, [1, 5, 9]),
    "list": ([7, 0, 7], [7, 0, 7]),
    "tensor": (torch.tensor([3, 1]), [3, 1]),
    "negative_numbers": ([-1, -10], [9, 0]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("selection", "numbers"), SELECTIONS.values(), ids=SELECTIONS)
def test_views(any_data: PackedGraphs, selection: Any, numbers: list[int]) -> None:
    view = any_data[selection]
    assert isinstance(view, PackedGraphs)
    assert len(view) == len(numbers)
    assert view.index.tolist() == numbers
    assert view.smiles == [f"graph № {i}" for i in numbers]
    assert torch.equal(view.row, any_data.row[numbers])
    assert torch.equal(view.y.isnan(), any_data.y[numbers].isnan())
    assert view.num_nodes_per_graph.tolist() == any_data.num_nodes_per_graph[numbers].tolist()
    for came, number in zip(view, numbers, strict=True):
        assert_equal_data(came, any_data[number])


def test_shares_of_a_data_set(data: PackedGraphs) -> None:
    assert data[:0.8].index.tolist() == list(range(8))
    assert data[0.5:].index.tolist() == list(range(5, 10))
    assert data[2:][0.25:0.5].index.tolist() == [4, 5]
    assert data[(1, 3)].index.tolist() == [1, 3]


def test_targets_are_copies(data: PackedGraphs, tmp_path: Path) -> None:
    """What is written into them is the same for a store and for one that lies in a file."""
    before = data.y
    data.save(tmp_path / "store.safetensors")
    for store in (data, PackedGraphs.load(tmp_path / "store.safetensors")):
        store.y.zero_()
        assert torch.equal(store.y, before)


@pytest.mark.parametrize("shape", [(9,), (10, 1, 1)])
def test_targets_that_do_not_fit(data: PackedGraphs, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"y must be \[10\] or \[10, tasks\], for all graphs"):
        data[:9].with_targets(torch.zeros(shape))


def test_names_of_targets_are_as_many_as_targets(data: PackedGraphs) -> None:
    named = data.with_targets(np.zeros(10), target_names=("a",))
    assert named.with_targets(np.ones(10)).description.target_names == ("a",)
    assert named.with_targets(np.ones((10, 2))).description.target_names == ()
    with pytest.raises(ValueError, match="target_names has 1 entries, expected 2"):
        named.with_targets(np.ones((10, 2)), target_names=("a",))


def test_digest_is_of_what_a_network_sees(data: PackedGraphs, tmp_path: Path) -> None:
    data.save(tmp_path / "store.safetensors")
    assert PackedGraphs.load(tmp_path / "store.safetensors").digest() == data.digest()
    others = [data[:9], data[::-1], data.with_targets(data.y + 1), random_packed(11)[:10]]
    assert len({data.digest(), *(other.digest() for other in others)}) == 5


def test_views_of_views(any_data: PackedGraphs) -> None:
    view = any_data[2:8][[True, False, True, False, False, True]][::-1]
    assert view.smiles == ["graph № 7", "graph № 4", "graph № 2"]
    assert_equal_data(view[0], any_data[7])
    one = any_data[:1][::-1]
    assert_equal_data(one[0], any_data[0])
    torch.testing.assert_close(one.y, any_data[:1].y, equal_nan=True)


@pytest.mark.parametrize("selection", [-7, torch.tensor(3)], ids=repr)
def test_one_number_gives_a_graph(data: PackedGraphs, selection: Any) -> None:
    assert_equal_data(data[selection], data[3])


def test_numbers_beyond_the_end(data: PackedGraphs) -> None:
    for selection in (10, [10], [-11]):
        with pytest.raises(IndexError):
            data[selection]


@pytest.mark.parametrize("selection", [None, np.array([[0, 1], [2, 3]])], ids=["none", "table"])
def test_indices_of_another_shape(data: PackedGraphs, selection: Any) -> None:
    with pytest.raises(IndexError, match=r"a list of graphs, got an index of shape \((1, 10|2, 2)\)"):
        data[selection]


def shares_arrays(view: PackedGraphs, data: PackedGraphs) -> bool:
    pairs = zip(vars(view.arrays).values(), vars(data.arrays).values(), strict=True)
    return all(a.data_ptr() == b.data_ptr() for a, b in pairs)


def test_views_share_the_arrays(data: PackedGraphs) -> None:
    assert shares_arrays(data[2:5], data)
    assert shares_arrays(data[2:5][[0]], data)


def test_views_of_a_mapped_store_share_the_arrays(data: PackedGraphs, tmp_path: Path) -> None:
    path = tmp_path / "data.safetensors"
    data.save(path)
    mapped = PackedGraphs.load(path)
    path.unlink()  # an open mapping needs no name
    assert shares_arrays(mapped[2:5], mapped)


def test_a_view_has_no_split_of_its_own() -> None:
    data = packed_pair(split_idx={"train": np.array([1]), "test": np.array([0])})
    data.rejects = [Reject(7, "C(", "unclosed")]
    view = data[[1, 0]]
    assert view.split_idx is None
    assert view.rejects == []
    assert data.split_idx is not None
    assert len(data.rejects) == 1


def test_graphs_are_copies(data: PackedGraphs) -> None:
    """Changing a graph in place leaves the store as it is."""
    before = data[3]
    graph = data[3]
    graph.x += 1
    graph.y += 1
    graph.edge_type += 1
    graph.edge_index.zero_()
    assert_equal_data(data[3], before)


def test_what_is_handed_out_does_not_write_into_the_store() -> None:
    data = random_packed(5)
    before = data.row.clone()
    data.row.zero_()
    data.row[0] = 9
    assert torch.equal(data.row, before)
    with pytest.raises(ValueError, match="read-only"):
        data.colours(1)[0][0] = 9


def test_with_targets(data: PackedGraphs) -> None:
    y = np.arange(10.0)
    other = data.with_targets(y, name="other", target_names=("t",), task="regression", metric="mae")
    assert other.y.tolist() == [[value] for value in y]
    assert (other.num_tasks, other.task, other.metric) == (1, "regression", "mae")
    assert other.arrays.source is data.arrays.source
    assert data.num_tasks == 2


def test_nbytes_counts_every_array(data: PackedGraphs) -> None:
    assert data.nbytes == sum(t.numpy().nbytes for t in vars(data.arrays).values())


def test_a_molecule_takes_few_bytes() -> None:
    """28 atoms and 60 directed bonds with codes of a byte: under 350 bytes with its SMILES."""
    num_graphs = 1000
    rng = np.random.default_rng(0)
    data = PackedGraphs.pack(
        x=rng.integers(0, 2, (28 * num_graphs, 7)),
        edge_index=rng.integers(0, 28, (2, 60 * num_graphs)),
        node_ptr=28 * np.arange(num_graphs + 1),
        edge_ptr=60 * np.arange(num_graphs + 1),
        edge_type=rng.integers(0, 100, 60 * num_graphs),
        y=rng.normal(size=num_graphs),
        smiles=["c1ccc2c(c1)[nH]c1c2c2ccc3c4occc4[nH]c3c2c2[nH]ccc12"] * num_graphs,
    )
    assert data.nbytes / num_graphs < 350


# Errors


def test_targets_that_a_float32_does_not_hold(data: PackedGraphs) -> None:
    most = float(np.finfo(np.float32).max)
    assert data.with_targets(np.full(10, most)).y.max() == most
    for y in (np.full(10, 1e300), torch.full((10, 2), torch.inf)):
        with pytest.raises(ValueError, match=r"y must hold numbers that a float32 holds, .* for graph 0"):
            data.with_targets(y)


def test_no_graphs_at_all() -> None:
    data = PackedGraphs.pack(np.zeros((0, 2), int), np.zeros((2, 0), int), [0], [0])
    assert len(data) == 0
    assert list(data) == []


def test_digest_is_of_features_of_whole_graphs() -> None:
    digests = [packed_pair(graph_x=np.array(values)).digest() for values in ([[1], [2]], [[1], [3]])]
    assert digests[0] != digests[1]


def test_targets_of_a_graph_are_its_own() -> None:
    data = packed_pair(y=np.array([1.0, 2.0]))
    data[0].y += 1
    assert data.y.tolist() == [[1.0], [2.0]]


def test_targets_are_kept_as_they_are_given(data: PackedGraphs, tmp_path: Path) -> None:
    y = np.linspace(0.1, 0.7, len(data))
    kept = data.with_targets(y)
    assert kept.y.dtype == torch.float32
    np.testing.assert_array_equal(kept.measured[:, 0], y)
    kept.save(tmp_path / "kept.safetensors")
    again = PackedGraphs.load(tmp_path / "kept.safetensors")[1:]
    np.testing.assert_array_equal(again.measured[:, 0], y[1:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).measured[:, 0], y[1:])
    assert data.with_targets(np.ones(len(data))).arrays.y.dtype == torch.float32


def test_targets_that_float32_cannot_tell_apart_are_learned_in_float64(data: PackedGraphs) -> None:
    y = -135123456.0 + np.arange(len(data)) / 4
    energies = data.with_targets(y)
    assert energies.digest() != data.with_targets(y[::-1].copy()).digest()
    (batch,) = PackedLoader(energies)
    for values in (energies.y, batch.y, torch.cat([graph.y for graph in energies])):
        assert values.dtype == torch.float64
        np.testing.assert_array_equal(values[:, 0], y)


def test_a_graph_says_what_of_its_targets_is_a_bound(data: PackedGraphs) -> None:
    sides = np.arange(10)[:, None] % 3 - 1
    bounds = data.with_targets(np.arange(10.0), censored=sides)
    (batch,) = PackedLoader(bounds, 10)
    found = next(iter(DataLoader(bounds, 10)))
    assert torch.equal(found.censored, batch.censored)
    assert bounds[3].censored.tolist() == [[-1]]
    assert "censored" not in data[3]
    column = data.with_targets(np.arange(10.0), censored=sides[:, 0])
    assert torch.equal(column.arrays.censored, bounds.arrays.censored)
    for y in (data.y, data.y[:, :1]):
        with pytest.raises(ValueError, match=r"censored must be \[10, .\], as y, got \[9\]"):
            data.with_targets(y, censored=sides[:9, 0])
    with pytest.raises(ValueError, match=r"censored must be \[10, 2\], as y, got \[20\]"):
        data.with_targets(data.y, censored=np.ones(20))


def test_other_targets_and_compact_stores_keep_a_transform() -> None:
    packed = random_packed(4)
    packed.transform = lambda graph: graph
    other = packed.with_targets(np.zeros(4))
    assert other.transform is packed.transform
    assert other[np.array([2, 0])].compact().transform is packed.transform


def test_other_targets_keep_colours() -> None:
    packed = random_packed(4)
    (*_, finest) = packed.colours(2)
    (*_, again) = packed.with_targets(np.zeros(4)).colours(2)
    assert np.shares_memory(finest, again)


def test_digests_tell_apart_what_codes_of_edges_stand_for() -> None:
    def digest(rows: list[list[float]]) -> str:
        edges = torch.tensor([[0, 1], [1, 0]])
        graph = Data(x=torch.zeros(2, 1).long(), edge_index=edges, edge_attr=torch.tensor(rows))
        return PackedGraphs.from_pyg([graph]).digest()

    assert digest([[0.5, 1.0], [2.0, 3.0]]) == digest([[0.5, 1.0], [2.0, 3.0]])
    assert digest([[0.5, 1.0], [2.0, 3.0]]) != digest([[0.7, 1.0], [9.0, 3.0]])
