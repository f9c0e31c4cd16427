"""One step by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import LENGTHS, normal, ptr_of
from wlkernelnn.ops.string import GatedCell, Steps, feedback_scan_naive, gated_scan_naive, ngram_scan_naive
from wlkernelnn.ops.string.equations import Index, Step, by_step, feedback_step, gated_step, ngram_step
from wlkernelnn.sequence.layers.rkm import VARIANTS

# One token, or the tokens of a step.
PLACES = pytest.mark.parametrize("place", [1, slice(1, 2)], ids=["token", "step"])


def row(*values: float) -> torch.Tensor:
    """A token that is not to be read, and one that is."""
    return torch.tensor([[9.0] * len(values), values])


@PLACES
def test_ngram(place: Index) -> None:
    """c₁ = λ c₁ + (1 − λ) u₁, c₂ = λ c₂ + (1 − λ) (c₁ before ∘ u₂)."""
    c = [row(2.0)[place], row(4.0)[place]]
    for compose, new in (("mul", 2 * 5.0), ("add", 2 + 5.0)):
        c_1, c_2 = ngram_step([row(3.0), row(5.0)], 0.25, compose, True)(c, place, place)
        assert c_1.item() == 0.25 * 2 + 0.75 * 3
        assert c_2.item() == 0.25 * 4 + 0.75 * new


@PLACES
def test_feedback(place: Index) -> None:
    """λ = sigmoid(z + U (m ∘ h)), y = a c, h = f m σ(y) + (1 − f) x."""
    weight, mix = torch.tensor([[0.5]]), torch.tensor([[2.0]])
    step = feedback_step(
        *([row(3.0)], row(0.1), weight, "mul", False, mix, torch.tanh, (row(0.25), row(7.0)), row(0.5))
    )
    c, h = step([row(2.0)[place], row(0.4)[place]], place, place)
    decay = 1 / (1 + math.exp(-(0.1 + 0.5 * 0.5 * 0.4)))
    assert c.item() == pytest.approx(decay * 2 + 3)
    assert h.item() == pytest.approx(0.25 * 0.5 * math.tanh(2 * c.item()) + 0.75 * 7)


@PLACES
def test_gated(place: Index) -> None:
    """c = i φ(c̃) + f c, h = o ψ(c), where the gates, not c̃, see h."""
    cell = GatedCell("rest", "gate", True, squash=True, squash_output=True, feedback="gates")
    weight = torch.tensor([[0.5], [-1.0]])
    step = gated_step(cell, row(0.3, 0.1, 0.2), weight, (1.0, 0.0), None, False)
    c, h = step([row(2.0)[place], row(0.4)[place]], place, place)
    forget, output = (1 / (1 + math.exp(-z)) for z in (0.1 + 0.5 * 0.4, 0.2 - 0.4))
    assert c.item() == pytest.approx((1 - forget) * math.tanh(0.3) + forget * 2)
    assert h.item() == pytest.approx(output * math.tanh(c.item()))


D = 3
LSTM = VARIANTS["lstm"]
Rows = tuple[list[Tensor] | tuple[Tensor, ...], Tensor | tuple[Tensor, ...]]


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(
    ("of_steps", "of_strings"),
    [
        (
            lambda x, weight: ngram_step([x, 2 * x], torch.sigmoid(x), "mul", True),
            lambda x, weight, ptr, state: ngram_scan_naive([x, 2 * x], torch.sigmoid(x), ptr, state),
        ),
        (
            lambda x, weight: feedback_step([x], -x, weight, "mul", True, None, torch.tanh, None, None),
            lambda x, weight, ptr, state: feedback_scan_naive([x], -x, weight, ptr, state, act=torch.tanh),
        ),
        (
            lambda x, weight: gated_step(LSTM, x.repeat(1, 4), weight.repeat(4, 1), (1.0, 0.0), None, False),
            lambda x, weight, ptr, state: gated_scan_naive(
                LSTM, x.repeat(1, 4), weight.repeat(4, 1), ptr, state.unbind(0)
            ),
        ),
    ],
    ids=["ngram", "feedback", "gated"],
)
def test_as_strings_one_by_one(
    lengths: list[int],
    of_steps: Callable[[Tensor, Tensor], Step],
    of_strings: Callable[[Tensor, Tensor, Tensor, Tensor], Rows],
) -> None:
    ptr = ptr_of(lengths)
    steps, x, weight = Steps(ptr), normal(sum(lengths), D), normal(D, D)
    state = normal(2, len(lengths), D)
    found = by_step(of_steps(steps.enter(x), weight), steps, steps.sort(state).unbind(0), x)
    rows, last = of_strings(x, weight, ptr, state)
    for extended, row, end, begin in zip(found, rows, last, state, strict=True):
        torch.testing.assert_close(steps.unsort(extended[: steps.num_strings]), begin)
        torch.testing.assert_close(steps.leave(extended[steps.num_strings :]), row)
        if len(lengths):
            torch.testing.assert_close(steps.unsort(steps.last(extended)), end)


def test_from_zero() -> None:
    steps, x = Steps(ptr_of([2, 1])), torch.ones(3, D)
    (c,) = by_step(ngram_step([x], 0.5, "mul", False), steps, [None], x)
    assert c[:, 0].tolist() == [0, 0, 1, 1, 1.5]
