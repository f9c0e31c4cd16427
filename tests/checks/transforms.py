"""What transforms of torch.func make of a module, beside what autograd does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, jvp, vmap


def assert_transforms_agree(
    module: torch.nn.Module, read: Callable[[Callable[..., Tensor], Tensor], Tensor], x: Tensor
) -> None:
    """Gradients, derivatives forwards, several inputs and several modules at once.

    Args:
        module: In float64, drawn.
        read: Calls what it is given, the module or what stands for it, and picks the result.
        x: The input that derivatives are taken by.
    """
    weights = dict(module.named_parameters())

    def run(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return read(lambda *given, **named: functional_call(module, weights, given, named), x)

    def loss(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return run(weights, x).square().sum()

    close = torch.testing.assert_close
    leaves = [x.clone().requires_grad_(), *weights.values()]
    out = run(weights, leaves[0])
    expected = torch.autograd.grad(out.square().sum(), leaves, retain_graph=True, materialize_grads=True)
    by_weights, by_x = grad(loss, argnums=(0, 1))(weights, x)
    close([by_x, *by_weights.values()], list(expected))

    direction, along = torch.randn_like(x), torch.randn_like(out)
    _, tangent = jvp(lambda x: run(weights, x), (x,), (direction,))
    (slope,) = torch.autograd.grad(out, leaves[0], along, materialize_grads=True)
    close((tangent * along).sum(), (slope * direction).sum())

    several = torch.stack([x, direction])
    close(vmap(run, in_dims=(None, 0))(weights, several), torch.stack([run(weights, x) for x in several]))
    ensemble = {name: torch.stack([weight, 0.5 * weight]).detach() for name, weight in weights.items()}
    members = [{name: weight[i] for name, weight in ensemble.items()} for i in range(2)]
    close(vmap(run, in_dims=(0, None))(ensemble, x), torch.stack([run(member, x) for member in members]))
    close(
        vmap(grad(loss, argnums=1), in_dims=(None, 0))(weights, several),
        torch.stack([grad(loss, argnums=1)(weights, x) for x in several]),
    )
