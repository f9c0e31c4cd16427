from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from torch_geometric.data import Data

from tests.checks.pairwise import pairwise
from tests.inputs.graphs import random_packed
from wlkernelnn.kernels import (
    DeepGraphKernel,
    MoleculeKernel,
    PathKernel,
    RandomWalkKernel,
    StringKernel,
    StructureKernel,
    objects,
)
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.wl import WLKernel, WLSide
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.ops.colours import wl_colours_naive

BASES: dict[str, StructureKernel] = {
    "walks": RandomWalkKernel(3, decay=0.3, all_lengths=True),
    "normalized walks": RandomWalkKernel(2, decay=0.3, all_lengths=True, normalize=True),
    "geometric": RandomWalkKernel(None, decay=1e-3),
    "deep": DeepGraphKernel(1, 2, decay=0.3),
}


def with_features(num_graphs: int, codes: bool, seed: int = 0) -> list[Data]:
    """Random graphs with float features (some nodes have the same) or codes, and edge types."""
    graphs = [graph.clone() for graph in random_packed(num_graphs, seed=seed, max_nodes=6)]
    table = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for graph in graphs:
        graph.x = graph.x[:, :1].long() % 4 if codes else table[graph.x[:, 0].long() % 4]
    return graphs


def relabelled(graphs: Sequence[Data], h: int, with_edges: bool) -> list[list[Data]]:
    """The graphs after 0 … h iterations, by the definition."""
    flat = flat_graphs(graphs)
    edges = edge_labels(flat) if with_edges else None
    rounds = wl_colours_naive(node_labels(flat), flat.source, flat.target, h, edges)
    result = [list(graphs)]
    for colours in rounds[1:]:
        parts = np.split(colours, flat.node_ptr[1:-1])
        result.append([])
        for graph, part in zip(graphs, parts, strict=True):
            new = graph.clone()
            new.x = torch.from_numpy(part)[:, None]
            result[-1].append(new)
    return result


@pairwise(name=[*BASES], codes=[True, False], with_edges=[True, False])
def test_equals_the_sum_over_relabelled_graphs(name: str, codes: bool, with_edges: bool) -> None:
    graphs = with_features(8, codes)
    base = BASES[name]
    kernel = WLKernel(base, 2, edge_labels=with_edges)
    expected = sum(base(some) for some in relabelled(graphs, 2, with_edges))
    np.testing.assert_allclose(kernel(graphs), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(graphs), np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(kernel(graphs[:3], graphs[3:]), expected[:3, 3:], rtol=1e-12)


@pytest.mark.parametrize(("h", "with_edges"), [(0, True), (1, False), (3, True)])
def test_of_single_nodes_is_the_subtree_kernel(h: int, with_edges: bool) -> None:
    graphs = random_packed(20, seed=h)
    kernel = WLKernel(RandomWalkKernel(walk_length=1), h, edge_labels=with_edges)
    np.testing.assert_array_equal(kernel(graphs), WLSubtreeKernel(h, edge_labels=with_edges)(graphs))
    np.testing.assert_array_equal(
        kernel.diag(graphs), WLSubtreeKernel(h, edge_labels=with_edges).diag(graphs)
    )


def test_no_iterations_is_the_base_kernel() -> None:
    graphs = with_features(6, codes=False)
    base = RandomWalkKernel(2, decay=0.5)
    np.testing.assert_array_equal(WLKernel(base, 0)(graphs), base(graphs))


def test_normalized() -> None:
    graphs = with_features(8, codes=True)
    gram = WLKernel(BASES["walks"], 2)(graphs)
    kernel = WLKernel(BASES["walks"], 2, normalize=True)
    scale = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    np.testing.assert_allclose(kernel(graphs), gram / np.outer(scale, scale), rtol=1e-12)
    np.testing.assert_array_equal(kernel.diag(graphs), np.diag(gram) > 0)


@pytest.mark.parametrize("name", BASES)
def test_small_blocks_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Floats first, then colours: the base kernel changes from pairs of nodes to counts.
    graphs = with_features(9, codes=False)
    kernel = WLKernel(BASES[name], 2, normalize=True)
    gram = kernel(graphs)
    monkeypatch.setattr(type(BASES[name]), "_budget", 7)
    monkeypatch.setattr(type(BASES[name]), "_diag_budget", 5)
    np.testing.assert_allclose(kernel(graphs), gram, rtol=1e-12)


def test_parts_are_cut_for_the_largest_round() -> None:
    # A base kernel may count in one round (all sizes 1) and go by pairs of nodes in another.
    rounds = SimpleNamespace(sizes=np.array([1, 1])), SimpleNamespace(sizes=np.array([5, 0]))
    np.testing.assert_array_equal(WLSide(rounds).sizes, [5, 1])


@pytest.mark.parametrize(("name", "normalize"), [*zip(BASES, [False, True] * 2, strict=True)])
def test_gradient(name: str, normalize: bool) -> None:
    graphs = with_features(5, codes=False)
    kernel = WLKernel(clone(BASES[name]), 1, normalize=normalize)
    values, gradient = kernel(graphs, eval_gradient=True)
    np.testing.assert_array_equal(values, kernel(graphs))
    weight = np.random.default_rng(0).normal(size=values.shape)

    def value(theta: np.ndarray) -> float:
        return float((weight * kernel.clone_with_theta(theta)(graphs)).sum())

    def slope(theta: np.ndarray) -> np.ndarray:
        return (weight[:, :, None] * kernel.clone_with_theta(theta)(graphs, eval_gradient=True)[1]).sum(
            (0, 1)
        )

    assert gradient.shape == (5, 5, 1)
    assert abs(gradient).max() > 1e-3
    assert check_grad(value, slope, kernel.theta) < 1e-5 * max(1.0, abs(slope(kernel.theta)).max())


def test_hyperparameters_are_those_of_the_base() -> None:
    kernel = WLKernel(RandomWalkKernel(2, decay=0.5, decay_bounds=(0.1, 0.9)), 1)
    assert [parameter.name for parameter in kernel.hyperparameters] == ["base__decay"]
    np.testing.assert_allclose(kernel.theta, [np.log(0.5)])
    np.testing.assert_allclose(kernel.bounds, np.log([[0.1, 0.9]]))
    assert kernel.get_params()["base__decay"] == 0.5
    assert "base__decay" not in kernel.get_params(deep=False)

    other = clone(kernel)
    assert other == kernel
    assert other.base is not kernel.base
    other.set_params(base__decay=0.2, num_iterations=2)
    assert (other.base.decay, other.num_iterations, kernel.base.decay) == (0.2, 2, 0.5)
    old = other.base
    other.set_params(base__decay=0.3, base=RandomWalkKernel(3))  # as in a grid over both
    assert (other.base.walk_length, other.base.decay, old.decay) == (3, 0.3, 0.2)
    other.theta = np.log([0.7])
    assert other.base.decay == pytest.approx(0.7)
    assert repr(kernel).startswith("WLKernel(base=RandomWalkKernel(walk_length=2, decay=0.5")

    fixed = WLKernel(RandomWalkKernel(2, decay_bounds="fixed"), 1)
    assert fixed.n_dims == 0
    graphs = with_features(3, codes=True)
    assert fixed(graphs, eval_gradient=True)[1].shape == (3, 3, 0)
    subtree = WLKernel(WLSubtreeKernel(1), 1)
    assert subtree(graphs, eval_gradient=True)[1].shape == (3, 3, 0)


@pytest.mark.filterwarnings("ignore:The optimal value")
def test_in_a_gaussian_process() -> None:
    graphs = objects(with_features(10, codes=True)[2:])
    y = np.array([graph.num_nodes for graph in graphs], dtype=np.float64)
    kernel = WLKernel(RandomWalkKernel(2, decay=0.5, all_lengths=True, normalize=True), 1)
    model = GaussianProcessRegressor(kernel, alpha=0.1).fit(graphs, y)
    assert model.kernel_.base.decay != 0.5
    fixed = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(graphs, y)
    assert model.log_marginal_likelihood_value_ > fixed.log_marginal_likelihood_value_


@pytest.mark.parametrize(
    ("base", "num_iterations", "error", "message"),
    [
        ("rbf", 1, TypeError, "base must be a graph kernel of this package, got 'rbf'"),
        (RandomWalkKernel(), -1, ValueError, "num_iterations must be an integer of at least 0, got -1"),
        (RandomWalkKernel(0), 1, ValueError, "walk_length must be an integer of at least 1"),
        (StringKernel(), 1, TypeError, r"base must be a graph kernel of this package, got StringKernel\("),
        (MoleculeKernel(), 1, TypeError, r"base must take any colours of nodes, got MoleculeKernel\("),
        (
            PathKernel(3, coding="element"),
            1,
            TypeError,
            "base must take any colours of nodes, got PathKernel",
        ),
    ],
)
def test_bad_arguments(base: Any, num_iterations: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        WLKernel(base, num_iterations)(with_features(3, codes=True))


def test_edge_labels_are_seen_or_ignored() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=edges, num_nodes=2, edge_type=torch.tensor([t, t])) for t in (0, 5)]
    for with_edges, gram in ((True, [[8, 4], [4, 8]]), (False, [[8, 8], [8, 8]])):
        kernel = WLKernel(RandomWalkKernel(walk_length=1), 1, edge_labels=with_edges)
        np.testing.assert_array_equal(kernel(graphs), gram)
