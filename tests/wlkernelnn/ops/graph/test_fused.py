"""Which loops take which values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from wlkernelnn.ops.autograd import optional_module
from wlkernelnn.ops.graph import fused

FULL = {torch.float32, torch.float64}
HALF = {torch.float16, torch.bfloat16}


def test_loops_take_their_types() -> None:
    pytest.importorskip("numba")
    assert fused.numba_loops() is not None
    for dtype in FULL | HALF | {torch.int64, torch.complex64}:
        value = torch.ones(1, dtype=dtype)
        assert fused.loops_for([None, value, None]) is (fused.numba_loops() if dtype in FULL else None)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: (value.double(), None),
        lambda value: (value, value.double()),
        lambda value: (value.to("meta"), None),
        lambda value: (value, value.detach().requires_grad_()),
    ],
    ids=["two_types", "weight_of_another_type", "two_devices", "trained_weight"],
)
def test_values_that_no_loops_take(change: Callable[[torch.Tensor], tuple[Any, Any]]) -> None:
    pytest.importorskip("numba")
    value = torch.ones(1)
    assert fused.loops_for([value, value]) is fused.numba_loops()
    other, weight = change(value)
    assert fused.loops_for([value, None, other, weight]) is None


def test_other_devices_have_no_loops() -> None:
    assert fused.loops_for([torch.ones(1, device="meta"), None]) is None


def test_no_gradient_of_a_weight_is_needed_without_gradients() -> None:
    pytest.importorskip("numba")
    with torch.no_grad():
        assert fused.loops_for([torch.ones(1), torch.ones(1, requires_grad=True)]) is fused.numba_loops()


def test_nothing_is_fused_when_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert fused.loops_for([torch.ones(1), None]) is None


def test_loops_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, *fused.numba_loops.args, None)
    assert optional_module.__wrapped__(*fused.numba_loops.args) is None
