from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.checks.equations import randomize, step_factors, walk_states
from tests.checks.pairwise import pairwise
from tests.inputs.graphs import EDGES, GRAPHS, Edges
from wlkernelnn import DeepKernelConv

D, K = 3, 5

ON_GRAPHS = pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)


def make(**options: object) -> DeepKernelConv:
    conv = DeepKernelConv(D, K, **options)  # type: ignore[arg-type]
    randomize(conv)
    return conv


def features(edges: Edges) -> Tensor:
    return torch.randn(edges.num_sources, D, dtype=torch.float64)


def literal(conv: DeepKernelConv, x: Tensor, edges: Edges, **known: Tensor) -> Tensor:
    states = walk_states(
        x,
        [lin.weight for lin in conv.lins],
        edges.edge_index,
        step_factors(conv, x, edges.edge_index, **known),
        conv.act,
        conv.compose,
        conv.walks_only,
    )
    return conv.act(states[-1] @ conv.lin_out.weight.t())


@pairwise(
    edges=GRAPHS,
    walks_only=[False, True],
    decay=[0.4, "gated"],
    compose=["mul", "add"],
    walk_length=[1, 2, 3],
)
def test_section_3_3(
    edges: Edges, walk_length: int, compose: str, decay: float | str, walks_only: bool
) -> None:
    conv = make(walk_length=walk_length, decay=decay, compose=compose, act="tanh", walks_only=walks_only)
    x = features(edges)
    expected = literal(conv, x, edges)
    torch.testing.assert_close(conv(x, edges.edge_index), expected, rtol=1e-10, atol=1e-10)


@ON_GRAPHS
@pytest.mark.parametrize("act", [None, "relu", "sigmoid"], ids=str)
def test_edge_factors(edges: Edges, act: str | None) -> None:
    conv, x = make(walk_length=3, decay="gated", act=act, num_edge_types=4), features(edges)
    num_edges = edges.edge_index.size(1)
    edge_weight, edge_type = torch.rand(num_edges, dtype=torch.float64), torch.randint(4, (num_edges,))
    out = conv(x, edges.edge_index, edge_type=edge_type, edge_weight=edge_weight)
    known = {"edge_weight": edge_weight, "edge_features": one_hot(edge_type, 4).double()}
    torch.testing.assert_close(out, literal(conv, x, edges, **known), rtol=1e-10, atol=1e-10)


@ON_GRAPHS
@pytest.mark.parametrize("decay", [0.3, "learned"], ids=str)
def test_equation_9(edges: Edges, decay: float | str) -> None:
    """h_v = σ(U_1 h_v + U_2 Σ σ(V h_u)) with U_1 = U W⁽²⁾, U_2 = λU and V = W⁽¹⁾."""
    conv, x = make(decay=decay, compose="add", act="tanh"), features(edges)
    u = conv.lin_out.weight
    u_1, u_2, v = u @ conv.lins[1].weight, u * conv.decay(), conv.lins[0].weight
    adjacency = torch.zeros(x.size(0), x.size(0), dtype=torch.float64)
    for source, target in edges.edge_index.t().tolist():
        adjacency[target, source] += 1
    expected = torch.tanh(x @ u_1.t() + adjacency @ torch.tanh(x @ v.t()) @ u_2.t())
    torch.testing.assert_close(conv(x, edges.edge_index), expected, rtol=1e-10, atol=1e-10)


def test_isolated_nodes_keep_their_own_term_of_a_sum() -> None:
    """The main text has no zero rule; appendix E, ``walks_only``, has."""
    edges = EDGES["isolated"]
    isolated, x = [0, 3, 4, 6], features(edges)
    conv = make(compose="add", act="tanh")
    own = torch.tanh(x @ conv.lins[1].weight.t() @ conv.lin_out.weight.t())
    torch.testing.assert_close(conv(x, edges.edge_index)[isolated], own[isolated])
    conv.walks_only = True
    assert not conv(x, edges.edge_index)[isolated].any()


@pytest.mark.parametrize("edges", ["more_sources", "more_targets"])
def test_bipartite(edges: str) -> None:
    edge_index, num_sources, num_targets = EDGES[edges]
    x = (torch.randn(num_sources, 3), torch.randn(num_targets, 2))
    conv = DeepKernelConv((3, 2), K, decay="gated", act="tanh")
    weights = [lin.weight for lin in conv.lins]
    state = walk_states(x, weights, edge_index, step_factors(conv, x, edge_index), torch.tanh)[-1]
    torch.testing.assert_close(conv(x, edge_index), torch.tanh(state @ conv.lin_out.weight.t()))
