"""The fast gated memory against its equations: values, all gradients, and those of gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.inputs.strings import LENGTHS, assert_same_with_gradients, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import GatedCell, Steps, gated, gated_scan, gated_scan_naive, gated_sweeps
from wlkernelnn.sequence.layers.rkm import VARIANTS

# Of tokens, and of states: more than eight, which numba's products take at once.
M, D = 2, 9

CELLS = {name: cell for name, cell in VARIANTS.items() if cell.forget is not None}
CELLS |= {f"{name}-blind": replace(cell, feedback="none") for name, cell in CELLS.items()}
NORMS = ("none", "output", "state")


@pytest.fixture(params=["sweeps", "numba", "numba_by_step"], autouse=True, scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The memory is computed by stock operations, or by numba's loops, with their own products or others."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "sweeps":
            monkeypatch.delitem(gated.SCANS, "cpu")
        else:
            pytest.importorskip("numba")
        if request.param == "numba_by_step":
            monkeypatch.setattr(gated.numba_gated(), "LOOP_AT_MOST", 0)
        yield request.param


def test_who_computes(way: str) -> None:
    taken = gated.gated_for(torch.zeros(1, 1), None)
    assert taken is (gated_sweeps if way == "sweeps" else gated.numba_gated())
    for others in (
        (torch.zeros(1), torch.zeros(1, dtype=torch.float64)),
        (torch.zeros(1, dtype=torch.half),),
    ):
        assert gated.gated_for(*others) is gated_sweeps


def inputs_of(
    cell: GatedCell, lengths: list[int], norm: str, carried: bool, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """What a scan reads, in string order."""
    width = len(cell.parts) * D
    shapes: dict[str, tuple[int, ...]] = {"x": (sum(lengths), M), "weight": (width, M)}
    if cell.bias:
        shapes["bias"] = (width,)
    if cell.num_seeing:
        shapes["feedback"] = (cell.num_seeing * D, D)
    if carried:
        shapes |= {"c": (len(lengths), D), "h": (len(lengths), D)}
    if norm != "none":
        shapes |= {"gamma": (D,), "beta": (D,)}
    if cell.input == "constant":
        shapes["scale_i"] = (1,)
    if cell.forget == "constant":
        shapes["scale_f"] = (D,)
    return {name: normal(*shape, dtype=dtype) for name, shape in shapes.items()}


class Norm(torch.nn.LayerNorm):
    """With parameters that are leaves from elsewhere: gradients must arrive there."""

    def __init__(self, gamma: Tensor, beta: Tensor) -> None:
        super().__init__(D)
        self._parameters |= {"weight": gamma, "bias": beta}  # type: ignore[assignment]


def scanned(
    fast: bool, cell: GatedCell, lengths: list[int], norm_kind: str, inputs: dict[str, Tensor]
) -> list[Tensor]:
    """By the fast version or by the naive one, from string order to string order."""
    norm = Norm(inputs["gamma"], inputs["beta"]) if "gamma" in inputs else None
    scales = inputs.get("scale_i", 0.4), inputs.get("scale_f", 0.7)
    states = [inputs.get("c"), inputs.get("h")]
    options: tuple[Any, ...] = (scales, norm, norm_kind == "state")
    weights = inputs["weight"], inputs.get("bias")
    feedback = inputs.get("feedback")
    if not fast:
        parts = torch.nn.functional.linear(inputs["x"], *weights)
        rows, last = gated_scan_naive(cell, parts, feedback, ptr_of(lengths), states, *options)
        return [*rows, *last]
    steps = Steps(ptr_of(lengths))
    states = [before if before is None else steps.sort(before) for before in states]
    found = gated_scan(cell, steps.enter(inputs["x"]), *weights, feedback, steps, states, *options)
    last = tuple(steps.unsort(steps.last(part)) for part in found)
    return [*(steps.leave(part[len(lengths) :]) for part in found), *last]


def assert_same(
    cell: GatedCell, lengths: list[int], norm: str, carried: bool, dtype: torch.dtype = torch.float64
) -> None:
    assert_same_with_gradients(
        lambda **inputs: scanned(True, cell, lengths, norm, inputs),
        lambda **inputs: scanned(False, cell, lengths, norm, inputs),
        inputs_of(cell, lengths, norm, carried, dtype),
        1e-10 if dtype == torch.float64 else 2e-3,
    )


@pytest.mark.parametrize("number", range(len(CELLS)), ids=CELLS)
def test_same_as_naive(number: int) -> None:
    cell = [*CELLS.values()][number]
    assert_same(cell, [2, 0, 3], NORMS[number % 3], number % 2 == 0)


@pytest.mark.parametrize("name", ["lstm", "linear-blind", "rkm_cifg"])
def test_same_as_naive_on_two_threads(way: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "sweeps":
        pytest.skip("torch's own threads")
    monkeypatch.setattr(gated.numba_gated(), "GRAIN", 1)
    torch.set_num_threads(2)
    try:
        assert_same(CELLS[name], LENGTHS["ragged"], "state", True)
    finally:
        torch.set_num_threads(1)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    cell=st.sampled_from(list(CELLS.values())),
    lengths=some_lengths,
    norm=st.sampled_from(NORMS),
    carried=st.booleans(),
)
def test_same_as_naive_on_any_strings(cell: GatedCell, lengths: list[int], norm: str, carried: bool) -> None:
    assert_same(cell, lengths, norm, carried)


@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], LENGTHS["equal"]], ids=["ragged", "equal"])
@pytest.mark.parametrize("cell", [CELLS["lstm"], CELLS["ran"]], ids=["lstm", "ran"])
def test_single_precision(cell: GatedCell, lengths: list[int]) -> None:
    assert_same(cell, lengths, "output", True, torch.float32)
    inputs = inputs_of(cell, lengths, "output", True, torch.float32)
    for out in scanned(True, cell, lengths, "output", inputs):
        assert out.dtype == torch.float32


def test_under_autocast() -> None:
    """Products are of lower precision, states and gradients are not."""
    cell, lengths = CELLS["lstm"], LENGTHS["equal"]
    leaves = {k: v.requires_grad_() for k, v in inputs_of(cell, lengths, "none", True, torch.float32).items()}
    expected = scanned(True, cell, lengths, "none", leaves)
    with torch.autocast("cpu", torch.bfloat16):
        outs = scanned(True, cell, lengths, "none", leaves)
    of_expected, of_outs = (
        torch.autograd.grad(sum(part.sum() for part in parts), list(leaves.values()))
        for parts in (expected, outs)
    )
    for came, right in zip([*outs, *of_outs], [*expected, *of_expected], strict=True):
        assert came.dtype == torch.float32
        assert bool((came - right).norm() < 0.05 * right.norm())


@pytest.mark.halved
@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("lstm", "none"),
        ("lstm", "output"),
        ("rkm_cifg", "state"),
        ("linear_gated", "state"),
        ("ran_tanh", "output"),
    ],
)
def test_gradients_of_gradients(name: str, norm: str) -> None:
    cell, lengths = CELLS[name], [1, 0, 2]
    inputs = inputs_of(cell, lengths, norm, True)
    names = list(inputs)

    def scan(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(scanned(True, cell, lengths, norm, dict(zip(names, values, strict=True))))

    leaves = [value.requires_grad_() for value in inputs.values()]
    assert torch.autograd.gradcheck(scan, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(scan, leaves, fast_mode=True)


def test_gradients_twice() -> None:
    """Of one forward pass, whose values are kept."""
    for cell in (CELLS["lstm"], CELLS["lstm-blind"]):
        inputs = inputs_of(cell, LENGTHS["ragged"], "output", True)
        leaves = [value.requires_grad_() for value in inputs.values()]
        out = sum(part.sum() for part in scanned(True, cell, LENGTHS["ragged"], "output", inputs))
        first, again = (torch.autograd.grad(out, leaves, retain_graph=True) for _ in range(2))
        assert all(map(torch.equal, first, again))


def test_inputs_are_left_alone() -> None:
    cell, lengths = CELLS["rkm_lstm"], LENGTHS["equal"]
    inputs = inputs_of(cell, lengths, "output", True)
    before = {name: value.clone() for name, value in inputs.items()}
    out = scanned(True, cell, lengths, "output", {name: v.requires_grad_() for name, v in inputs.items()})
    cotangents = [torch.ones_like(part) for part in out]
    torch.autograd.backward(out, cotangents)
    assert all(torch.equal(inputs[name], value) for name, value in before.items())
    assert all(bool((cotangent == 1).all()) for cotangent in cotangents)


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_a_transposed_matrix(bias: bool) -> None:
    """Without W the parts are x itself, whose rows need not lie one behind the other."""
    cell = CELLS["rkm_lstm-blind"]
    width = len(cell.parts) * D
    x, b, steps = normal(8, width), normal(width) if bias else None, Steps(ptr_of([3, 0, 5]))

    def gradient(x: Tensor) -> Tensor:
        _, h = gated_scan(cell, x.requires_grad_(), None, b, None, steps)
        return torch.autograd.grad(h.square().sum(), x)[0]

    expected = gradient(x.clone())
    torch.testing.assert_close(gradient(x.t().contiguous().t()), expected, rtol=1e-12, atol=1e-12)
