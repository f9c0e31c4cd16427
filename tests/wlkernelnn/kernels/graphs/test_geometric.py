from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from torch_geometric.data import Data

from tests.checks.kernels import assert_slopes, gram, product_matrix
from tests.inputs.strategies import graphs
from wlkernelnn.kernels import RandomWalkKernel, WLKernel
from wlkernelnn.kernels.graphs import geometric as geometric_module
from wlkernelnn.testing import assert_psd

KINDS = {
    "plain": {},
    "weights": {"weighted": True},
    "features": {"num_features": 2},
    "labels": {"num_labels": 2},
    "types": {"num_features": 2, "num_edge_types": 2},
    "attr": {"num_labels": 2, "edge_dim": 2},
}


def radius(g: Data, h: Data) -> float:
    matrix = product_matrix(g, h)
    return float(abs(np.linalg.eigvals(matrix)).max()) if matrix.size else 0.0


def closed_form(g: Data, h: Data, decay: float) -> float:
    matrix = product_matrix(g, h)
    return float(np.linalg.inv(np.eye(len(matrix)) - decay * matrix).sum())


@pytest.mark.halved
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("share", [0.2, 0.97])
def test_closed_form_and_its_bound(options: dict[str, object], share: float) -> None:
    """1ᵀ(I − λ A×D)⁻¹1 below λ = 1/ρ; an error that says 1/ρ there and above."""

    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(st.lists(graphs(max_nodes=4, max_edges=8, **options), min_size=1, max_size=3))  # type: ignore[arg-type]
    def check(some: list[Data]) -> None:
        rho = max(radius(g, h) for g in some for h in some)
        assume(rho == 0 or rho > 1e-3)  # eigenvalues of a nilpotent matrix come out as small numbers
        decay = share / rho if rho else 3.0
        expected = gram(some, some, lambda g, h: closed_form(g, h, decay))
        scale = max(1.0, abs(expected).max())
        kernel = RandomWalkKernel(None, decay=decay)
        np.testing.assert_allclose(kernel(some) / scale, expected / scale, rtol=0, atol=1e-9)
        np.testing.assert_allclose(kernel(some[:1], some) / scale, expected[:1] / scale, rtol=0, atol=1e-9)
        np.testing.assert_allclose(kernel.diag(some) / scale, expected.diagonal() / scale, rtol=0, atol=1e-9)
        for factor in (1.0, 1.5) if rho else ():
            with pytest.raises(ValueError, match=r"below 1/ρ = [0-9.]+") as error:
                RandomWalkKernel(None, decay=factor / rho)(some)
            if factor == 1.0:
                assert f"1/ρ = {1 / rho:.4g}"[:8] in str(error.value)

    check()


@pytest.mark.parametrize("directed", [False, True])
def test_sum_of_equation_5_over_all_lengths(directed: bool) -> None:
    """Where all nodes are alike."""
    generator = torch.Generator().manual_seed(0)
    some = []
    for n in (3, 5):
        edges = torch.randint(n, (2, 6), generator=generator)
        some.append(Data(edge_index=edges if directed else torch.cat([edges, edges.flip(0)], 1), num_nodes=n))
    decay = 0.3 / max(radius(g, g) for g in some)
    series = RandomWalkKernel(60, decay=decay, all_lengths=True)(some)
    np.testing.assert_allclose(RandomWalkKernel(None, decay=decay)(some), series, rtol=1e-12)


@pytest.mark.parametrize("features", [None, torch.ones(40, 1)], ids=["plain", "features"])
def test_acyclic_graphs_take_any_decay(
    features: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path longer than the steps after which walks are given up: its sum is finite for every λ."""
    monkeypatch.setattr(geometric_module, "_STEPS", 30)
    path = torch.stack([torch.arange(39), torch.arange(1, 40)])
    graph = Data(edge_index=path, num_nodes=40)
    if features is not None:
        graph.x = features
    # Two walks of k steps on a path of 40 nodes: (40 − k)² pairs.
    expected = sum(1.1**k * (40 - k) ** 2 for k in range(40))
    assert RandomWalkKernel(None, decay=1.1)([graph])[0, 0] == pytest.approx(expected, rel=1e-9)


def test_labels_can_cut_every_cycle() -> None:
    """Two rings whose labels match nowhere twice in a row: ρ is that of the product, not of the graphs."""
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    first = Data(x=torch.tensor([[0], [0], [1]]), edge_index=ring)
    second = Data(x=torch.tensor([[0], [2], [2]]), edge_index=ring)
    value = RandomWalkKernel(None, decay=5.0)([first], [second])[0, 0]
    assert value == pytest.approx(closed_form(first, second, 5.0))
    with pytest.raises(ValueError, match="1/ρ = 1 only"):
        RandomWalkKernel(None, decay=5.0)([first])


def test_negative_similarities_count_with_their_sign() -> None:
    """ρ of the matrix itself: cancelling walks allow a λ that their absolute values do not."""
    graph = Data(x=torch.tensor([[1.0], [1.0]]), edge_index=torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]))
    other = Data(x=torch.tensor([[1.0], [-1.0]]), edge_index=graph.edge_index)
    assert radius(graph, other) < 1e-6
    value = RandomWalkKernel(None, decay=0.9)([graph], [other])[0, 0]
    assert value == pytest.approx(closed_form(graph, other, 0.9))


@pytest.mark.parametrize("codes", [False, True])
def test_slopes(codes: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    some = []
    for n in (3, 4):
        edges = torch.randint(n, (2, 5), generator=generator)
        graph = Data(edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=n)
        if codes:
            graph.x = torch.randint(2, (n, 1), generator=generator)
        some.append(graph)
    for normalize in (False, True):
        assert_slopes(RandomWalkKernel(None, decay=0.02, normalize=normalize), some)
        assert_psd(RandomWalkKernel(None, decay=0.02, normalize=normalize), some)


@pytest.mark.parametrize("normalize", [False, True], ids=["of its own", "of a sum over iterations"])
def test_normalising_needs_both_diagonals(normalize: bool) -> None:
    """K(G, H) may exist where K(G, G) does not: then it cannot be normalised."""
    clique = torch.ones(5, 5).fill_diagonal_(0).nonzero().t()
    X = [Data(edge_index=clique, num_nodes=5)]
    Y = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)]
    kernel = RandomWalkKernel(None, decay=0.2)
    assert kernel(X, Y)[0, 0] == pytest.approx(closed_form(X[0], Y[0], 0.2))
    normal = WLKernel(kernel, 0, normalize=True) if normalize else clone(kernel).set_params(normalize=True)
    for sides in ((X, Y), (Y, X)):
        with pytest.raises(ValueError, match=r"below 1/ρ = 0\.0625 only"):
            normal(*sides)


def test_parts_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    some = [
        Data(
            x=torch.randint(2, (n, 1), generator=generator),
            edge_index=torch.randint(n, (2, 2 * n), generator=generator),
        )
        for n in (3, 1, 5, 2, 4)
    ]
    kernel = RandomWalkKernel(None, decay=0.05)
    whole = kernel(some)
    monkeypatch.setattr(geometric_module, "_NODES", 4)
    monkeypatch.setattr(RandomWalkKernel, "_budget", 6)
    np.testing.assert_allclose(kernel(some), whole, rtol=1e-13)


def test_grakel_agrees(data_root) -> None:
    """GraKeL's closed form on molecules as plain graphs."""
    grakel = pytest.importorskip("grakel")
    from wlkernelnn.datasets import load_molecules

    molecules = load_molecules("freesolv", root=data_root)[:25]
    plain = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in molecules]
    matrices = []
    for graph in plain:
        matrix = np.zeros(2 * [graph.num_nodes])
        matrix[graph.edge_index[1], graph.edge_index[0]] = 1
        matrices.append([matrix])
    theirs = grakel.RandomWalk(lamda=0.05, method_type="baseline").fit_transform(matrices)
    np.testing.assert_allclose(RandomWalkKernel(None, decay=0.05)(plain), theirs, rtol=1e-10)


def test_the_last_pair_of_a_walk_has_weight_1() -> None:
    """4 pairs of nodes begin, and one walk of two pairs has the similarity of its first."""
    step = torch.tensor([[0], [1]])
    ones = [Data(x=torch.tensor([[1], [1]]), edge_index=step)]
    for labels, expected in (([1, 0], 4.5), ([0, 1], 4.0)):
        graph = Data(x=torch.tensor(labels)[:, None], edge_index=step)
        assert RandomWalkKernel(None, decay=0.5)([graph], ones) == expected
