from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.graph import gated_message, message_sum, message_sum_naive, neighbor_sum, sort_edges

module = import_module("wlkernelnn.ops.graph.message_sum")

CHANNELS, NUM_TYPES = 4, 3
KINDS = {"c_j": "source", "gate_j": "source", "gate_i": "target", "edge_gate": "table", "edge_weight": "edge"}


@pytest.fixture(params=["one_block", "many_blocks"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In one block, or in blocks of 256 edges."""
    if request.param == "many_blocks":
        monkeypatch.setattr(module, "BLOCK", 1)
    return request.param


def inputs_of(edges: Edges, dtype: torch.dtype) -> list[Tensor]:
    num_edges = edges.edge_index.size(1)
    rows = {"source": edges.num_sources, "target": edges.num_targets, "edge": num_edges, "table": NUM_TYPES}
    shapes = [(rows[kind], 1 if kind == "edge" else CHANNELS) for kind in KINDS.values()]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def assert_blocks_are_naive(edges: Edges, inputs: list[Tensor]) -> None:
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),))

    def fast(*values: Tensor) -> Tensor:
        values = *values[:-1], sorted_edges.arrange(values[-1])  # type: ignore[assignment]
        types = sorted_edges.arrange(edge_type)
        return module.blocked_sum(gated_message, sorted_edges, types, KINDS, values, naive)

    def naive(*values: Tensor) -> Tensor:
        groups: dict[str, dict[str, Tensor]] = {"source": {}, "target": {}, "edge": {}, "table": {}}
        for (name, kind), value in zip(KINDS.items(), values, strict=True):
            groups[kind][name] = value
        given = {**groups, "edge_type": edge_type}
        return message_sum_naive(gated_message, edges.edge_index, edges.num_targets, **given)  # type: ignore[arg-type]

    assert_same_with_gradients(fast, naive, inputs)


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, way: str) -> None:
    assert_blocks_are_naive(edges, inputs_of(edges, torch.float64))


@pytest.mark.parametrize("trained", KINDS)
def test_gradients_of_one_input_alone(trained: str, way: str) -> None:
    inputs = inputs_of(EDGES["many_edges"], torch.float32)
    for name, value in zip(KINDS, inputs, strict=True):
        value.requires_grad_(name == trained)
    assert_blocks_are_naive(EDGES["many_edges"], inputs)


@pytest.mark.parametrize(
    ("targets", "num_blocks"),
    [
        pytest.param([7] * 1000, 2, id="one_target_of_many_blocks"),
        pytest.param([0] * 300 + [1] * 10 + [5] * 600 + [9] * 90, 3, id="uneven"),
        pytest.param(list(range(10)) * 100, 4, id="even"),
        pytest.param([9] * 256, 1, id="just_one_block"),
        pytest.param([], 1, id="no_edges"),
    ],
)
def test_blocks_hold_all_edges_of_their_targets(
    targets: list[int], num_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 1)
    target = torch.tensor(targets, dtype=torch.int64)
    edges = Edges(torch.stack([torch.arange(len(targets)) % 10, target]), 10, 10)
    loop = module.BlockedLoop(gated_message, sort_edges(*edges), None, {"c_j": "source"})
    blocks = loop._blocks([torch.zeros(10, CHANNELS)])
    assert len(blocks) == num_blocks
    assert [block.nodes.start for block in blocks] == [0, *(block.nodes.stop for block in blocks[:-1])]
    assert [block.edges.start for block in blocks] == [0, *(block.edges.stop for block in blocks[:-1])]
    assert (blocks[-1].nodes.stop, blocks[-1].edges.stop) == (10, len(targets))
    for block in blocks:
        assert block.indptr[-1] == block.edges.stop - block.edges.start
    assert_blocks_are_naive(edges, inputs_of(edges, torch.float64))


def test_second_derivatives(way: str) -> None:
    """Of a sum with trained weights, which goes by blocks; one that was differentiable once would give 0."""
    edges = sort_edges(*EDGES["self_loops"])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, weight: neighbor_sum(x, edges, weight), (x, weight))


def test_any_message_will_do() -> None:
    """One with parameters, and one that draws, whose rows are computed once."""
    edges, slope = EDGES["random"], torch.tensor([0.1], requires_grad=True)
    sorted_edges, a = sort_edges(*edges), torch.randn(12, CHANNELS, requires_grad=True)
    out = message_sum(
        lambda a: torch.nn.functional.prelu(torch.nn.functional.dropout(a, 0.5), slope),
        sorted_edges,
        source={"a": a},
    )
    gradient, of_slope = torch.autograd.grad(out.sum(), [a, slope])
    torch.testing.assert_close((gradient * a).sum(), out.sum())  # it is piecewise linear in what was drawn
    assert bool(of_slope)
