from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.edge_sum import gated_sum, gated_sum_naive
from wlkernelnn.ops.neighbor_sum import sort_edges

CHANNELS, NUM_TYPES, SCALE = 5, 3, 3.0
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])

# What is given beside c: a and b, G, F, w; with "rows" G and F of every edge instead of tables.
GIVEN = {
    name: name.split()
    for name in (
        "",
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
ALL_GIVEN = pytest.mark.parametrize("given", GIVEN.values(), ids=["c alone", *list(GIVEN)[1:]])


def inputs_of(edges: Edges, given: list[str], dtype: torch.dtype) -> dict[str, Tensor]:
    """The values that are given; all but the weights want gradients."""
    num_edges = edges.edge_index.size(1)
    rows = {"c": edges.num_sources}
    if "gates" in given:
        rows |= {"a": edges.num_sources, "b": edges.num_targets}
    rows |= {
        name: num_edges if "rows" in given else NUM_TYPES for name in ("gate", "factor") if name in given
    }
    values = {name: torch.randn(n, CHANNELS, dtype=dtype, requires_grad=True) for name, n in rows.items()}
    if "weight" in given:
        values["weight"] = torch.rand(num_edges, dtype=dtype)
    return values


def assert_fast_is_naive(edges: Edges, values: dict[str, Tensor], typed: bool = True) -> None:
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),)) if typed else None
    names = list(values)

    def arguments(tensors: tuple[Tensor, ...]) -> dict[str, Tensor | None]:
        by_name = dict(zip(names, tensors, strict=True))
        gates = {"gates": (by_name["a"], by_name["b"])} if "a" in by_name else {}
        of_edges = {f"edge_{name}": by_name.get(name) for name in ("gate", "factor", "weight")}
        return gates | of_edges | {"edge_type": edge_type, "gate_scale": SCALE}

    def fast(*tensors: Tensor) -> Tensor:
        given = arguments(tensors)
        for name in ("edge_type", "edge_weight", *(() if typed else ("edge_gate", "edge_factor"))):
            given[name] = sorted_edges.arrange(given[name])
        return gated_sum(tensors[0], sorted_edges, **given)

    def naive(*tensors: Tensor) -> Tensor:
        return gated_sum_naive(tensors[0], edges.edge_index, edges.num_targets, **arguments(tensors))

    assert_same_with_gradients(fast, naive, list(values.values()))


@ALL_GIVEN
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, given: list[str], way: str) -> None:
    assert_fast_is_naive(edges, inputs_of(edges, given, torch.float64), "rows" not in given)


@ALL_GIVEN
@pytest.mark.parametrize("edges", ["random", "no_edges", "more_sources", "many_edges"])
def test_same_as_naive_in_float32(edges: str, given: list[str], way: str) -> None:
    assert_fast_is_naive(EDGES[edges], inputs_of(EDGES[edges], given, torch.float32), "rows" not in given)


@pytest.mark.parametrize("given", ["gates gate factor weight", "factor weight"])
def test_gradients_of_every_subset(given: str, way: str) -> None:
    edges = EDGES["more_targets"]
    values = inputs_of(edges, given.split(), torch.float64)
    for subset in range(2 ** len(values)):
        for i, value in enumerate(values.values()):
            value.requires_grad_(bool(subset >> i & 1))
        assert_fast_is_naive(edges, values)


def test_trained_weights(way: str) -> None:
    values = inputs_of(EDGES["random"], GIVEN["gates gate factor weight"], torch.float64)
    values["weight"].requires_grad_()
    assert_fast_is_naive(EDGES["random"], values)


def test_one_tensor_in_several_places(way: str) -> None:
    edges, x = EDGES["random"], torch.randn(12, CHANNELS, dtype=torch.float64, requires_grad=True)
    sorted_edges = sort_edges(*edges)
    assert_same_with_gradients(
        lambda x: gated_sum(x, sorted_edges, (x, x)),
        lambda x: gated_sum_naive(x, edges.edge_index, edges.num_targets, (x, x)),
        [x],
    )


def test_strided_values_and_cotangents(way: str) -> None:
    """Values that are columns of one matrix, and the cotangent of a sum: one number, expanded."""
    edges = EDGES["many_edges"]
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (2 * 2000,))[::2]
    of_sources = torch.randn(50, 2 * CHANNELS, dtype=torch.float64, requires_grad=True)
    of_targets = torch.randn(CHANNELS, 60, dtype=torch.float64, requires_grad=True)
    tables = torch.randn(NUM_TYPES, 2 * CHANNELS, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2000, 2, dtype=torch.float64)[:, 1]
    a, c = of_sources.chunk(2, dim=1)
    G, F = tables.chunk(2, dim=1)
    parts = {"gates": (a, of_targets.t()), "edge_gate": G, "edge_factor": F, "edge_type": edge_type}
    arranged = parts | {"edge_type": sorted_edges.arrange(edge_type)}
    out = gated_sum(c, sorted_edges, edge_weight=sorted_edges.arrange(weight), **arranged)
    expected = gated_sum_naive(c, edges.edge_index, edges.num_targets, edge_weight=weight, **parts)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    leaves = [of_sources, of_targets, tables]
    for came, wanted in zip(
        *(torch.autograd.grad(value.sum(), leaves) for value in (out, expected)), strict=True
    ):
        torch.testing.assert_close(came, wanted, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("given", ["gates gate factor weight", "factor"])
def test_second_derivatives(given: str, way: str) -> None:
    edges = EDGES["self_loops"]
    sorted_edges, edge_type = sort_edges(*edges), torch.tensor([0, 2, 2, 1])
    values = inputs_of(edges, given.split(), torch.float64)
    weight = values.pop("weight", None)

    def summed(c: Tensor, *others: Tensor) -> Tensor:
        a, b, G = others[:3] if "gates" in given else (None, None, None)
        gates = None if a is None else (a, b)
        return gated_sum(c, sorted_edges, gates, G, others[-1], edge_type, weight)

    assert torch.autograd.gradgradcheck(summed, tuple(values.values()))


def test_second_derivatives_where_one_tensor_stands_twice(way: str) -> None:
    sorted_edges = sort_edges(*EDGES["self_loops"])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def summed(x: Tensor) -> Tensor:
        return gated_sum(x, sorted_edges, (x, x))

    assert torch.autograd.gradcheck(summed, x)
    assert torch.autograd.gradgradcheck(summed, x)
    plain = torch.autograd.grad(summed(x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(summed(x).sum(), x, create_graph=True)[0], plain)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 100.0, -100.0])
@DTYPES
def test_numbers_that_are_far_out(value: float, dtype: torch.dtype, way: str) -> None:
    """A NaN stays one, and gates saturate as torch's do."""
    edge_index = torch.tensor([[0], [0]])
    c, b = torch.ones(1, 40, dtype=dtype), torch.zeros(1, 40, dtype=dtype)
    a = torch.zeros(1, 40, dtype=dtype)
    a[0, ::3] = value
    out = gated_sum(c, sort_edges(edge_index, 1, 1), (a, b))
    torch.testing.assert_close(out, torch.sigmoid(a), equal_nan=True, rtol=1e-6, atol=1e-38)


def test_small_gates_keep_their_digits(way: str) -> None:
    a = torch.linspace(-80, 80, 4001).unsqueeze(0)
    c = torch.ones_like(a)
    out = gated_sum(c, sort_edges(torch.tensor([[0], [0]]), 1, 1), (a, torch.zeros_like(a)))
    torch.testing.assert_close(out.double(), torch.sigmoid(a.double()), rtol=5e-7, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_composed(dtype: torch.dtype, way: str) -> None:
    edges = EDGES["random"]
    values = inputs_of(edges, GIVEN["gates weight"], torch.float32)
    c, a, b, weight = (values[name] for name in ("c", "a", "b", "weight"))
    sorted_edges = sort_edges(*edges)
    weight = sorted_edges.arrange(weight)
    out = gated_sum(c.to(dtype), sorted_edges, (a.to(dtype), b.to(dtype)), edge_weight=weight)
    expected = gated_sum(c, sorted_edges, (a, b), edge_weight=weight)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.1)


def test_no_gradient_is_kept_when_none_is_wanted(way: str) -> None:
    values = inputs_of(EDGES["random"], ["gates"], torch.float32)
    with torch.no_grad():
        out = gated_sum(values["c"], sort_edges(*EDGES["random"]), (values["a"], values["b"]))
    assert not out.requires_grad


def test_edge_gate_without_gates() -> None:
    x, edges = torch.randn(12, CHANNELS), sort_edges(*EDGES["random"])
    with pytest.raises(ValueError, match=r"edge_gate .* needs gates as well, got None"):
        gated_sum(x, edges, edge_gate=torch.zeros(3, CHANNELS), edge_type=torch.zeros(40, dtype=torch.int64))
