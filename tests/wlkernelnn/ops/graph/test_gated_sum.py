from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.inputs.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.graph import SortedEdges, gated_sum, gated_sum_naive, sort_edges

CHANNELS, NUM_TYPES, SCALE = 5, 3, 3.0
ONE_LOOP = Edges(torch.tensor([[0], [0]]), 1, 1)
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
# Everything that is given with two graphs, every graph with two or more of what is given, in both types.
PAIRS = pytest.mark.parametrize(
    ("given", "edges", "dtype"),
    [
        (given, [*EDGES][(i + 5 * turn) % len(EDGES)], (torch.float64, torch.float32)[(i + turn) % 2])
        for turn in range(2)
        for i, given in enumerate(GIVEN)
    ],
)
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


def sorted_on(device: str, edges: Edges) -> SortedEdges:
    return sort_edges(edges.edge_index.to(device), edges.num_sources, edges.num_targets)


def assert_fast_is_naive(edges: Edges, values: dict[str, Tensor], device: str, typed: bool = True) -> None:
    sorted_edges = sorted_on(device, edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),)) if typed else None
    names = list(values)

    def arguments(tensors: tuple[Tensor, ...]) -> dict[str, Any]:
        by_name = dict(zip(names, tensors, strict=True))
        gates = {"gates": (by_name["a"], by_name["b"])} if "a" in by_name else {}
        of_edges = {f"edge_{name}": by_name.get(name) for name in ("gate", "factor", "weight")}
        return gates | of_edges | {"edge_type": edge_type, "gate_scale": SCALE}

    def fast(*tensors: Tensor) -> Tensor:
        tensors = tuple(tensor.to(device) for tensor in tensors)
        given = arguments(tensors)
        if typed:
            given["edge_type"] = given["edge_type"].to(device)
        for name in ("edge_type", "edge_weight", *(() if typed else ("edge_gate", "edge_factor"))):
            given[name] = sorted_edges.arrange(given[name])
        return gated_sum(tensors[0], sorted_edges, **given).cpu()

    def naive(*tensors: Tensor) -> Tensor:
        return gated_sum_naive(tensors[0], edges.edge_index, edges.num_targets, **arguments(tensors))

    assert_same_with_gradients(fast, naive, list(values.values()))


@pytest.mark.halved
@PAIRS
def test_same_as_naive(given: str, edges: str, dtype: torch.dtype, device: str) -> None:
    assert_fast_is_naive(
        EDGES[edges], inputs_of(EDGES[edges], GIVEN[given], dtype), device, "rows" not in given
    )


@pytest.mark.parametrize("given", ["gates gate factor weight", "factor weight"])
def test_gradients_of_every_subset(given: str, device: str) -> None:
    edges = EDGES["more_targets"]
    values = inputs_of(edges, given.split(), torch.float64)
    for subset in range(2 ** len(values)):
        for i, value in enumerate(values.values()):
            value.requires_grad_(bool(subset >> i & 1))
        assert_fast_is_naive(edges, values, device)


def test_trained_weights(device: str) -> None:
    values = inputs_of(EDGES["random"], GIVEN["gates gate factor weight"], torch.float64)
    values["weight"].requires_grad_()
    assert_fast_is_naive(EDGES["random"], values, device)


def test_one_tensor_in_several_places(device: str) -> None:
    edges, x = EDGES["random"], torch.randn(12, CHANNELS, dtype=torch.float64, requires_grad=True)
    sorted_edges = sorted_on(device, edges)

    def fast(x: Tensor) -> Tensor:
        x = x.to(device)
        return gated_sum(x, sorted_edges, (x, x)).cpu()

    assert_same_with_gradients(
        fast,
        lambda x: gated_sum_naive(x, edges.edge_index, edges.num_targets, (x, x)),
        [x],
    )


def test_strided_values_and_cotangents(device: str) -> None:
    """Values that are columns of one matrix, and the cotangent of a sum: one number, expanded."""
    edges = EDGES["random"]
    edge_type = torch.randint(NUM_TYPES, (2 * 40,))[::2]
    weight = torch.rand(40, 2, dtype=torch.float64)[:, 1]
    of_sources = torch.randn(12, 2 * CHANNELS, dtype=torch.float64, requires_grad=True)
    of_targets = torch.randn(CHANNELS, 12, dtype=torch.float64, requires_grad=True)
    tables = torch.randn(NUM_TYPES, 2 * CHANNELS, dtype=torch.float64, requires_grad=True)

    def fast(of_sources: Tensor, of_targets: Tensor, tables: Tensor) -> Tensor:
        sorted_edges = sorted_on(device, edges)
        a, c = of_sources.to(device).chunk(2, dim=1)
        G, F = tables.to(device).chunk(2, dim=1)
        types, weights = (sorted_edges.arrange(value.to(device)) for value in (edge_type, weight))
        return gated_sum(c, sorted_edges, (a, of_targets.to(device).t()), G, F, types, weights).sum().cpu()

    def naive(of_sources: Tensor, of_targets: Tensor, tables: Tensor) -> Tensor:
        a, c = of_sources.chunk(2, dim=1)
        gates = (a, of_targets.t())
        G, F = tables.chunk(2, dim=1)
        return gated_sum_naive(c, edges.edge_index, 12, gates, G, F, edge_type, weight).sum()

    assert_same_with_gradients(fast, naive, [of_sources, of_targets, tables])


@pytest.mark.parametrize("given", ["gates gate factor weight", "factor"])
def test_second_derivatives(given: str, device: str) -> None:
    edges = EDGES["self_loops"]
    sorted_edges, edge_type = sort_edges(*edges), torch.tensor([0, 2, 2, 1])
    values = inputs_of(edges, given.split(), torch.float64)
    weight = values.pop("weight", None)

    def summed(c: Tensor, *others: Tensor) -> Tensor:
        a, b, G = others[:3] if "gates" in given else (None, None, None)
        gates = None if a is None else (a, b)
        return gated_sum(c, sorted_edges, gates, G, others[-1], edge_type, weight)

    assert torch.autograd.gradgradcheck(summed, tuple(values.values()))


def test_second_derivatives_where_one_tensor_stands_twice(device: str) -> None:
    sorted_edges = sort_edges(*EDGES["self_loops"])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def summed(x: Tensor) -> Tensor:
        return gated_sum(x, sorted_edges, (x, x))

    assert torch.autograd.gradcheck(summed, x)
    assert torch.autograd.gradgradcheck(summed, x)
    plain = torch.autograd.grad(summed(x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(summed(x).sum(), x, create_graph=True)[0], plain)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")  # the interpreter's numpy
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 100.0, -100.0])
@DTYPES
def test_numbers_that_are_far_out(value: float, dtype: torch.dtype, device: str) -> None:
    """A NaN stays one, and gates saturate as torch's do."""
    loop = sorted_on(device, ONE_LOOP)
    c, b = torch.ones(1, 40, dtype=dtype, device=device), torch.zeros(1, 40, dtype=dtype, device=device)
    a = torch.zeros(1, 40, dtype=dtype, device=device)
    a[0, ::3] = value
    out = gated_sum(c, loop, (a, b))
    torch.testing.assert_close(out, torch.sigmoid(a), equal_nan=True, rtol=1e-6, atol=1e-38)


def test_small_gates_keep_their_digits(device: str) -> None:
    a = torch.linspace(-80, 80, 1001, device=device).unsqueeze(0)
    out = gated_sum(torch.ones_like(a), sorted_on(device, ONE_LOOP), (a, torch.zeros_like(a)))
    # A GPU's exp of x is good to |x| / 2^24 or so.
    rtol = 5e-7 if device == "cpu" else 1e-5
    torch.testing.assert_close(out.double(), torch.sigmoid(a.double()), rtol=rtol, atol=0.0)


HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])


@HALF
def test_half_precision(dtype: torch.dtype, device: str) -> None:
    """Weights of another type are a case of their own: nothing is fused then."""
    edges = EDGES["random"]
    values = inputs_of(edges, GIVEN["gates weight"], torch.float32)
    c, a, b, weight = (values[name].to(device) for name in ("c", "a", "b", "weight"))
    sorted_edges = sorted_on(device, edges)
    weight = sorted_edges.arrange(weight)
    out = gated_sum(c.to(dtype), sorted_edges, (a.to(dtype), b.to(dtype)), edge_weight=weight)
    expected = gated_sum(c, sorted_edges, (a, b), edge_weight=weight)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.1)


def test_no_gradient_is_kept_when_none_is_wanted(device: str) -> None:
    values = inputs_of(EDGES["random"], ["gates"], torch.float32)
    c, a, b = (values[name].to(device) for name in "cab")
    with torch.no_grad():
        out = gated_sum(c, sorted_on(device, EDGES["random"]), (a, b))
    assert not out.requires_grad


def test_edge_gate_without_gates() -> None:
    x, edges = torch.randn(12, CHANNELS), sort_edges(*EDGES["random"])
    with pytest.raises(ValueError, match=r"edge_gate .* needs gates as well, got None"):
        gated_sum(x, edges, edge_gate=torch.zeros(3, CHANNELS), edge_type=torch.zeros(40, dtype=torch.int64))


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("written", ["edge_type", "edge_weight", "source"])
def test_what_is_written_to_before_the_gradients_is_seen(written: str, gated: bool, device: str) -> None:
    edges = sort_edges(*EDGES["random"])
    edges = edges._replace(
        **{name: getattr(edges, name).to(device) for name in ("source", "target", "indptr")}
    )
    c, a, b = torch.randn(3, 12, 4, device=device).unbind()
    fixed = {
        "edge_type": torch.randint(3, (40,), device=device),
        "edge_weight": torch.rand(40, device=device),
        "source": edges.source,
    }
    out = gated_sum(
        c.requires_grad_(),
        edges,
        (a, b) if gated else None,
        edge_factor=torch.randn(3, 4, device=device, requires_grad=True),
        edge_type=fixed["edge_type"],
        edge_weight=fixed["edge_weight"],
    )
    fixed[written].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("gated", [True, False])
def test_edges_that_were_made_in_inference_mode(gated: bool, device: str) -> None:
    """Torch saves none of these for gradients, and knows of no writes to them."""
    edges = sort_edges(*EDGES["random"])
    with torch.inference_mode():
        named = {name: getattr(edges, name).to(device).clone() for name in ("source", "target", "indptr")}
        edge_type = torch.arange(40, device=device) % 3
    c, a, b, F = torch.randn(12, 4), torch.randn(12, 4), torch.randn(12, 4), torch.randn(3, 4)
    c, a, b, F = (value.to(device).requires_grad_() for value in (c, a, b, F))
    gates = (a, b) if gated else None

    def gradient(edges: SortedEdges, edge_type: Tensor) -> Tensor:
        out = gated_sum(c, edges, gates, edge_factor=F, edge_type=edge_type)
        return torch.autograd.grad(out.square().sum(), c)[0]

    expected = gradient(edges._replace(**{n: v.clone() for n, v in named.items()}), edge_type.clone())
    torch.testing.assert_close(gradient(edges._replace(**named), edge_type), expected)
