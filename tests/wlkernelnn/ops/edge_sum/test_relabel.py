from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.edge_sum import relabel_sum, relabel_sum_naive
from wlkernelnn.ops.neighbor_sum import sort_edges

CHANNELS, NUM_TYPES = 5, 3
ACTS = {
    "relu": torch.nn.ReLU(),
    "tanh": torch.nn.Tanh(),
    "identity": torch.nn.Identity(),
    "elu": torch.nn.ELU(),  # has no compiled loop
}
ALL_ACTS = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
# What is given beside m: V as a table or (with "rows") for every edge, and w.
GIVEN = {name: name.split() for name in ("", "weight", "shift", "shift weight", "shift weight rows")}
ALL_GIVEN = pytest.mark.parametrize("given", GIVEN.values(), ids=["m alone", *list(GIVEN)[1:]])


def inputs_of(edges: Edges, given: list[str], dtype: torch.dtype) -> dict[str, Tensor]:
    """The values that are given; all but the weights want gradients."""
    num_edges = edges.edge_index.size(1)
    rows = {"m": edges.num_sources}
    if "shift" in given:
        rows["shift"] = num_edges if "rows" in given else NUM_TYPES
    values = {name: torch.randn(n, CHANNELS, dtype=dtype, requires_grad=True) for name, n in rows.items()}
    if "weight" in given:
        values["weight"] = torch.rand(num_edges, dtype=dtype)
    return values


def assert_fast_is_naive(
    edges: Edges, act: torch.nn.Module, values: dict[str, Tensor], typed: bool = True
) -> None:
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),)) if typed else None
    names = list(values)

    def fast(*tensors: Tensor) -> Tensor:
        by_name = dict(zip(names, tensors, strict=True))
        weight, shift = sorted_edges.arrange(by_name.get("weight")), by_name.get("shift")
        shift = shift if typed else sorted_edges.arrange(shift)
        return relabel_sum(tensors[0], sorted_edges, act, shift, sorted_edges.arrange(edge_type), weight)

    def naive(*tensors: Tensor) -> Tensor:
        by_name = dict(zip(names, tensors, strict=True))
        others = by_name.get("shift"), edge_type, by_name.get("weight")
        return relabel_sum_naive(tensors[0], edges.edge_index, edges.num_targets, act, *others)

    assert_same_with_gradients(fast, naive, list(values.values()))


@ALL_GIVEN
@ALL_ACTS
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, act: torch.nn.Module, given: list[str], way: str) -> None:
    assert_fast_is_naive(edges, act, inputs_of(edges, given, torch.float64), "rows" not in given)


@ALL_GIVEN
@ALL_ACTS
@pytest.mark.parametrize("edges", ["random", "no_edges", "more_sources", "many_edges"])
def test_same_as_naive_in_float32(edges: str, act: torch.nn.Module, given: list[str], way: str) -> None:
    values = inputs_of(EDGES[edges], given, torch.float32)
    assert_fast_is_naive(EDGES[edges], act, values, "rows" not in given)


@ALL_ACTS
def test_gradients_of_every_subset(act: torch.nn.Module, way: str) -> None:
    edges = EDGES["more_targets"]
    values = inputs_of(edges, GIVEN["shift weight"], torch.float64)
    for subset in range(2 ** len(values)):
        for i, value in enumerate(values.values()):
            value.requires_grad_(bool(subset >> i & 1))
        assert_fast_is_naive(edges, act, values)


def test_gradient_of_an_activations_parameter(way: str) -> None:
    edges, act = EDGES["random"], torch.nn.PReLU(dtype=torch.float64)
    sorted_edges, edge_type = sort_edges(*edges), torch.randint(NUM_TYPES, (40,))
    m, shift = inputs_of(edges, GIVEN["shift"], torch.float64).values()
    out = relabel_sum(m, sorted_edges, act, shift, sorted_edges.arrange(edge_type))
    expected = relabel_sum_naive(m, edges.edge_index, edges.num_targets, act, shift, edge_type)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    came, wanted = (torch.autograd.grad(value.square().sum(), act.weight) for value in (out, expected))
    torch.testing.assert_close(came, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("act", ["tanh", "identity"])
def test_second_derivatives(act: str, way: str) -> None:
    edges = EDGES["self_loops"]
    sorted_edges, edge_type = sort_edges(*edges), torch.tensor([0, 2, 2, 1])
    m, shift = inputs_of(edges, GIVEN["shift"], torch.float64).values()

    def cubed(m: Tensor, shift: Tensor) -> Tensor:
        return relabel_sum(m**3, sorted_edges, ACTS[act], shift, edge_type)

    assert torch.autograd.gradgradcheck(cubed, (m, shift))


def test_tanh_keeps_its_digits(way: str) -> None:
    """Also of small numbers, and it saturates; a NaN stays one, also of relu."""
    m = torch.cat([torch.logspace(-30, 2, 2000), -torch.logspace(-30, 2, 2000)]).unsqueeze(0)
    edges, shift = sort_edges(torch.tensor([[0], [0]]), 1, 1), torch.zeros(1, 4000)
    edge_type = torch.zeros(1, dtype=torch.int64)
    out = relabel_sum(m, edges, ACTS["tanh"], shift, edge_type)
    torch.testing.assert_close(out.double(), m.double().tanh(), rtol=1e-6, atol=0.0)
    for act in ("tanh", "relu"):
        assert relabel_sum(m * float("nan"), edges, ACTS[act], shift, edge_type).isnan().all()


def test_relu_has_no_slope_at_zero(way: str) -> None:
    m = torch.zeros(1, CHANNELS, requires_grad=True)
    edges, edge_type = sort_edges(torch.tensor([[0], [0]]), 1, 1), torch.zeros(1, dtype=torch.int64)
    out = relabel_sum(m, edges, ACTS["relu"], torch.zeros(1, CHANNELS), edge_type)
    assert not torch.autograd.grad(out.sum(), m)[0].any()
