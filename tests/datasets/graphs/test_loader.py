from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import LineGraph, RemoveDuplicatedEdges, ToSparseTensor

from tests.checks.pairwise import pairwise
from tests.inputs.graphs import random_packed
from wlkernelnn import WLKernelConv
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.ops.colours import wl_colours, wl_quotient


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    return random_packed(50)


def numbers_in(batches: Iterable[Data]) -> list[list[int]]:
    """Which graphs each batch holds."""
    return [batch.y[:, 0].int().tolist() for batch in batches]


def assert_is_batch_of(came: Data, graphs: list[Data]) -> None:
    """The batch that PyG would make of these graphs, with valid pointers."""
    expected = Batch.from_data_list(graphs)
    assert set(came.keys()) == {"x", "edge_index", "edge_type", "y", "batch", "ptr", "num_graphs"}
    assert came.num_graphs == expected.num_graphs == len(graphs)
    for name in ("x", "edge_type", "batch", "ptr"):
        assert came[name].dtype == torch.int64
        assert torch.equal(came[name], expected[name]), name
    assert came.y.dtype == torch.float32
    assert torch.equal(torch.nan_to_num(came.y), torch.nan_to_num(expected.y))
    assert isinstance(came.edge_index, EdgeIndex)
    assert torch.equal(came.edge_index.as_tensor(), expected.edge_index)
    came.edge_index.validate()
    assert came.edge_index.is_sorted_by_col
    degree = torch.bincount(expected.edge_index[1], minlength=expected.num_nodes)
    assert came.edge_index._indptr is not None
    assert came.edge_index._indptr.tolist() == [0, *degree.cumsum(0).tolist()]
    came.validate()


@pytest.mark.parametrize(
    ("batch_size", "drop_last"), [(1, False), (7, True), (7, False), (50, True), (1000, False), (1000, True)]
)
def test_batches_are_those_of_pyg(data: PackedGraphs, batch_size: int, drop_last: bool) -> None:
    loader = PackedLoader(data, batch_size, drop_last=drop_last)
    batches = list(loader)
    assert len(batches) == len(loader)
    sizes = [min(batch_size, 50 - i) for i in range(0, 50, batch_size)]
    if drop_last:
        sizes = [size for size in sizes if size == batch_size]
    assert [batch.y.size(0) for batch in batches] == sizes
    for i, batch in enumerate(batches):
        graphs = [data[j] for j in range(i * batch_size, i * batch_size + sizes[i])]
        assert_is_batch_of(batch, graphs)


@pytest.mark.parametrize("batch_size", [3, 2480])
def test_sets_larger_than_what_is_gathered_at_once(batch_size: int) -> None:
    data = random_packed(2500, max_nodes=3)
    batches = list(PackedLoader(data, batch_size, shuffle=True))
    assert sorted(chain.from_iterable(numbers_in(batches))) == list(range(2500))
    assert sum(batch.num_nodes for batch in batches) == data.num_nodes_per_graph.sum()
    for batch in batches[-3:]:
        if batch.y.size(0) < 400:
            assert_is_batch_of(batch, [data[i] for i in numbers_in([batch])[0]])


@pytest.mark.parametrize("saved", [False, True], ids=["in_memory", "mapped"])
def test_views(data: PackedGraphs, saved: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    if saved:
        path = tmp_path_factory.mktemp("saved") / "data.safetensors"
        data.save(path)
        data = PackedGraphs.load(path)
    (batch,) = PackedLoader(data[[8, 1, 8, 2]], batch_size=4)
    assert_is_batch_of(batch, [data[i] for i in (8, 1, 8, 2)])


def test_graphs_with_more_than_a_byte_holds() -> None:
    """300 nodes, of which one has 299 edges, beside small ones."""
    leaves = np.arange(1, 300)
    data = PackedGraphs.pack(
        x=np.arange(304).reshape(-1, 1),
        edge_index=np.concatenate(
            [[[0], [1]], np.stack([leaves, np.zeros_like(leaves)]), [[1], [0]]], axis=1
        ),
        node_ptr=[0, 2, 302, 304],
        edge_ptr=[0, 1, 300, 301],
        edge_type=np.arange(301),
        y=np.arange(3.0),
    )
    for numbers in ([0, 1, 2], [1, 1, 0], [2, 1]):
        (batch,) = PackedLoader(data[numbers])
        assert_is_batch_of(batch, [data[i] for i in numbers])


def test_batches_of_nothing_but_empty_graphs() -> None:
    data = random_packed(5)[[1, 1, 2]]
    first, second = PackedLoader(data, batch_size=2)
    assert first.x.shape == (0, 3)
    assert first.ptr.tolist() == [0, 0, 0]
    assert_is_batch_of(second, [data[2]])


def test_no_graphs() -> None:
    loader = PackedLoader(random_packed(5)[[]])
    assert len(loader) == 0
    assert list(loader) == []


def test_every_epoch_shuffles_anew_and_holds_every_graph(data: PackedGraphs) -> None:
    loader = PackedLoader(data, 8, shuffle=True, seed=3)
    first, second = ([i for batch in numbers_in(loader) for i in batch] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first != list(range(50))


def test_order_depends_on_seed_and_epoch_alone(data: PackedGraphs) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        loader = PackedLoader(data, 8, shuffle=True, seed=seed)
        loader.set_epoch(epoch)
        return numbers_in(loader)

    loader = PackedLoader(data, 8, shuffle=True, seed=3)
    epochs = [numbers_in(loader) for _ in range(3)]
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (the loader must not look at it)
    assert [order(3, epoch) for epoch in range(3)] == epochs
    assert order(4, 0) != epochs[0]
    assert loader.epoch == 3
    assert loader.sampler is loader


@pairwise(consumed=[0, 4, 6], drop_last=[False, True], shuffle=[False, True])
def test_resume_in_the_middle_of_an_epoch(
    data: PackedGraphs, shuffle: bool, consumed: int, drop_last: bool
) -> None:
    def make() -> PackedLoader:
        return PackedLoader(data, 8, shuffle=shuffle, drop_last=drop_last, seed=5)

    loader = make()
    list(loader)  # one whole epoch before
    batches = iter(loader)
    before = [next(batches) for _ in range(consumed)]
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    rest = numbers_in(resumed)
    assert rest == numbers_in(batches)
    assert len(before) + len(rest) == len(loader)
    # And the epochs after it are whole again, and the same.
    assert numbers_in(resumed) == numbers_in(loader)


def test_state_between_epochs(data: PackedGraphs) -> None:
    loader, resumed = (PackedLoader(data, 8, shuffle=True) for _ in range(2))
    list(loader)
    assert loader.state_dict() == {"epoch": 1, "batch": 0}
    resumed.load_state_dict(loader.state_dict())
    assert numbers_in(resumed) == numbers_in(loader)


def test_state_that_was_loaded_is_kept(data: PackedGraphs) -> None:
    loader = PackedLoader(data, 8)
    loader.load_state_dict({"epoch": 2, "batch": 3})
    assert loader.state_dict() == {"epoch": 2, "batch": 3}


@pytest.mark.parametrize("batch", [-1, 99])
def test_a_state_of_other_data_is_refused(data: PackedGraphs, batch: int) -> None:
    loader = PackedLoader(data, 8)
    with pytest.raises(ValueError, match=f"batch {batch} of an epoch, expected 0 to"):
        loader.load_state_dict({"epoch": 7, "batch": batch})
    assert loader.state_dict() == {"epoch": 0, "batch": 0}


def test_an_epoch_that_was_left_is_over(data: PackedGraphs) -> None:
    """Whoever breaks off every epoch after some batches sees others each time."""
    loader, whole = (PackedLoader(data, 8, shuffle=True) for _ in range(2))
    for _ in range(3):
        expected, (first, _) = numbers_in(whole), numbers_in(islice(loader, 2))
        assert first == expected[0]
    iter(loader)  # nothing was read of it
    assert numbers_in(loader) == numbers_in(whole)
    next(iter(loader))
    loader.set_epoch(1)
    whole.set_epoch(1)
    assert numbers_in(loader) == numbers_in(whole)


def test_resampler_decides_the_order(data: PackedGraphs) -> None:
    def draw(epoch: int) -> np.ndarray:
        return np.array([1, 1, 0, epoch, 2, 2, 2])

    loader = PackedLoader(data[10:20], 3, resample=draw)
    assert len(loader) == 3
    assert numbers_in(loader) == [[11, 11, 10], [10, 12, 12], [12]]
    assert numbers_in(loader)[1] == [11, 12, 12]
    assert len(PackedLoader(data, 3, drop_last=True, resample=draw)) == 2
    loader = PackedLoader(data, 3, drop_last=True, resample=draw)
    assert numbers_in(loader) == [[1, 1, 0], [0, 2, 2]]


def test_resampler_gives_a_mask_or_counts_from_the_end(data: PackedGraphs) -> None:
    view = data[10:20]
    for chosen in (np.arange(10) % 3 == 1, np.array([1, -6, -3])):
        loader = PackedLoader(view, 2, drop_last=True, resample=lambda epoch, chosen=chosen: chosen)
        assert len(loader) == 1
        assert [batch.y[:, 0].tolist() for batch in loader] == [view.y[[1, 4], 0].tolist()]


def test_batches_do_not_share_memory_with_the_store(data: PackedGraphs) -> None:
    before = data[0]
    (batch,) = PackedLoader(data, 50)
    for name in ("x", "edge_type", "y"):
        batch[name].fill_(3)
    batch.edge_index.as_tensor().zero_()
    assert torch.equal(data[0].x, before.x)
    assert torch.equal(torch.nan_to_num(data[0].y), torch.nan_to_num(before.y))
    assert torch.equal(data[0].edge_index, before.edge_index)


def test_batches_are_plain_data_for_any_model(data: PackedGraphs) -> None:
    """A layer sees the same graph, whether its edges come sorted with pointers or as a plain tensor."""
    conv = WLKernelConv(3, 4, num_edge_types=5).double()
    for batch in PackedLoader(data, 16, shuffle=True):
        assert type(batch) is Data
        x = batch.x.double()
        plain = conv(x, batch.edge_index.as_tensor(), edge_type=batch.edge_type)
        torch.testing.assert_close(conv(x, batch.edge_index, edge_type=batch.edge_type), plain)
        moved = batch.clone().to("cpu")
        torch.testing.assert_close(conv(x, moved.edge_index, edge_type=moved.edge_type), plain)


def test_inference_mode(data: PackedGraphs) -> None:
    with torch.inference_mode():
        for i, batch in enumerate(PackedLoader(data, 25)):
            assert torch.equal(batch.y.isnan(), data.y[25 * i : 25 * i + 25].isnan())


def test_options_that_do_not_fit(data: PackedGraphs) -> None:
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        PackedLoader(data, batch_size=0)
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got '4'"):
        PackedLoader(data, batch_size="4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        PackedLoader(data, shuffle=True, seed=-1)
    with pytest.raises(ValueError, match="either shuffle=True or resample"):
        PackedLoader(data, shuffle=True, resample=lambda epoch: np.arange(3))
    view = data[:3]
    view.transform = lambda graph: graph
    with pytest.raises(ValueError, match="data has a transform, which is not applied here"):
        PackedLoader(view)


@pytest.mark.parametrize("batch_size", [3, 40])
def test_quotients_are_those_of_the_batches(data: PackedGraphs, batch_size: int) -> None:
    """By the colours of the whole set, or of a batch alone: the same classes, numbered as they occur."""
    view = data[np.array([5, 1, 1, 0, 9, 3, 2])]
    for batch in PackedLoader(view, batch_size, quotient=2):
        source, target = batch.edge_index.as_tensor().numpy()
        _, label = np.unique(batch.x.numpy(), axis=0, return_inverse=True)
        types = batch.edge_type.numpy()
        expected = wl_quotient(
            wl_colours(label.reshape(-1), source, target, 2, types),
            source,
            batch.edge_index._indptr.numpy(),
            types,
            batch.batch.numpy(),
            batch.ptr.numel() - 1,
        )
        came = batch.quotient
        assert torch.equal(came.node, expected.node)
        for ours, theirs in zip(came.levels, expected.levels, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        assert torch.equal(came.colour, expected.colour)
        assert torch.equal(came.multiplicity, expected.multiplicity)
    assert "quotient" not in next(iter(PackedLoader(view, batch_size)))


@pytest.mark.parametrize("batch_size", [1, 7])
def test_features_of_whole_graphs(data: PackedGraphs, batch_size: int) -> None:
    graph_x = np.random.default_rng(0).integers(0, 256, (50, 11))
    arrays = replace(data.arrays, graph_x=torch.from_numpy(graph_x.astype(np.uint8)))
    data = PackedGraphs(arrays, replace(data.description, num_graph_values=11))
    order = np.random.default_rng(1).permutation(50)[:40]
    batches = list(PackedLoader(data[order], batch_size, quotient=1))
    assert all(batch.graph_x.dtype == torch.uint8 for batch in batches)
    assert [len(batch.graph_x) for batch in batches] == [batch.y.size(0) for batch in batches]
    np.testing.assert_array_equal(np.concatenate([batch.graph_x for batch in batches]), graph_x[order])
    batches[0].graph_x.fill_(1)
    np.testing.assert_array_equal(data.arrays.graph_x.numpy(), graph_x)


def test_other_containers(data: PackedGraphs) -> None:
    with pytest.raises(
        TypeError, match=r"data must be PackedGraphs, as of load_molecules, .* got list of str"
    ):
        PackedLoader(data.smiles)  # type: ignore[arg-type]
    assert list(PackedLoader([])) == []


def test_quotient_out_of_range(data: PackedGraphs) -> None:
    with pytest.raises(ValueError, match="quotient is a number of iterations or None, got -1"):
        PackedLoader(data, quotient=-1)


@pytest.mark.filterwarnings("ignore:Sparse ")  # PyG's
def test_loaders_and_transforms_of_pyg_take_single_graphs() -> None:
    """A batch with one edge, in one direction, and one without any."""
    edge = PackedGraphs.from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), Data(num_nodes=1)])
    assert next(iter(DataLoader(edge, batch_size=2))).edge_index.tolist() == [[0], [1]]
    assert next(iter(DataLoader(edge[1:], batch_size=1))).edge_index.shape == (2, 0)
    molecule = random_packed(1)[0]
    for transform in (ToSparseTensor(), LineGraph(), RemoveDuplicatedEdges()):
        transform(molecule.clone())
