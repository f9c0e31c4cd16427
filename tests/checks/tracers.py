"""Whatever in PyTorch records or transforms operations, held against the plain run: values and gradients.

Each way takes a module in float64, its arguments, and others of the same shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

Module = torch.nn.Module
Tensors = Sequence[Tensor]
close = torch.testing.assert_close


def _values_and_gradients(module: Module, args: Tensors, parameters: dict[str, Tensor]) -> list[Tensor]:
    """The result and the gradients of the first argument and of the parameters, for one fixed cotangent."""
    x = args[0].detach().clone().requires_grad_()
    out = module(x, *args[1:])
    along = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return [out, *torch.autograd.grad(out, [x, *parameters.values()], along, materialize_grads=True)]


def _assert_same(traced: Module, module: Module, args: Tensors) -> None:
    own = dict(traced.named_parameters())
    known = dict(module.named_parameters())
    unused = [name for name in known if name not in own]  # strict export leaves these out
    assert not any(map(torch.any, _values_and_gradients(module, args, {n: known[n] for n in unused})[2:]))
    kept = {name: value for name, value in known.items() if name in own}
    close(
        _values_and_gradients(traced, args, {name: own[name] for name in kept}),
        _values_and_gradients(module, args, kept),
    )


def exports(module: Module, args: Tensors, other: Tensors, strict: bool) -> None:
    exported = torch.export.export(copy.deepcopy(module), tuple(args), strict=strict).module()
    _assert_same(exported, module, other)


def jit_traces(module: Module, args: Tensors, other: Tensors) -> None:
    _assert_same(torch.jit.trace(copy.deepcopy(module), tuple(args)), module, other)


def makes_fx(module: Module, args: Tensors, other: Tensors) -> None:
    def gradient(*args: Tensor) -> Tensor:
        return _values_and_gradients(module, args, {})[1]

    for function in (lambda *args: module(*args), gradient):
        close(make_fx(function)(*args)(*other), function(*other))


def linearizes(module: Module, args: Tensors, other: Tensors) -> None:
    out, tangent = torch.func.linearize(lambda x: module(x, *args[1:]), args[0])
    expected = torch.func.jvp(lambda x: module(x, *args[1:]), (args[0],), (other[0],))
    close((out, tangent(other[0])), expected)
    _, pullback = torch.func.vjp(lambda x: module(x, *args[1:]), args[0])
    along = torch.randn_like(out)
    close((expected[1] * along).sum(), (pullback(along)[0] * other[0]).sum())


def takes_fakes(module: Module, args: Tensors, other: Tensors) -> None:
    """In the mode, and fake tensors by themselves."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    weights = {name: mode.from_tensor(value) for name, value in module.named_parameters()}
    fakes = tuple(map(mode.from_tensor, args))
    with mode:
        inside = torch.func.functional_call(module, weights, fakes)
    outside = torch.func.functional_call(module, weights, fakes)
    for out in (inside, outside):
        assert isinstance(out, FakeTensor)
        assert out.shape == module(*args).shape


def vmaps(module: Module, args: Tensors, other: Tensors) -> None:
    several = torch.stack([args[0], other[0]])
    came = torch.func.vmap(lambda x: module(x, *args[1:]))(several)
    close(came, torch.stack([module(x, *args[1:]) for x in several]))


def batches_gradients(module: Module, args: Tensors, other: Tensors) -> None:
    """A backward pass under vmap, of a plain forward pass."""
    x = args[0].clone().requires_grad_()
    out = module(x, *args[1:])
    along = torch.stack([torch.ones_like(out), torch.randn_like(out)])
    (came,) = torch.autograd.grad(out, x, along, is_grads_batched=True, retain_graph=True)
    close(came, torch.stack([torch.autograd.grad(out, x, a, retain_graph=True)[0] for a in along]))


def compiles_transforms(module: Module, args: Tensors, other: Tensors, backend: str = "aot_eager") -> None:
    """jvp, vjp and hessian, which a compiler once got wrong without a word."""

    def run(x: Tensor) -> Tensor:
        return module(x, *args[1:])

    def transforms(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, pullback = torch.func.vjp(run, x)
        hessian = torch.func.hessian(lambda row: run(torch.cat([row, x[1:]])).square().sum())(x[:1])
        return torch.func.jvp(run, (x,), (v,))[1], pullback(out)[0], hessian

    torch.compiler.reset()
    came = torch.compile(transforms, backend=backend)(args[0], other[0])
    close(came, transforms(args[0], other[0]))


#: What jit.trace says of checks of shapes, and linearize of the weights that it closes over.
QUIET = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]
#: Quick ones, from (module, arguments, other arguments of the same shapes) to an assertion.
TRACERS: dict[str, Callable[[Module, Tensors, Tensors], None]] = {
    "export": lambda *given: exports(*given, strict=False),
    "jit.trace": jit_traces,
    "make_fx": makes_fx,
    "linearize": linearizes,
    "FakeTensorMode": takes_fakes,
    "vmap": vmaps,
    "batched gradients": batches_gradients,
}
#: Those that start a compiler, which takes seconds.
COMPILERS: dict[str, Callable[[Module, Tensors, Tensors], None]] = {
    "strict export": lambda *given: exports(*given, strict=True),
    "compiled transforms": compiles_transforms,
}
