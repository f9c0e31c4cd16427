from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.inputs.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.graph import SortedEdges, relabel_sum, relabel_sum_naive, sort_edges

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
# Every σ with everything that is given, every graph several times, in both types.
PAIRS = pytest.mark.parametrize(
    ("given", "act", "edges", "dtype"),
    [
        (given, act, [*EDGES][(5 * i + j) % len(EDGES)], (torch.float64, torch.float32)[(i + j) % 2])
        for i, given in enumerate(GIVEN)
        for j, act in enumerate(ACTS)
    ],
)
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


def sorted_on(device: str, edges: Edges) -> SortedEdges:
    return sort_edges(edges.edge_index.to(device), edges.num_sources, edges.num_targets)


def assert_fast_is_naive(
    edges: Edges, act: torch.nn.Module, values: dict[str, Tensor], device: str, typed: bool = True
) -> None:
    sorted_edges = sorted_on(device, edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),)) if typed else None
    names = list(values)

    def fast(*tensors: Tensor) -> Tensor:
        by_name = {name: tensor.to(device) for name, tensor in zip(names, tensors, strict=True)}
        weight, shift = sorted_edges.arrange(by_name.get("weight")), by_name.get("shift")
        shift = shift if typed else sorted_edges.arrange(shift)
        types = None if edge_type is None else sorted_edges.arrange(edge_type.to(device))
        return relabel_sum(by_name["m"], sorted_edges, act, shift, types, weight).cpu()

    def naive(*tensors: Tensor) -> Tensor:
        by_name = dict(zip(names, tensors, strict=True))
        others = by_name.get("shift"), edge_type, by_name.get("weight")
        return relabel_sum_naive(tensors[0], edges.edge_index, edges.num_targets, act, *others)

    assert_same_with_gradients(fast, naive, list(values.values()))


@PAIRS
def test_same_as_naive(given: str, act: str, edges: str, dtype: torch.dtype, device: str) -> None:
    values = inputs_of(EDGES[edges], GIVEN[given], dtype)
    assert_fast_is_naive(EDGES[edges], ACTS[act], values, device, "rows" not in given)


@ALL_ACTS
def test_gradients_of_every_subset(act: torch.nn.Module, device: str) -> None:
    edges = EDGES["isolated"]
    values = inputs_of(edges, GIVEN["shift weight"], torch.float64)
    for subset in range(2 ** len(values)):
        for i, value in enumerate(values.values()):
            value.requires_grad_(bool(subset >> i & 1))
        assert_fast_is_naive(edges, act, values, device)


def test_gradient_of_an_activations_parameter(device: str) -> None:
    edges, act = EDGES["random"], torch.nn.PReLU(dtype=torch.float64, device=device)
    sorted_edges, edge_type = sorted_on(device, edges), torch.randint(NUM_TYPES, (40,), device=device)
    m, shift = (value.to(device) for value in inputs_of(edges, GIVEN["shift"], torch.float64).values())
    out = relabel_sum(m, sorted_edges, act, shift, sorted_edges.arrange(edge_type))
    expected = relabel_sum_naive(m, edges.edge_index.to(device), 12, act, shift, edge_type)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    came, wanted = (torch.autograd.grad(value.square().sum(), act.weight) for value in (out, expected))
    torch.testing.assert_close(came, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("act", ["tanh", "identity"])
def test_second_derivatives(act: str, device: str) -> None:
    edges = EDGES["self_loops"]
    sorted_edges, edge_type = sort_edges(*edges), torch.tensor([0, 2, 2, 1])
    m, shift = inputs_of(edges, GIVEN["shift"], torch.float64).values()

    def cubed(m: Tensor, shift: Tensor) -> Tensor:
        return relabel_sum(m**3, sorted_edges, ACTS[act], shift, edge_type)

    assert torch.autograd.gradgradcheck(cubed, (m, shift))


def relabelled(m: Tensor, act: str) -> Tensor:
    """σ(m) of one row, by one loop."""
    loop = sorted_on(m.device.type, Edges(torch.tensor([[0], [0]]), 1, 1))
    edge_type = torch.zeros(1, dtype=torch.int64, device=m.device)
    return relabel_sum(m, loop, ACTS[act], torch.zeros_like(m), edge_type)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_tanh_keeps_its_digits(dtype: torch.dtype, device: str) -> None:
    """Also of small numbers, and it saturates; a NaN stays one, also of relu."""
    sizes = torch.logspace(-30, 2, 500, dtype=dtype, device=device)
    m = torch.cat([sizes, -sizes]).unsqueeze(0)
    rtol = 10 * torch.finfo(dtype).eps
    torch.testing.assert_close(relabelled(m, "tanh").double(), m.double().tanh(), rtol=rtol, atol=0.0)
    for act in ("tanh", "relu"):
        assert relabelled(m * float("nan"), act).isnan().all()


def test_relu_has_no_slope_at_zero(device: str) -> None:
    m = torch.zeros(1, CHANNELS, device=device, requires_grad=True)
    assert not torch.autograd.grad(relabelled(m, "relu").sum(), m)[0].any()


def test_a_subclass_of_an_activation_is_another() -> None:
    class Shifted(torch.nn.ReLU):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - 1)

    edges, types, shift = sort_edges(*EDGES["random"]), torch.zeros(40, dtype=torch.int64), torch.zeros(2, 3)
    m = torch.full((12, 3), 1.5)
    expected = relabel_sum(m - 1, edges, torch.nn.ReLU(), shift, types)
    torch.testing.assert_close(relabel_sum(m, edges, Shifted(), shift, types), expected)
