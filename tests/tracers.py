"""Everything of PyTorch that records or transforms a module, beside what the module does itself.

Each way takes a module in float64 and one input; it raises where the recorded program has
other values or other gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, hessian, jvp, linearize, vjp
from torch.fx.experimental.proxy_tensor import make_fx

close = torch.testing.assert_close


def values_and_gradients(
    module: Callable[[Tensor], Tensor], weights: Sequence[Tensor], x: Tensor
) -> list[Tensor]:
    """The output, and the gradients of the sum of its squares."""
    leaf = x.clone().requires_grad_()
    out = module(leaf)
    return [out, *torch.autograd.grad(out.square().sum(), [leaf, *weights], materialize_grads=True)]


def _exported(module: torch.nn.Module, x: Tensor, strict: bool) -> None:
    program = torch.export.export(module, (x,), strict=strict).module()
    named = dict(program.named_parameters())
    weights = [named[name] for name, _ in module.named_parameters()]
    expected = values_and_gradients(module, list(module.parameters()), x)
    close(values_and_gradients(program, weights, x), expected)


def exported(module: torch.nn.Module, x: Tensor) -> None:
    _exported(module, x, strict=False)


def exported_strictly(module: torch.nn.Module, x: Tensor) -> None:
    _exported(module, x, strict=True)


def made_fx(module: torch.nn.Module, x: Tensor) -> None:
    other = torch.randn_like(x)
    close(make_fx(module)(x)(other), module(other))

    def gradient(x: Tensor) -> list[Tensor]:
        return values_and_gradients(module, [], x)[1:]

    close(make_fx(gradient)(x)(other), gradient(other))


def fake(module: torch.nn.Module, x: Tensor) -> None:
    expected = module(x)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        out = module(mode.from_tensor(x))
    assert (out.shape, out.dtype) == (expected.shape, expected.dtype)


def linearized(module: torch.nn.Module, x: Tensor) -> None:
    direction = torch.randn_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of the graph that it makes
        out, along = linearize(module, x)
    close(out, module(x))
    close(along(direction), jvp(module, (x,), (direction,))[1])


def traced(module: torch.nn.Module, x: Tensor) -> None:
    other, weights = torch.randn_like(x), list(module.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.jit.trace(module, (x,), check_trace=False)
    close(values_and_gradients(program, weights, other), values_and_gradients(module, weights, other))


def compiled_transforms(module: torch.nn.Module, x: Tensor) -> None:
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    direction = torch.randn_like(x)

    def run(x: Tensor) -> Tensor:
        return functional_call(module, weights, (x,))

    def derivatives(x: Tensor) -> tuple[Tensor, ...]:
        out, back = vjp(run, x)
        return (
            *jvp(run, (x,), (direction,)),
            *back(torch.ones_like(out)),
            hessian(lambda x: run(x).square().sum())(x),
        )

    torch.compiler.reset()
    close(torch.compile(derivatives, backend="eager")(x), derivatives(x))


WAYS = (exported, exported_strictly, made_fx, fake, linearized, traced, compiled_transforms)
