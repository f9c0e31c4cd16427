from __future__ import annotations

import numpy as np
import pytest
import torch

from wlkernelnn.blocks.decay import Decay


@pytest.mark.parametrize("value", [0, 0.0, 0.3, 1, 1.0, np.float32(0.5)], ids=repr)
def test_constant(value: float) -> None:
    decay = Decay(value, 4)
    assert decay() == value
    assert not decay.gated
    assert not list(decay.parameters())


def test_learned_is_a_vector_between_0_and_1_that_starts_at_one_half() -> None:
    decay = Decay("learned", 4)
    value = decay()
    assert isinstance(value, torch.Tensor)
    assert value.tolist() == [0.5] * 4
    value[1].backward()
    assert decay.logit is not None
    assert decay.logit.grad is not None
    assert decay.logit.grad.tolist() == [0, 0.25, 0, 0]
    with torch.no_grad():
        decay.logit.copy_(torch.tensor([-10.0, -1.0, 1.0, 10.0]))
    value = decay()
    assert isinstance(value, torch.Tensor)
    torch.testing.assert_close(value, torch.tensor([-10.0, -1.0, 1.0, 10.0]).sigmoid())
    decay.reset_parameters()
    assert not decay.logit.any()


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("widths", [(3,), (3, 5), (3, 5, 2)], ids=str)
def test_gate_is_its_equation(widths: tuple[int, ...], scale: float) -> None:
    decay = Decay("gated", 4, widths, gate_scale=scale).double()
    assert decay.gated
    inputs = [torch.randn(7, width, dtype=torch.float64) for width in widths]
    logits = decay.lins[-1].bias.expand(7, 4)
    for lin, value in zip(decay.lins, inputs, strict=True):
        logits = logits + value @ lin.weight.t()
    projected = decay.project(*inputs)
    assert [p.shape for p in projected] == [(7, 4)] * len(widths)
    torch.testing.assert_close(decay.gate(torch.stack(projected).sum(0)), scale / (1 + torch.exp(-logits)))
    # One matrix for each input, and one bias in all.
    assert sum(p.numel() for p in decay.parameters()) == 4 * sum(widths) + 4


def test_reset_draws_the_gate_again() -> None:
    decay = Decay("gated", 4, (3, 3))
    before = [p.clone() for p in decay.parameters()]
    decay.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, decay.parameters(), strict=True))


def test_gate_needs_one_value_for_every_input() -> None:
    with pytest.raises(ValueError, match="zip"):
        Decay("gated", 4, (3, 3)).project(torch.zeros(2, 3))


def test_a_gate_has_no_value_of_its_own() -> None:
    with pytest.raises(TypeError, match="project"):
        Decay("gated", 4, (3, 3))()


@pytest.mark.parametrize("value", [-0.1, 1.01, float("nan"), "Gated", "", None, [0.5], True], ids=repr)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r'decay must be a float in \[0, 1\], "learned" or "gated", got'):
        Decay(value, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.5, "learned"], ids=repr)
def test_only_a_gate_has_a_scale(value: float | str) -> None:
    with pytest.raises(ValueError, match="gate_scale=10"):
        Decay(value, 4, gate_scale=10.0)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), "10"], ids=repr)
def test_a_scale_is_a_number(scale: object) -> None:
    with pytest.raises(ValueError, match="gate_scale must be a finite number, got"):
        Decay("gated", 4, (3,), gate_scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decay", "text"),
    [
        (Decay(0.5, 4), "Decay(0.5)"),
        (Decay("learned", 4), "Decay('learned')"),
        (Decay("gated", 4, (3, 3), gate_scale=10.0), "Decay('gated', gate_scale=10)"),
    ],
    ids=["constant", "learned", "gated"],
)
def test_repr(decay: Decay, text: str) -> None:
    assert repr(decay) == text
