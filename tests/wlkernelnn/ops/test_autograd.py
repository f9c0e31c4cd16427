from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from wlkernelnn.ops.autograd import differentiable_gradients, traced

Run = Callable[[Callable[[Tensor], Tensor], Tensor], object]


def _in_dual_level(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with forward_ad.dual_level():
        function(forward_ad.make_dual(x, x))


def _in_mode(mode: type) -> Run:
    def run(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
        with mode():
            function(x)

    return run


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = function


TRACERS: dict[str, Run] = {
    "compile": lambda f, x: torch.compile(f, backend="eager", fullgraph=True)(x),
    "export": lambda f, x: torch.export.export(_Function(f), (x,), strict=False),
    "jit.trace": lambda f, x: torch.jit.trace(f, x, check_trace=False),
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "dual level": _in_dual_level,
    "make_fx": lambda f, x: make_fx(f)(x),
    "fake mode": _in_mode(lambda: FakeTensorMode(allow_non_fake_inputs=True)),  # type: ignore[arg-type]
    "fake tensor": lambda f, x: f(FakeTensorMode().from_tensor(x)),
    "counter": _in_mode(lambda: FlopCounterMode(display=False)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("tracer", TRACERS)
def test_tracers_are_seen(tracer: str) -> None:
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        seen.append(traced(x))
        return x + 1

    TRACERS[tracer](function, torch.ones(2))
    assert seen
    assert all(seen)


def test_plain_runs_are_not_traced() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    assert not traced()
    assert not traced(x, None, x.data)
    with torch.inference_mode(), torch.autocast("cpu"):
        assert not traced(x + 1)
    with torch.device("cpu"), torch.autograd.graph.save_on_cpu():
        assert not traced(x + 1)


def composed(a: Tensor, factor: float, b: Tensor, unused: Tensor) -> tuple[Tensor, Tensor]:
    return factor * a**2 * b, b**3


def test_gradients_and_theirs() -> None:
    a, b = (torch.tensor([value], dtype=torch.float64, requires_grad=True) for value in (2.0, 3.0))
    unused = torch.ones(1, dtype=torch.float64, requires_grad=True)
    grads = [torch.tensor([1.0]).double(), torch.tensor([10.0]).double()]
    found = differentiable_gradients(composed, (a, 5.0, b, unused), (True, False, True, True), grads)
    of_a, nothing, of_b, of_unused = found
    assert nothing is None
    assert of_unused is None
    assert of_a is not None
    assert of_b is not None
    assert of_a.item() == 5 * 2 * 2 * 3  # 5 · 2ab
    assert of_b.item() == 5 * 4 + 10 * 3 * 9  # 5a² + 10 · 3b²
    second = torch.autograd.grad(of_a, (a, b))
    assert [value.item() for value in second] == [5 * 2 * 3, 5 * 2 * 2]


def test_gradients_of_what_is_not_wanted_are_left_out() -> None:
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    found = differentiable_gradients(
        composed, (a, 1.0, b, b), (False, False, True, False), [torch.ones(1)] * 2
    )
    assert [value is None for value in found] == [True, True, False, True]


def test_results_that_nothing_changes() -> None:
    a, b = torch.tensor([2.0], requires_grad=True), torch.ones(1)
    grads = [torch.ones(1), torch.ones(1)]
    of_a, *_ = differentiable_gradients(composed, (a, 1.0, b, b), (True, False, False, False), grads)
    assert of_a is not None
    assert of_a.item() == 4
    (of_a,) = differentiable_gradients(lambda a: (b, b), (a,), (True,), grads)
    assert of_a is not None
    assert of_a.item() == 0


def test_one_tensor_in_two_places() -> None:
    """Each place has a gradient of its own."""
    a = torch.tensor([2.0], requires_grad=True)
    found = differentiable_gradients(lambda x, y: (x**2 * y,), (a, a), (True, True), [torch.ones(1)])
    assert [value.item() for value in found if value is not None] == [8, 4]
    second = torch.autograd.grad([value for value in found if value is not None], a)
    assert second[0].item() == 2 * 2 + 2 * 2 + 2 * 2  # of 2a² and of a², at a = 2
