from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from tests.checks.equations import walks
from tests.checks.kernels import assert_slopes, similarities
from tests.checks.pairwise import pairwise
from tests.inputs.strategies import graphs
from wlkernelnn.kernels import ArcCosine, Composition, DeepGraphKernel, Inverse, Polynomial, RandomWalkKernel
from wlkernelnn.kernels.composition import Series, get_composition
from wlkernelnn.testing import assert_psd

COMPOSITIONS = ["identity", Polynomial(2, 0.5), Inverse(1e4), "exp", "arccos0", "arccos1"]


def small(num_nodes: int = 4, num_edges: int = 6, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=0.4 * torch.randn(num_nodes, 2, dtype=torch.float64, generator=generator),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_type=torch.randint(2, (num_edges,), generator=generator),
        edge_weight=torch.rand(num_edges, dtype=torch.float64, generator=generator),
    )


SOME = [small(), small(1, 2, 1), small(3, 0, 2), small(5, 8, 3)]


def union(some: list[Data]) -> Data:
    """All graphs as one, so that k(v, v) of every node is at hand."""
    shifts = np.cumsum([0, *(graph.num_nodes for graph in some)])
    joined = Data(x=torch.cat([graph.x for graph in some]))
    joined.edge_index = torch.cat([g.edge_index + int(s) for g, s in zip(some, shifts, strict=False)], dim=1)
    for name in ("edge_type", "edge_weight"):
        joined[name] = torch.cat([graph[name] for graph in some])
    return joined


def literal(kernel: DeepGraphKernel, graph: Data) -> list[np.ndarray]:
    """K_loc^(l,j) of all pairs of nodes of one graph, l = 1 … L, j = 1 … n in turn, then K_σ of the last."""
    nodes, edges = similarities(graph, graph)
    composition = get_composition(kernel.composition)

    def composed(k: np.ndarray) -> np.ndarray:
        return np.array(
            [
                [composition(k[[v]][:, [w]], k[[v]][:, [v]], k[[w]][:, [w]])[0, 0] for w in range(len(k))]
                for v in range(len(k))
            ]
        )

    def begins(length: int) -> np.ndarray:
        ends = np.zeros(graph.num_nodes, dtype=bool)
        for along, _ in walks(graph.edge_index, graph.num_nodes, length):
            ends[along[-1]] = True
        return np.outer(ends, ends) if kernel.walks_only else np.ones_like(nodes)

    states, base = [], nodes
    for _ in range(kernel.num_layers):
        k = base
        states.append(k)
        for j in range(1, kernel.walk_length):
            sent, moved = composed(k) * begins(j), np.zeros_like(k)
            for e, (u, v) in enumerate(graph.edge_index.t().tolist()):
                for f, (s, t) in enumerate(graph.edge_index.t().tolist()):
                    moved[v, t] += edges[e, f] * sent[u, s]
            moved = kernel.decay * moved
            k = (base * moved if kernel.compose == "mul" else base + moved) * begins(j + 1)
            states.append(k)
        base = composed(k)
    return [*states, base]


@pairwise(
    composition=COMPOSITIONS, compose=["mul", "add"], shape=[(1, 3), (2, 2), (3, 1)], walks_only=[False, True]
)
def test_section_3_3(
    composition: str | Composition, compose: str, shape: tuple[int, int], walks_only: bool
) -> None:
    num_layers, walk_length = shape
    kernel = DeepGraphKernel(num_layers, walk_length, 0.3, compose, composition, walks_only)
    joined = union(SOME)
    *states, last = literal(kernel, joined)
    owner = np.repeat(np.arange(len(SOME)), [graph.num_nodes for graph in SOME])
    pool = (np.arange(len(SOME))[:, None] == owner).astype(float)
    # Angles of nearly parallel vectors know half the digits.
    tolerance = 1e-7 if composition == "arccos0" else 1e-11
    np.testing.assert_allclose(kernel(SOME), pool @ last @ pool.T, rtol=tolerance)
    np.testing.assert_allclose(kernel(SOME[:2], SOME[1:]), (pool @ last @ pool.T)[:2, 1:], rtol=tolerance)
    np.testing.assert_allclose(kernel.diag(SOME), np.diagonal(pool @ last @ pool.T), rtol=tolerance)
    for number, state in enumerate(states):
        layer, j = divmod(number, walk_length)
        local = kernel.local(SOME[0], SOME[3], layer + 1, j + 1)
        np.testing.assert_allclose(
            local, state[np.ix_(owner == 0, owner == 3)], rtol=tolerance, atol=tolerance
        )
    assert_psd(kernel, SOME, rtol=tolerance)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graphs(num_features=2, num_edge_types=2), graphs(num_features=2, num_edge_types=2))
def test_one_layer_without_activation_is_the_random_walk_kernel(g: Data, h: Data) -> None:
    deep = DeepGraphKernel(1, 3, 0.4, "mul", "identity")
    walk = RandomWalkKernel(3, 0.4)
    np.testing.assert_allclose(deep([g, h]), walk([g, h]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(deep.local(g, h), walk.local(g, h), rtol=1e-12, atol=1e-12)


@pairwise(
    composition=["identity", Polynomial(2, 0.5), Inverse(1e3), "exp", "arccos1"],
    compose=["mul", "add"],
    normalize=[False, True],
)
def test_slopes(composition: str | Composition, compose: str, normalize: bool) -> None:
    kernel = DeepGraphKernel(2, 2, 0.3, compose, composition, normalize=normalize)
    assert_slopes(kernel, SOME, rtol=1e-5)


def test_slopes_of_angles() -> None:
    """Between nodes that are not parallel: a slope of K_0 has no bound where they become so."""
    kernel = DeepGraphKernel(1, 2, 0.3, "add", ArcCosine(0))
    _, slopes = kernel([SOME[0], SOME[3]], eval_gradient=True)
    up, down = (
        DeepGraphKernel(1, 2, 0.3 * np.exp(s), "add", ArcCosine(0))([SOME[0], SOME[3]]) for s in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(slopes[0, 1, 0], ((up - down) / 2e-5)[0, 1], rtol=1e-5)
    assert np.isfinite(slopes).all()


def test_parts_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = DeepGraphKernel(2, 2, 0.3, composition="arccos1", normalize=True)
    whole, slopes = kernel(SOME, eval_gradient=True)
    monkeypatch.setattr(DeepGraphKernel, "_budget", 4)
    monkeypatch.setattr(DeepGraphKernel, "_diag_budget", 2)
    again, slopes_again = kernel(SOME, eval_gradient=True)
    np.testing.assert_allclose(again, whole, rtol=1e-12)
    np.testing.assert_allclose(slopes_again, slopes, rtol=1e-9, atol=1e-12)


def test_a_side_without_graphs() -> None:
    assert DeepGraphKernel()(SOME, []).shape == (4, 0)
    assert DeepGraphKernel()([], SOME).shape == (0, 4)
    assert DeepGraphKernel()([]).shape == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"walk_length": 0}, "walk_length must be an integer of at least 1, got 0"),
        ({"compose": "max"}, "compose must be"),
        ({"decay": -1.0}, "decay must be a number of at least 0"),
        ({"composition": "tanh"}, "got 'tanh'"),
        ({"composition": "inverse", "decay": 9.0}, r"use Inverse\(scale="),
        ({"composition": "exp", "num_layers": 4, "decay": 9.0}, "grows beyond the range of float64"),
    ],
    ids=str,
)
def test_arguments_out_of_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepGraphKernel(**options)(SOME)  # type: ignore[arg-type]


def test_local_states_that_are_not_there() -> None:
    for layer, j in ((0, 1), (3, 1), (1, 3)):
        with pytest.raises(ValueError, match=f"got {layer} and {j}"):
            DeepGraphKernel(2, 2).local(SOME[0], SOME[1], layer, j)


def test_compositions_of_power_series_know_their_type() -> None:
    assert isinstance(get_composition("inverse"), Series)
    assert not isinstance(get_composition("arccos1"), Series)


def test_nodes_without_a_walk_send_nothing() -> None:
    """0 → 1 → 2 ← 3: of walks of 3 nodes, 2 hears of 1, where one of 2 nodes ends, and not of 3."""
    graph = Data(edge_index=torch.tensor([[0, 1, 3], [1, 2, 2]]), num_nodes=4)
    kernel = DeepGraphKernel(1, 3, composition="polynomial", walks_only=True)
    # (1 + k)² of all pairs: k = 25 of (2, 2), and 0 of the other 15.
    assert kernel([graph]).tolist() == [[15 + 26.0**2]]
