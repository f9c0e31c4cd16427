"""The fast recurrence with feedback against the equations: values, all gradients, and those of gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.inputs.strings import LENGTHS, assert_same_with_gradients, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import Steps, feedback_scan, feedback_scan_naive, ngram_scan

D = 3

SWITCHES: dict[str, tuple[Any, Any]] = {
    "compose": ("mul", "add"),
    "normalize": (True, False),
    "mixed": (False, True),
    "carry": (False, True),
    "masked": (False, True),
    "state": (False, True),
}
ACTS = ("identity", "tanh", "prelu")


def inputs_of(lengths: list[int], n: int, options: dict[str, Any]) -> dict[str, Tensor]:
    """What a scan reads, in string order."""
    tokens, strings, dtype = sum(lengths), len(lengths), options.get("dtype", torch.float64)
    shapes = {f"u{j}": (tokens, D) for j in range(n)} | {"logits": (tokens, D), "weight": (D, D)}
    if options.get("mixed"):
        shapes["mix"] = (n, D)
    if options.get("carry"):
        shapes |= {"f": (tokens, D), "x": (tokens, D)}
    if options.get("state"):
        shapes["state"] = (n + 1, strings, D)
    if options.get("act") == "prelu":
        shapes["slope"] = (1,)
    return {name: normal(*shape, dtype=dtype) for name, shape in shapes.items()}


class Slope(torch.nn.Module):
    """PReLU whose parameter is a leaf from elsewhere: gradients must arrive there."""

    def __init__(self, slope: Tensor) -> None:
        super().__init__()
        self._parameters["slope"] = slope  # type: ignore[assignment]  # a Parameter would be another leaf

    def forward(self, y: Tensor) -> Tensor:
        return torch.nn.functional.prelu(y, self.slope)


def scanned(
    fast: bool, lengths: list[int], options: dict[str, Any], inputs: dict[str, Tensor]
) -> list[Tensor]:
    """By the fast version or by the naive one, from string order to string order."""
    steps = Steps(ptr_of(lengths))

    def same(value: Any) -> Any:
        return value

    enter, sort = (steps.enter, steps.sort) if fast else (same, same)
    u = [enter(value) for name, value in inputs.items() if name.startswith("u")]
    act: torch.nn.Module | None = torch.nn.Tanh() if options.get("act") == "tanh" else None
    if "slope" in inputs:
        act = Slope(inputs["slope"])
    state = sort(inputs["state"]) if "state" in inputs else None
    carry = (enter(inputs["f"]), enter(inputs["x"])) if "f" in inputs else None
    generator = torch.Generator().manual_seed(3)
    mask = 2 * torch.rand(len(lengths), D, generator=generator).to(u[0]).round()
    arguments = {name: options[name] for name in ("compose", "normalize") if name in options}
    arguments |= {"mix": inputs.get("mix"), "act": act, "carry": carry}
    arguments["mask"] = sort(mask) if options.get("masked") else None
    if fast:
        found = feedback_scan(u, enter(inputs["logits"]), inputs["weight"], steps, state, **arguments)
        last = steps.unsort(torch.stack([steps.last(part) for part in found]))
        return [*(steps.leave(part[len(lengths) :]) for part in found), last]
    given = inputs["logits"], inputs["weight"], ptr_of(lengths), state
    rows, last = feedback_scan_naive(u, *given, **arguments)
    return [*rows, last]


def assert_same(lengths: list[int], n: int, options: dict[str, Any], tolerance: float = 1e-11) -> None:
    assert_same_with_gradients(
        lambda **inputs: scanned(True, lengths, options, inputs),
        lambda **inputs: scanned(False, lengths, options, inputs),
        inputs_of(lengths, n, options),
        tolerance,
    )


FULL = {"mixed": True, "carry": True, "masked": True, "state": True, "act": "tanh"}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("options", [{}, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("n", [1, 3])
def test_same_as_naive_on_strings_of_every_kind(lengths: list[int], n: int, options: dict[str, Any]) -> None:
    assert_same(lengths, n, options)


@settings(deadline=None, max_examples=75, derandomize=True)
@given(
    lengths=some_lengths,
    n=st.integers(1, 3),
    options=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in SWITCHES.items()}),
    act=st.sampled_from(ACTS),
)
def test_same_as_naive_on_any_strings(lengths: list[int], n: int, options: dict[str, Any], act: str) -> None:
    assert_same(lengths, n, {**options, "act": act})


@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], LENGTHS["equal"]], ids=["ragged", "equal"])
def test_single_precision(lengths: list[int]) -> None:
    options = {**FULL, "dtype": torch.float32}
    assert_same(lengths, 2, options, tolerance=5e-5)
    for out in scanned(True, lengths, options, inputs_of(lengths, 2, options)):
        assert out.dtype == torch.float32


@pytest.mark.parametrize(
    "options", [{}, FULL, {**FULL, "normalize": False, "compose": "add"}], ids=["plain", "full", "full-add"]
)
def test_gradients_of_gradients(options: dict[str, Any]) -> None:
    lengths, inputs = [1, 0, 2], inputs_of([1, 0, 2], 2, options)
    names = list(inputs)

    def scan(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(scanned(True, lengths, options, dict(zip(names, values, strict=True))))

    leaves = [value.requires_grad_() for value in inputs.values()]
    assert torch.autograd.gradcheck(scan, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(scan, leaves, fast_mode=True)


def test_without_weight_it_is_the_gate_of_tokens() -> None:
    """U = 0: the n-gram scan with λ_t = sigmoid(z_t)."""
    lengths = LENGTHS["ragged"]
    steps, inputs = Steps(ptr_of(lengths)), inputs_of(lengths, 3, {})
    u = [inputs[f"u{j}"] for j in range(3)]
    *c, h = feedback_scan(u, inputs["logits"], torch.zeros(D, D).double(), steps)
    expected = ngram_scan(u, torch.sigmoid(inputs["logits"]), steps)
    for came, wanted in zip(c, expected, strict=True):
        torch.testing.assert_close(came, wanted)
    torch.testing.assert_close(h, expected[-1])


def test_inputs_are_left_alone() -> None:
    lengths, inputs = LENGTHS["equal"], inputs_of(LENGTHS["equal"], 2, FULL)
    before = {name: value.clone() for name, value in inputs.items()}
    leaves = {name: value.requires_grad_() for name, value in inputs.items()}
    out = scanned(True, lengths, FULL, leaves)
    cotangents = [torch.ones_like(part) for part in out]
    torch.autograd.backward(out, cotangents)
    assert all(torch.equal(inputs[name], value) for name, value in before.items())
    assert all(bool((cotangent == 1).all()) for cotangent in cotangents)


@pytest.mark.parametrize("act", [torch.nn.RReLU(), torch.nn.Dropout(0.5)], ids=repr)
def test_gradients_of_an_activation_that_draws(act: torch.nn.Module) -> None:
    """They are of what was drawn, not of another draw."""
    lengths = [2, 0, 3]
    steps, inputs = Steps(ptr_of(lengths)), inputs_of(lengths, 2, {})

    def scan(u0: Tensor, u1: Tensor, logits: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        torch.manual_seed(1)
        return feedback_scan([u0, u1], logits, weight, steps, act=act)

    leaves = [value.requires_grad_() for value in inputs.values()]
    assert torch.autograd.gradcheck(scan, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(scan, leaves, fast_mode=True)


def test_gradients_of_a_mask() -> None:
    lengths = [2, 0, 3]
    steps, inputs = Steps(ptr_of(lengths)), inputs_of(lengths, 2, {})
    mask = torch.rand(3, D, dtype=torch.float64, requires_grad=True)

    def scan(mask: Tensor) -> tuple[Tensor, ...]:
        u = [inputs["u0"], inputs["u1"]]
        return feedback_scan(u, inputs["logits"], inputs["weight"], steps, mask=mask)

    assert torch.autograd.gradcheck(scan, (mask,))


def test_an_activation_that_could_draw_and_does_not() -> None:
    lengths, leak = [2, 0, 3], (1 / 8 + 1 / 3) / 2
    steps, inputs = Steps(ptr_of(lengths)), inputs_of(lengths, 1, {})
    scans = [
        feedback_scan([inputs["u0"]], inputs["logits"], inputs["weight"], steps, act=act)
        for act in (torch.nn.RReLU().eval(), torch.nn.LeakyReLU(leak))
    ]
    for came, expected in zip(*scans, strict=True):
        torch.testing.assert_close(came, expected)
