from __future__ import annotations

from collections import Counter
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from torch_geometric.data import Data

from tests.inputs.graphs import GRAPHS, random_packed
from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu
from wlkernelnn.kernels import objects
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.ops.colours import wl_colours_naive


def plain(graph: tuple[torch.Tensor, int, int]) -> Data:
    edge_index, num_nodes, _ = graph
    return Data(edge_index=edge_index, num_nodes=num_nodes)


def path(*labels: float, types: list[int] | None = None) -> Data:
    """An undirected path with one label per node and one type per edge."""
    n = len(labels)
    forth = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    types = [0] * (n - 1) if types is None else types
    return Data(
        x=torch.tensor(labels)[:, None],
        edge_index=torch.cat([forth, forth.flip(0)], dim=1),
        edge_type=torch.tensor(types * 2, dtype=torch.int64),
    )


def brute_force(graphs: list[Data] | PackedGraphs, h: int, with_edges: bool = True) -> np.ndarray:
    """The definition: pairs of equal colours, iteration by iteration."""
    flat = flat_graphs(graphs)
    edges = edge_labels(flat) if with_edges else None
    gram = np.zeros((len(flat), len(flat)))
    for colours in wl_colours_naive(node_labels(flat), flat.source, flat.target, h, edges):
        counts = [Counter(part.tolist()) for part in np.split(colours, flat.node_ptr[1:-1])]
        gram += [[sum(a[c] * b[c] for c in a) for b in counts] for a in counts]
    return gram


@pytest.mark.parametrize(("h", "with_edges"), [(0, True), (1, False), (3, True)])
def test_equals_the_definition(h: int, with_edges: bool) -> None:
    graphs = random_packed(25, seed=h)
    np.testing.assert_array_equal(
        WLSubtreeKernel(h, edge_labels=with_edges)(graphs), brute_force(graphs, h, with_edges)
    )


def test_graphs_without_labels() -> None:
    graphs = [plain(graph) for graph in GRAPHS.values()]
    np.testing.assert_array_equal(WLSubtreeKernel(2)(graphs), brute_force(graphs, 2))


def test_by_hand() -> None:
    a, b, c = path(1, 1, 2), path(1, 1), path(1, 1, types=[5])
    # Nodes: 1, 1, 2. After one round: 1 beside 1, 1 beside 1 and 2, 2 beside 1.
    kernel = WLSubtreeKernel(1)
    np.testing.assert_array_equal(kernel([a, b, c]), [[5 + 3, 4 + 2, 4], [6, 4 + 4, 4], [4, 4, 8]])
    np.testing.assert_array_equal(WLSubtreeKernel(1, edge_labels=False)([b, c]), [[8, 8], [8, 8]])


def test_equal_rows_of_floats_are_alike() -> None:
    gram = WLSubtreeKernel(0)([path(0.1, 0.2), path(0.2, 0.2), path(0.1 + 1e-7, 0.3)])
    np.testing.assert_array_equal(gram, [[2, 2, 0], [2, 4, 0], [0, 0, 2]])


def test_attributes_and_weights_of_edges_are_labels() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    for name in ("edge_attr", "edge_weight"):
        graphs = [
            Data(edge_index=edges, num_nodes=2, **{name: torch.tensor([w, w])}) for w in (1.0, 1.0, 2.0)
        ]
        np.testing.assert_array_equal(WLSubtreeKernel(1)(graphs), [[8, 8, 4], [8, 8, 4], [4, 4, 8]])


def test_two_sides_share_their_colours() -> None:
    graphs = random_packed(30)
    kernel = WLSubtreeKernel(2)
    gram = kernel(graphs)
    np.testing.assert_array_equal(kernel(graphs[:12], graphs[12:]), gram[:12, 12:])
    np.testing.assert_array_equal(kernel(graphs[:0], graphs).shape, (0, 30))
    np.testing.assert_array_equal(kernel.diag(graphs), np.diag(gram))


def test_blocks_are_parts_of_the_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graphs = random_packed(30)
    gram = WLSubtreeKernel(2)(graphs)
    monkeypatch.setattr(WLSubtreeKernel, "_budget", 7)
    file = np.memmap(tmp_path / "gram", dtype=np.float32, mode="w+", shape=(30, 30))
    assert WLSubtreeKernel(2).gram(graphs, out=file, n_jobs=2) is file
    np.testing.assert_array_equal(file, gram)


def test_normalized() -> None:
    graphs = random_packed(20)
    gram = WLSubtreeKernel(2)(graphs)
    kernel = WLSubtreeKernel(2, normalize=True)
    scale = np.sqrt(np.diag(gram))
    scale[1] = 1.0  # the graph without nodes
    np.testing.assert_allclose(kernel(graphs), gram / np.outer(scale, scale), rtol=1e-14)
    np.testing.assert_array_equal(kernel.diag(graphs), np.arange(20) != 1)


@pytest.mark.parametrize("normalize", [False, True])
def test_features(normalize: bool) -> None:
    graphs = random_packed(20)
    kernel = WLSubtreeKernel(3, normalize=normalize)
    features = kernel.features(graphs)
    assert features.format == "csr"
    np.testing.assert_allclose((features @ features.T).toarray(), kernel(graphs), rtol=1e-14)
    # Nodes are counted once in each of the iterations 0 … 3, whose columns stand one after the other.
    if not normalize:
        np.testing.assert_array_equal(features.sum(1), 4 * flat_graphs(graphs).sizes)
        first = WLSubtreeKernel(0).features(graphs).toarray()
        np.testing.assert_array_equal(features.toarray()[:, : first.shape[1]], first)


def test_every_form_of_graphs() -> None:
    # Methanol and ethanol: CH3 and OH are alike, then their neighbours differ.
    np.testing.assert_array_equal(WLSubtreeKernel(1)(["CO", "CCO"]), [[4, 2], [2, 6]])
    graphs = [networkx.path_graph(3), networkx.path_graph(2)]
    np.testing.assert_array_equal(WLSubtreeKernel(1)(graphs), [[9 + 5, 6 + 4], [10, 8]])


def test_scikit_learn_protocol() -> None:
    kernel = WLSubtreeKernel(2, normalize=True)
    assert clone(kernel) == kernel
    assert repr(kernel) == (
        "WLSubtreeKernel(num_iterations=2, edge_labels=True, normalize=True, coding=None)"
    )
    assert kernel.n_dims == 0
    graphs = random_packed(12)[[0, *range(2, 12)]]
    values, gradient = kernel(graphs, eval_gradient=True)
    np.testing.assert_array_equal(values, kernel(graphs))
    assert gradient.shape == (11, 11, 0)
    y = np.arange(11.0)
    model = GaussianProcessRegressor(kernel, alpha=0.1).fit(objects(list(graphs)), y)
    expected = kernel(graphs) @ np.linalg.solve(kernel(graphs) + 0.1 * np.eye(11), y)
    np.testing.assert_allclose(model.predict(objects(list(graphs))), expected, rtol=1e-9)


def test_negative_number_of_iterations() -> None:
    with pytest.raises(ValueError, match="num_iterations must be an integer of at least 0, got -1"):
        WLSubtreeKernel(-1)([path(1, 2)])


@pytest.mark.parametrize(
    ("name", "size", "h"),
    [("MUTAG", None, 5), ("NCI1", 600, 4), pytest.param("cep", 200, 4, marks=pytest.mark.slow)],
)
def test_equals_grakel_bitwise(name: str, size: int | None, h: int, data_root: Path) -> None:
    pytest.importorskip("grakel")
    from grakel.kernels import VertexHistogram, WeisfeilerLehman

    from wlkernelnn.bench.speed.kernels import grakel_graphs

    data = load_molecules(name, root=data_root) if name == "cep" else load_tu(name, root=data_root)
    some = data[np.random.default_rng(0).permutation(len(data))[:size]]
    theirs = WeisfeilerLehman(n_iter=h, base_graph_kernel=VertexHistogram).fit_transform(grakel_graphs(some))
    ours = WLSubtreeKernel(h, edge_labels=False)(some)
    assert ours.dtype == theirs.dtype
    assert ours.tobytes() == theirs.tobytes()
