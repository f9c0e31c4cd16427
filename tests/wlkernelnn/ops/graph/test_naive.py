"""The oracles themselves, against dense matrices and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tests.inputs.graphs import EDGES, Edges
from wlkernelnn.ops.graph import gated_sum_naive, message_sum_naive, neighbor_sum_naive, relabel_sum_naive


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_neighbor_sum_is_a_matrix_product(edges: Edges) -> None:
    edge_index, num_sources, num_targets = edges
    x = torch.randn(num_sources, 3, dtype=torch.float64)
    weight = torch.randn(edge_index.size(1), dtype=torch.float64)
    adjacency = torch.zeros(num_targets, num_sources, dtype=torch.float64)
    for (u, v), w in zip(edge_index.t().tolist(), weight, strict=True):
        adjacency[v, u] += w
    torch.testing.assert_close(neighbor_sum_naive(x, edge_index, num_targets, weight), adjacency @ x)


def test_message_sum_reads_each_input_where_it_lives() -> None:
    out = message_sum_naive(
        lambda a, b, c, t: a * b + c * t,
        torch.tensor([[0, 1, 1], [2, 0, 2]]),
        3,
        source={"a": torch.tensor([[2.0], [3.0]])},
        target={"b": torch.tensor([[5.0], [7.0], [11.0]])},
        edge={"c": torch.tensor([[1.0], [10.0], [100.0]])},
        table={"t": torch.tensor([[1.0], [2.0]])},
        edge_type=torch.tensor([0, 1, 1]),
    )
    assert out.tolist() == [[3 * 5 + 10 * 2], [0], [2 * 11 + 1 * 1 + 3 * 11 + 100 * 2]]


EDGE_INDEX = torch.tensor([[0, 1, 1], [2, 0, 2]])
EDGE_TYPE, WEIGHT = torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0, 3.0])


def test_gated_sum_reads_each_input_where_it_lives() -> None:
    c, a = torch.tensor([[2.0], [3.0]]), torch.tensor([[0.1], [0.2]])
    b = torch.tensor([[0.5], [0.7], [0.9]])
    G, F = torch.tensor([[-0.3], [0.4]]), torch.tensor([[5.0], [7.0]])
    out = gated_sum_naive(c, EDGE_INDEX, 3, (a, b), G, F, EDGE_TYPE, WEIGHT, gate_scale=10.0)

    def gate(logit: float) -> float:
        return 10 / (1 + math.exp(-logit))

    first = 2 * gate(0.2 + 0.5 + 0.4) * 3 * 7
    last = 1 * gate(0.1 + 0.9 - 0.3) * 2 * 5 + 3 * gate(0.2 + 0.9 + 0.4) * 3 * 7
    assert out.flatten().tolist() == pytest.approx([first, 0, last], rel=1e-6)


def test_relabel_sum_reads_each_input_where_it_lives() -> None:
    m, V = torch.tensor([[2.0], [3.0]]), torch.tensor([[-5.0], [7.0]])
    out = relabel_sum_naive(m, EDGE_INDEX, 3, torch.relu, V, EDGE_TYPE, WEIGHT)
    assert out.tolist() == [[2 * 10], [0], [3 * 10]]
