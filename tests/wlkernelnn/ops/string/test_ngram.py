"""The fast n-gram recurrence against the equations: values, all gradients, and those of gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.checks.ways import IN_TRITON
from tests.inputs.strings import LENGTHS, assert_same_with_gradients, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import Steps, decayed_scan, decayed_scan_naive, ngram_scan, ngram_scan_naive

D = 3
DECAYS = ("constant", "channels", "steps")

ALL_DECAYS = pytest.mark.parametrize("decay", DECAYS)
NORMALIZE = pytest.mark.parametrize("normalize", [False, True], ids=["plain", "normalized"])
COMPOSE = pytest.mark.parametrize("compose", ["mul", "add"])
STATE = pytest.mark.parametrize("carried", [False, True], ids=["from_zero", "from_state"])


def inputs_of(
    lengths: list[int], n: int, decay: str, carried: bool, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """What a scan reads, in string order."""
    tokens, strings = sum(lengths), len(lengths)
    inputs = {f"u{j}": normal(tokens, D, dtype=dtype) for j in range(n)}
    if decay != "constant":
        inputs["decay"] = torch.rand((D,) if decay == "channels" else (tokens, D), dtype=dtype)
    if carried:
        inputs["state"] = normal(n, strings, D, dtype=dtype)
    return inputs


def naive(lengths: list[int], compose: str, normalize: bool, **inputs: Tensor) -> list[Tensor]:
    u, decay, state = taken_apart(inputs)
    c, last = ngram_scan_naive(u, decay, ptr_of(lengths), state, compose, normalize)
    return [*c, last]


def fast(
    lengths: list[int], compose: str, normalize: bool, device: str = "cpu", **inputs: Tensor
) -> list[Tensor]:
    steps = Steps(ptr_of(lengths).to(device))
    u, decay, state = taken_apart({name: value.to(device) for name, value in inputs.items()})
    if isinstance(decay, Tensor) and decay.dim() == 2:
        decay = steps.enter(decay)
    state = None if state is None else steps.sort(state)
    c = ngram_scan([steps.enter(value) for value in u], decay, steps, state, compose, normalize)
    last = steps.unsort(torch.stack([steps.last(part) for part in c]))
    return [out.cpu() for out in (*(steps.leave(part[len(lengths) :]) for part in c), last)]


def taken_apart(inputs: dict[str, Tensor]) -> tuple[list[Tensor], float | Tensor, Tensor | None]:
    u = [value for name, value in inputs.items() if name.startswith("u")]
    return u, inputs.get("decay", 0.7), inputs.get("state")


def assert_same(
    lengths: list[int], compose: str, normalize: bool, inputs: dict[str, Tensor], device: str = "cpu"
) -> None:
    tolerance = 1e-11 if inputs["u0"].dtype == torch.float64 else 2e-5
    assert_same_with_gradients(
        lambda **values: fast(lengths, compose, normalize, device, **values),
        lambda **values: naive(lengths, compose, normalize, **values),
        inputs,
        tolerance,
    )


# Every kind of strings with every choice, and decays in turn: the interpreter is slow.
IN_TURN = [
    (lengths, DECAYS[(i + j) % 3], *choice)
    for i, lengths in enumerate(LENGTHS.values())
    for j, choice in enumerate([(1, "mul", True, True), (2, "add", True, False), (3, "mul", False, True)])
]


@pytest.mark.halved
@IN_TRITON
@pytest.mark.parametrize(("lengths", "decay", "n", "compose", "normalize", "carried"), IN_TURN)
def test_same_as_naive_in_triton(
    lengths: list[int], n: int, decay: str, compose: str, normalize: bool, carried: bool, device: str
) -> None:
    assert_same(lengths, compose, normalize, inputs_of(lengths, n, decay, carried), device)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    lengths=some_lengths,
    n=st.integers(1, 4),
    decay=st.sampled_from(DECAYS),
    compose=st.sampled_from(["mul", "add"]),
    normalize=st.booleans(),
    carried=st.booleans(),
)
def test_same_as_naive(
    lengths: list[int], n: int, decay: str, compose: str, normalize: bool, carried: bool
) -> None:
    assert_same(lengths, compose, normalize, inputs_of(lengths, n, decay, carried))


@pytest.mark.halved
@ALL_DECAYS
@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], LENGTHS["equal"]], ids=["ragged", "equal"])
def test_single_precision(lengths: list[int], decay: str, device: str) -> None:
    inputs = inputs_of(lengths, 2, decay, True, torch.float32)
    assert_same(lengths, "mul", True, inputs, device)
    assert all(out.dtype == torch.float32 for out in fast(lengths, "mul", True, device, **inputs))


@pytest.mark.parametrize("value", [0.0, 1.0])
@NORMALIZE
def test_ends_of_the_range(value: float, normalize: bool, device: str) -> None:
    """λ = 0 forgets at once, λ = 1 never; the same as a number and as a tensor."""
    lengths = [2, 0, 1, 3]
    inputs = inputs_of(lengths, 2, "channels", True)
    inputs["decay"] = torch.full((D,), value, dtype=torch.float64)
    assert_same(lengths, "mul", normalize, inputs, device)
    steps, u = Steps(ptr_of(lengths).to(device)), normal(sum(lengths), D).to(device)
    by_number, by_tensor = (
        ngram_scan([u, u], decay, steps, None, "mul", normalize)
        for decay in (value, inputs["decay"].to(device))
    )
    torch.testing.assert_close(by_number, by_tensor)


@ALL_DECAYS
@STATE
@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], LENGTHS["equal"]], ids=["ragged", "equal"])
def test_one_level_alone(lengths: list[int], decay: str, carried: bool) -> None:
    inputs = inputs_of(lengths, 1, decay, carried)
    steps = Steps(ptr_of(lengths))
    u, rate, state = inputs["u0"], inputs.get("decay", 0.7), inputs.get("state")
    before = None if state is None else state[0]
    expected, last = decayed_scan_naive(u, rate, ptr_of(lengths), before)
    if decay == "steps":
        rate = steps.enter(inputs["decay"])
    c = decayed_scan(steps.enter(u), rate, steps, None if before is None else steps.sort(before))
    torch.testing.assert_close(steps.leave(c[len(lengths) :]), expected)
    torch.testing.assert_close(steps.unsort(steps.last(c)), last)


@ALL_DECAYS
@COMPOSE
@NORMALIZE
def test_gradients_of_gradients(decay: str, compose: str, normalize: bool) -> None:
    lengths = [1, 0, 2]
    inputs = inputs_of(lengths, 2, decay, True)
    names = list(inputs)

    def scan(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(fast(lengths, compose, normalize, **dict(zip(names, values, strict=True))))

    leaves = [value.requires_grad_() for value in inputs.values()]
    assert torch.autograd.gradcheck(scan, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(scan, leaves, fast_mode=True)


def test_gradients_of_some_inputs(device: str) -> None:
    """Where only the decay, or only the state, is wanted, it is the same as with all of them."""
    lengths, steps = [2, 0, 1], Steps(ptr_of([2, 0, 1]).to(device))
    u, decay = normal(sum(lengths), D), torch.rand(D, dtype=torch.float64)
    state = normal(2, len(lengths), D)

    def gradients(*wanted: int) -> list[Tensor]:
        leaves = [
            value.clone().to(device).requires_grad_(i in wanted) for i, value in enumerate((u, decay, state))
        ]
        out = ngram_scan([leaves[0], leaves[0]], leaves[1], steps, leaves[2])
        return list(
            torch.autograd.grad(sum(part.square().sum() for part in out), [leaves[i] for i in wanted])
        )

    for i, expected in enumerate(gradients(0, 1, 2)):
        torch.testing.assert_close(gradients(i)[0], expected)


def test_inputs_are_left_alone(device: str) -> None:
    lengths = [2, 2]
    inputs = {name: value.requires_grad_() for name, value in inputs_of(lengths, 2, "steps", True).items()}
    before = {name: value.detach().clone() for name, value in inputs.items()}
    cotangents = [torch.ones_like(out) for out in fast(lengths, "mul", True, device, **inputs)]
    kept = [cotangent.clone() for cotangent in cotangents]
    torch.autograd.backward(fast(lengths, "mul", True, device, **inputs), cotangents)
    assert all(torch.equal(inputs[name], value) for name, value in before.items())
    assert all(torch.equal(a, b) for a, b in zip(cotangents, kept, strict=True))
