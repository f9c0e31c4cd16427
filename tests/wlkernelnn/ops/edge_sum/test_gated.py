from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.edge_sum import gated_sum, gated_sum_naive
from wlkernelnn.ops.neighbor_sum import sort_edges

CHANNELS, NUM_TYPES = 5, 3
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])

# What is given: a and b, G, F, w; "rows" for G and F of every edge instead of tables.
GIVEN = {
    name: set(name.split())
    for name in (
        "nothing",
        "weight",
        "factor",
        "factor weight",
        "gates",
        "gates weight",
        "gates gate",
        "gates gate weight",
        "gates factor",
        "gates factor weight",
        "gates gate factor",
        "gates gate factor weight",
        "factor weight rows",
        "gates gate factor rows",
    )
}


def inputs_of(
    edges: Edges, given: set[str], dtype: torch.dtype, channels: int = CHANNELS
) -> dict[str, Tensor]:
    """The values that are given, all of them wanting gradients but the weights."""
    num_edges = edges.edge_index.size(1)
    rows = num_edges if "rows" in given else NUM_TYPES
    shapes = {"c": (edges.num_sources, channels)}
    if "gates" in given:
        shapes |= {"a": (edges.num_sources, channels), "b": (edges.num_targets, channels)}
    shapes |= {name: (rows, channels) for name in ("gate", "factor") if name in given}
    values = {name: torch.randn(shape, dtype=dtype, requires_grad=True) for name, shape in shapes.items()}
    if "weight" in given:
        values["weight"] = torch.rand(num_edges, dtype=dtype)
    return values


def assert_fast_is_naive(edges: Edges, values: dict[str, Tensor], rows: bool = False) -> None:
    sorted_edges = sort_edges(*edges)
    edge_type = None if rows else torch.randint(NUM_TYPES, (edges.edge_index.size(1),))
    names = list(values)

    def arguments(tensors: tuple[Tensor, ...]) -> dict[str, object]:
        by_name = dict(zip(names, tensors, strict=True))
        return {
            "gates": (by_name["a"], by_name["b"]) if "a" in by_name else None,
            "edge_gate": by_name.get("gate"),
            "edge_factor": by_name.get("factor"),
            "edge_type": edge_type,
            "edge_weight": by_name.get("weight"),
            "gate_scale": 3.0,
        }

    def fast(*tensors: Tensor) -> Tensor:
        given = arguments(tensors)
        of_edges = ["edge_type", "edge_weight", *(["edge_gate", "edge_factor"] if rows else [])]
        given |= {name: sorted_edges.arrange(given[name]) for name in of_edges}
        return gated_sum(tensors[0], sorted_edges, **given)

    def naive(*tensors: Tensor) -> Tensor:
        return gated_sum_naive(tensors[0], edges.edge_index, edges.num_targets, **arguments(tensors))

    assert_same_with_gradients(fast, naive, list(values.values()))


@DTYPES
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, given: set[str], dtype: torch.dtype, way: str) -> None:
    assert_fast_is_naive(edges, inputs_of(edges, given, dtype), "rows" in given)
