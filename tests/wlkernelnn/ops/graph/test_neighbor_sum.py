from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric import EdgeIndex

from tests.inputs.graphs import EDGES, Edges, assert_same_with_gradients, random_edges
from wlkernelnn.datasets import sorted_edge_index
from wlkernelnn.ops.graph import message_sum, neighbor_sum, neighbor_sum_naive, sort_edges

WEIGHTS = pytest.mark.parametrize("weights", ["unweighted", "constant_weights", "trained_weights"])


def inputs_of(edges: Edges, weights: str, dtype: torch.dtype, channels: int = 5) -> list[Tensor]:
    x = torch.randn(edges.num_sources, channels, dtype=dtype, requires_grad=True)
    if weights == "unweighted":
        return [x]
    weight = torch.randn(edges.edge_index.size(1), dtype=dtype)
    return [x, weight.requires_grad_(weights == "trained_weights")]


def assert_fast_is_naive(edges: Edges, inputs: list[Tensor]) -> None:
    sorted_edges = sort_edges(*edges)

    def fast(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return neighbor_sum(x, sorted_edges, sorted_edges.arrange(weight))

    def naive(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return neighbor_sum_naive(x, edges.edge_index, edges.num_targets, weight)

    assert_same_with_gradients(fast, naive, inputs)


@WEIGHTS
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, weights: str) -> None:
    assert_fast_is_naive(edges, inputs_of(edges, weights, torch.float32))


@WEIGHTS
@settings(deadline=None, max_examples=25)
@given(
    num_sources=st.integers(1, 8),
    num_targets=st.integers(1, 8),
    num_edges=st.integers(0, 30),
    seed=st.integers(0, 2**16),
)
def test_same_as_naive_on_any_graph(
    weights: str, num_sources: int, num_targets: int, num_edges: int, seed: int
) -> None:
    edges = random_edges(num_sources, num_targets, num_edges, seed)
    assert_fast_is_naive(edges, inputs_of(edges, weights, torch.float64, channels=2))


@WEIGHTS
def test_same_as_naive_where_edges_are_known_to_go_both_ways(weights: str) -> None:
    """Edge weights differ by direction even then."""
    one_way = random_edges(12, 12, 30)
    edge_index = torch.cat([one_way.edge_index, one_way.edge_index.flip(0)], dim=1)
    order = edge_index[1].argsort(stable=True)
    indptr = torch.bincount(edge_index[1], minlength=12).cumsum(0)
    known = sorted_edge_index(
        edge_index[:, order].contiguous(), torch.nn.functional.pad(indptr, (1, 0)), is_undirected=True
    )
    sorted_edges = sort_edges(known, 12, 12)
    assert sorted_edges.is_undirected
    inputs = inputs_of(Edges(edge_index, 12, 12), weights, torch.float64)
    assert_same_with_gradients(
        lambda x, weight=None: neighbor_sum(x, sorted_edges, weight),
        lambda x, weight=None: neighbor_sum_naive(x, known.as_tensor(), 12, weight),
        inputs,
    )


@WEIGHTS
def test_values_only(weights: str) -> None:
    edges = EDGES["random"]
    inputs = inputs_of(edges, weights, torch.float64)
    expected = neighbor_sum_naive(inputs[0], edges.edge_index, edges.num_targets, *inputs[1:])
    sorted_edges = sort_edges(*edges)
    with torch.no_grad():
        out = neighbor_sum(inputs[0], sorted_edges, *map(sorted_edges.arrange, inputs[1:]))
    assert not out.requires_grad
    torch.testing.assert_close(out, expected.detach(), rtol=1e-12, atol=1e-12)


def test_weights_alone_can_be_trained() -> None:
    edges = EDGES["random"]
    x, weight = inputs_of(edges, "trained_weights", torch.float64)
    assert_fast_is_naive(edges, [x.detach(), weight])


def test_strided_values_and_cotangents() -> None:
    edges = EDGES["random"]
    sorted_edges = sort_edges(*edges)
    base = torch.randn(5, edges.num_sources, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(edges.edge_index.size(1), 2, dtype=torch.float64)[:, 0]
    out = neighbor_sum(base.t(), sorted_edges, sorted_edges.arrange(weight))
    expected = neighbor_sum_naive(base.t(), edges.edge_index, edges.num_targets, weight)
    torch.testing.assert_close(out, expected)
    # The cotangent of a sum is one number, expanded without memory of its own.
    gradients = [torch.autograd.grad(value.sum(), base)[0] for value in (out, expected)]
    torch.testing.assert_close(*gradients)


@WEIGHTS
def test_second_derivatives(weights: str) -> None:
    edges = EDGES["isolated"]  # whose order by source is not that by target
    sorted_edges = sort_edges(*edges)
    inputs = inputs_of(edges, weights, torch.float64, channels=2)

    def cubed(x: Tensor, *weight: Tensor) -> Tensor:
        return neighbor_sum(x**3, sorted_edges, *weight)

    assert torch.autograd.gradcheck(cubed, inputs)
    assert torch.autograd.gradgradcheck(cubed, inputs)


@WEIGHTS
def test_weights_take_the_type_of_the_values(weights: str) -> None:
    """Under autocast the values come in bfloat16 and the weights do not."""
    edges = EDGES["random"]
    sorted_edges = sort_edges(*edges)
    x, *weight = inputs_of(edges, weights, torch.float32)
    out = neighbor_sum(x.bfloat16(), sorted_edges, *map(sorted_edges.arrange, weight))
    assert out.dtype == torch.bfloat16
    expected = neighbor_sum_naive(x, edges.edge_index, edges.num_targets, *weight)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.1)
    out.float().sum().backward()
    assert x.grad is not None
    gradient = torch.autograd.grad(expected.sum(), x)[0]
    torch.testing.assert_close(x.grad, gradient, rtol=0.05, atol=0.1)


def test_gradients_of_edges_that_come_sorted_and_go_one_way() -> None:
    edges = random_edges(12, 12, 40)
    by_target, _ = EdgeIndex(edges.edge_index, sparse_size=(12, 12)).sort_by("col")
    x = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    sums = neighbor_sum(x, sort_edges(by_target, 12, 12)), neighbor_sum_naive(x, edges.edge_index, 12)
    torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), x)[0] for out in sums))


def test_second_derivatives_where_edges_are_known_to_go_both_ways() -> None:
    edge_index, indptr = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]]), torch.tensor([0, 1, 3, 4])
    edges = sort_edges(sorted_edge_index(edge_index, indptr, is_undirected=True), 3, 3)
    assert edges.is_undirected
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: neighbor_sum(x**3, edges), (x,))


def test_any_message_will_do() -> None:
    """One with parameters, and one that draws, whose rows are computed once."""
    edges, slope = EDGES["random"], torch.tensor([0.1], requires_grad=True)
    sorted_edges, a = sort_edges(*edges), torch.randn(12, 5, requires_grad=True)
    out = message_sum(
        lambda a: torch.nn.functional.prelu(torch.nn.functional.dropout(a, 0.5), slope),
        sorted_edges,
        source={"a": a},
    )
    gradient, of_slope = torch.autograd.grad(out.sum(), [a, slope])
    torch.testing.assert_close((gradient * a).sum(), out.sum())  # it is piecewise linear in what was drawn
    assert bool(of_slope)
