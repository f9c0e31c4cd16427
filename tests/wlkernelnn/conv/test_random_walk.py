from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.checks.equations import randomize, step_factors, sums_over_walks, walk_states
from tests.checks.pairwise import pairwise
from tests.inputs.graphs import EDGES, GRAPHS, Edges
from wlkernelnn import RandomWalkKernelConv

D, K, NUM_TYPES, EDGE_DIM = 3, 5, 4, 2

ON_GRAPHS = pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)


def make(**options: object) -> RandomWalkKernelConv:
    conv = RandomWalkKernelConv(D, K, **options)  # type: ignore[arg-type]
    randomize(conv)
    return conv


def features(edges: Edges) -> Tensor:
    return torch.randn(edges.num_sources, D, dtype=torch.float64)


def weights_of(conv: RandomWalkKernelConv) -> list[Tensor]:
    return [lin.weight for lin in conv.lins]


@ON_GRAPHS
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("walk_length", [1, 2, 3, 4])
def test_theorem_3(edges: Edges, walk_length: int, weighted: bool) -> None:
    """The sum over nodes is the random walk kernel of the graph and the path of the rows of W⁽ʲ⁾."""
    conv, x = make(walk_length=walk_length, decay=0.7), features(edges)
    edge_weight = torch.rand(edges.edge_index.size(1), dtype=torch.float64) if weighted else None
    out = conv(x, edges.edge_index, edge_weight=edge_weight)
    steps = torch.ones(edges.edge_index.size(1), K, dtype=torch.float64)
    if edge_weight is not None:
        steps = steps * edge_weight.unsqueeze(1)
    sums = sums_over_walks(x, weights_of(conv), edges.edge_index, [steps] * (walk_length - 1))
    kernel = 0.7 ** (walk_length - 1) * sums.sum(0)
    torch.testing.assert_close(out.sum(0), kernel, rtol=1e-10, atol=1e-10)
    # And more than the theorem: a node's state holds the walks that end in it.
    torch.testing.assert_close(out, 0.7 ** (walk_length - 1) * sums, rtol=1e-10, atol=1e-10)


def test_one_walk_by_hand() -> None:
    """0 → 1 → 2, decay 1/2: c_3[2] = 1/4 · 2·3 · 5·7 · 11·13."""
    conv = RandomWalkKernelConv(1, 1, walk_length=3, decay=0.5)
    for lin, weight in zip(conv.lins, (3.0, 7.0, 13.0), strict=True):
        torch.nn.init.constant_(lin.weight, weight)
    x = torch.tensor([[2.0], [5.0], [11.0]])
    assert conv(x, torch.tensor([[0, 1], [1, 2]])).flatten().tolist() == [0, 0, 0.25 * 6 * 35 * 143]
    # The paths are directed: turned around, the walk meets the features in the other order.
    assert conv(x, torch.tensor([[1, 2], [0, 1]])).flatten().tolist() == [0.25 * 33 * 35 * 26, 0, 0]


def edge_inputs(edges: Edges, edge_features: str) -> tuple[dict, dict[str, Tensor], Tensor | None]:
    """Options of the layer, arguments of its forward, and the features as floats."""
    num_edges = edges.edge_index.size(1)
    if edge_features == "edge_type":
        edge_type = torch.randint(NUM_TYPES, (num_edges,))
        return {"num_edge_types": NUM_TYPES}, {"edge_type": edge_type}, one_hot(edge_type, NUM_TYPES).double()
    if edge_features == "edge_attr":
        edge_attr = torch.randn(num_edges, EDGE_DIM, dtype=torch.float64)
        return {"edge_dim": EDGE_DIM}, {"edge_attr": edge_attr}, edge_attr
    return {}, {}, None


@pairwise(
    edges=GRAPHS,
    edge_features=["plain", "edge_type", "edge_attr"],
    decay=[1.0, "learned", "gated"],
    walk_length=[2, 3],
)
def test_walks_with_all_factors(
    edges: Edges, walk_length: int, decay: float | str, edge_features: str
) -> None:
    """Per channel, the random walk kernel of the graph with that channel's factors as edge weights."""
    options, arguments, known = edge_inputs(edges, edge_features)
    gate_scale = 10.0 if decay == "gated" else 1.0
    conv = make(walk_length=walk_length, decay=decay, gate_scale=gate_scale, **options)
    x, edge_weight = features(edges), torch.rand(edges.edge_index.size(1), dtype=torch.float64)
    out = conv(x, edges.edge_index, edge_weight=edge_weight, **arguments)
    factors = step_factors(conv, x, edges.edge_index, edge_weight, known)
    expected = sums_over_walks(x, weights_of(conv), edges.edge_index, factors)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


@pairwise(
    edges=GRAPHS,
    decay=[0.4, "learned", "gated"],
    compose=["mul", "add"],
    act=[None, "relu", "tanh", "sigmoid"],
)
def test_equation_8(edges: Edges, act: str | None, compose: str, decay: float | str) -> None:
    conv, x = make(walk_length=3, decay=decay, compose=compose, act=act), features(edges)
    factors = step_factors(conv, x, edges.edge_index)
    states = walk_states(x, weights_of(conv), edges.edge_index, factors, conv.act, compose)
    torch.testing.assert_close(conv(x, edges.edge_index), states[-1], rtol=1e-10, atol=1e-10)
    conv.all_lengths = True
    expected = torch.stack(states).sum(0)
    torch.testing.assert_close(conv(x, edges.edge_index), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("act", [torch.sin, torch.nn.PReLU()], ids=["function", "module"])
def test_activation_may_be_a_callable(act: torch.nn.Module) -> None:
    edges = EDGES["random"]
    conv, x = make(act=act, num_edge_types=2), features(edges)
    edge_type = torch.randint(2, (40,))
    factors = step_factors(conv, x, edges.edge_index, edge_features=one_hot(edge_type, 2).double())
    expected = walk_states(x, weights_of(conv), edges.edge_index, factors, act)[-1]
    torch.testing.assert_close(conv(x, edges.edge_index, edge_type=edge_type), expected)


@pytest.mark.parametrize("decay", [0.7, "learned", "gated"], ids=str)
@pytest.mark.parametrize("act", [None, "sigmoid"], ids=str)
def test_isolated_nodes_give_exactly_0(act: str | None, decay: float | str) -> None:
    edges = EDGES["isolated"]
    x = features(edges)
    isolated = [0, 3, 4, 6]
    out = make(decay=decay, act=act)(x, edges.edge_index)
    assert not out[isolated].any()
    assert bool((out[[1, 5]] != 0).all())
    conv = make(decay=decay, act=act, all_lengths=True)
    torch.testing.assert_close(conv(x, edges.edge_index)[isolated], (x @ conv.lins[0].weight.t())[isolated])


def test_decay_0_forgets_everything() -> None:
    edges = EDGES["random"]
    assert not make(decay=0.0)(features(edges), edges.edge_index).any()
    conv, x = make(decay=0.0, compose="add"), features(edges)
    torch.testing.assert_close(conv(x, edges.edge_index), x @ conv.lins[1].weight.t())


DIRECTED = {
    "path": Edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), 5, 5),
    "branches": Edges(torch.tensor([[0, 3, 1, 4], [1, 1, 2, 2]]), 6, 6),
    "cycle_with_tail": Edges(torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 4]]), 5, 5),
    "no_edges": EDGES["no_edges"],
}


@pairwise(edges=DIRECTED, compose=["mul", "add"], act=[None, "tanh", "sigmoid"], walk_length=[1, 2, 3, 4])
def test_walks_only(edges: Edges, walk_length: int, act: str | None, compose: str) -> None:
    """The zero rule of appendix E: only nodes where a walk ends have a state, and send one."""
    conv = make(walk_length=walk_length, decay=0.7, compose=compose, act=act, walks_only=True)
    x = features(edges)
    factors = step_factors(conv, x, edges.edge_index)
    states = walk_states(x, weights_of(conv), edges.edge_index, factors, conv.act, compose, only_walks=True)
    torch.testing.assert_close(conv(x, edges.edge_index), states[-1], rtol=1e-10, atol=1e-10)


def test_walks_only_changes_sums_but_not_products() -> None:
    edges = DIRECTED["path"]
    x = features(edges)
    for compose, same in (("mul", True), ("add", False)):
        conv = make(walk_length=3, compose=compose)
        free = conv(x, edges.edge_index)
        conv.walks_only = True
        assert torch.equal(conv(x, edges.edge_index), free) == same


@pytest.mark.parametrize("edges", ["more_sources", "more_targets", "no_targets", "no_sources"])
@pytest.mark.parametrize("lazy", [False, True], ids=["sized", "lazy"])
@pytest.mark.parametrize("decay", [0.7, "gated"], ids=str)
def test_bipartite(edges: str, lazy: bool, decay: float | str) -> None:
    edge_index, num_sources, num_targets = EDGES[edges]
    x = (
        torch.randn(num_sources, 3, dtype=torch.float64),
        torch.randn(num_targets, 2, dtype=torch.float64),
    )
    conv = RandomWalkKernelConv((-1, -1) if lazy else (3, 2), K, decay=decay, act="tanh").double()
    out = conv(x, edge_index)
    assert out.shape == (num_targets, K)
    factors = step_factors(conv, x, edge_index)
    expected = walk_states(x, weights_of(conv), edge_index, factors, torch.tanh)[-1]
    torch.testing.assert_close(out, expected)


def test_edge_codes_matter_little_at_first() -> None:
    conv = RandomWalkKernelConv(D, 100, num_edge_types=50)
    (factor,) = conv.edge_factors
    assert factor.table is not None
    assert bool(((factor.table - 1).abs() <= 0.1).all())
    conv.reset_parameters()
    assert bool(((factor.table - 1).abs() <= 0.1).all())
