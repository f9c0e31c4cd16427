"""What the base class does for every model: orders, states, and refusals. See test_contract.py as well."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import normal, ptr_of
from wlkernelnn.ops.string import Steps, gated
from wlkernelnn.sequence import RKM, StringKernelConv, StringModel, detached
from wlkernelnn.sequence.layers.string_model import check_state


class Recorder(StringModel):
    """Gives back what it has seen, and one more in each state."""

    in_channels = out_channels = 2

    def run(self, x: Tensor, steps: Steps, state: Any) -> tuple[Tensor, Any]:
        self.seen = x, steps, state
        return x, (state[0] + 1, (state[1][0] + 1,))


def test_tokens_and_states_come_in_step_order() -> None:
    model, x, ptr = Recorder(), normal(6, 2), ptr_of([1, 3, 0, 2])
    state = normal(4, 3), (normal(2, 4, 3),)
    out, after = model(x, ptr, state)
    seen, steps, before = model.seen
    assert torch.equal(seen, Steps(ptr).enter(x))
    assert torch.equal(steps.ptr, ptr)
    by_length = [1, 3, 0, 2]
    assert torch.equal(before[0], state[0][by_length])
    assert torch.equal(before[1][0], state[1][0][:, by_length])
    assert torch.equal(out, x)
    assert torch.equal(after[0], state[0] + 1)
    assert torch.equal(after[1][0], state[1][0] + 1)


def test_padded_strings_have_steps_of_equal_length() -> None:
    model, x = Recorder(), normal(2, 3, 2)
    out, _ = model(x, state=(normal(2, 1), (normal(2, 1),)))
    seen, steps, _ = model.seen
    assert (steps.num_strings, steps.counts) == (2, [2, 2, 2])
    assert torch.equal(seen, x.transpose(0, 1).reshape(6, 2))
    assert torch.equal(out, x)


def test_compiled_models_of_several_widths() -> None:
    torch.compiler.reset()
    for width in (2, 3):
        model = Recorder()
        model.in_channels = width
        compiled = torch.compile(model._checked, fullgraph=True, backend="eager")
        assert compiled(normal(4, width)).shape == (4, width)


def test_types_that_do_not_match() -> None:
    model, x = RKM(2, 3), torch.zeros(1, 2, 2)
    _, (c, h) = model(x)
    with pytest.raises(ValueError, match=r"RKM computes in torch\.float32, got x of torch\.float64"):
        model(x.double())
    with pytest.raises(ValueError, match=r"RKM computes in torch\.float32, got x of torch\.int64"):
        model(x.long())
    with pytest.raises(ValueError, match=r"RKM computes in torch\.float32, got a state of torch\.float64"):
        model(x, state=(c, h.double()))


@pytest.mark.parametrize("stock", [True, False], ids=["stock", "fastest"])
def test_what_autocast_left_in_lower_precision(stock: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if stock:
        monkeypatch.delitem(gated.SCANS, "cpu")
    model, x = RKM(2, 3), torch.randn(1, 2, 2).bfloat16()
    expected, _ = model(x.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, (c, h) = model(x)
    assert {out.dtype, c.dtype, h.dtype} == {torch.float32}
    torch.testing.assert_close(out, expected, rtol=0.0, atol=0.03)


def test_detached() -> None:
    leaf = torch.ones(1, requires_grad=True)
    state = detached((2 * leaf, (3 * leaf,)))
    assert isinstance(state, tuple)
    assert isinstance(state[1], tuple)
    assert [part.requires_grad for part in (state[0], state[1][0])] == [False, False]  # type: ignore[union-attr]
    assert [float(part) for part in (state[0], state[1][0])] == [2, 3]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a state is a tensor or a tuple of states, got NoneType"):
        detached((None,))  # type: ignore[arg-type]


def test_check_state() -> None:
    state = torch.zeros(2, 3)
    assert check_state("Some", state, (2, 3)) is state
    with pytest.raises(ValueError, match=r"Some needs a state of shape \[2, 4\], got \[2, 3\]"):
        check_state("Some", state, (2, 4))
    with pytest.raises(ValueError, match=r"Some needs a state of shape \[2, 4\], got tuple"):
        check_state("Some", (state,), (2, 4))


def test_a_lazy_model_knows_its_width_from_then_on() -> None:
    model = RKM(-1, 4, ngram=2)
    model(torch.randn(2, 5, 3))
    assert model.in_channels == 3
    with pytest.raises(ValueError, match="RKM reads tokens of 3 values, got x of shape"):
        model(torch.randn(2, 5, 7))


@pytest.mark.parametrize(
    "make", [lambda: RKM(3, 4, "lstm"), lambda: RKM(3, 4), lambda: StringKernelConv(3, 4, 1)]
)
@pytest.mark.parametrize(("strings", "length"), [(1, 5), (4, 1), (1, 1), (2, 3)])
def test_what_is_read_may_be_changed(make: Any, strings: int, length: int) -> None:
    """Neither the states nor what gradients need lie in the same memory."""
    model, x = make(), torch.randn(strings, length, 3)
    expected, expected_state = model(x)
    out, state = model(x)
    out.mul_(2).sum().backward()
    torch.testing.assert_close(state, expected_state)
    torch.testing.assert_close(out, 2 * expected)
