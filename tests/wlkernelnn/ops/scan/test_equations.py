"""One step by hand."""

from __future__ import annotations

import math

import pytest
import torch

from wlkernelnn.ops.scan import Cell
from wlkernelnn.ops.scan.equations import Index, feedback_step, gated_step, ngram_step

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
    cell = Cell("rest", "gate", True, squash=True, squash_output=True, feedback="gates")
    weight = torch.tensor([[0.5], [-1.0]])
    step = gated_step(cell, row(0.3, 0.1, 0.2), weight, (1.0, 0.0), None, False)
    c, h = step([row(2.0)[place], row(0.4)[place]], place, place)
    forget, output = (1 / (1 + math.exp(-z)) for z in (0.1 + 0.5 * 0.4, 0.2 - 0.4))
    assert c.item() == pytest.approx((1 - forget) * math.tanh(0.3) + forget * 2)
    assert h.item() == pytest.approx(output * math.tanh(c.item()))
