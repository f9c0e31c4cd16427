"""Activations: the σ of graph and string layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from torch_geometric.nn.resolver import activation_resolver

from wlkernelnn.utils.modes import in_modes

# Draw numbers in training.
RANDOM = (_DropoutNd, torch.nn.RReLU)
# Depend on their input alone: no parameters, no random numbers, no modes.
PURE = (
    *(torch.nn.CELU, torch.nn.ELU, torch.nn.GELU, torch.nn.Hardsigmoid, torch.nn.Hardswish),
    *(torch.nn.Hardtanh, torch.nn.Identity, torch.nn.LeakyReLU, torch.nn.LogSigmoid, torch.nn.Mish),
    *(torch.nn.ReLU, torch.nn.ReLU6, torch.nn.SELU, torch.nn.SiLU, torch.nn.Sigmoid, torch.nn.Softplus),
    *(torch.nn.Softsign, torch.nn.Tanh),
)


class Function(torch.nn.Module):
    """A function as a module.

    Raises:
        ValueError: The function writes to its input: layers go on with what they give it.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or x.is_inference():  # writes are not counted there
            return self.function(x)
        version = x._version
        out = self.function(x)
        if x._version != version:
            raise ValueError(f"act must leave its input as it is, {self.extra_repr()} writes to it")
        return out

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def activation(act: Any) -> torch.nn.Module:
    """An activation from its name, a module as it is, or a function; ``None`` is the identity.

    Raises:
        ValueError: It is nothing of this, no activation has this name, or it says that it works in place:
            layers go on with what they give it. (Functions that do are found when they are called.)
    """
    made = torch.nn.Identity() if act is None else activation_resolver(act)
    if isinstance(made, type) or not callable(made):
        raise ValueError(f"act must be a name, a module, a function or None, got {made!r}")
    if not isinstance(made, torch.nn.Module):
        made = Function(made)
    if any(getattr(part, "inplace", False) for part in made.modules()):
        raise ValueError(f"act must leave its input as it is, got {made}")
    return made


def modes_of(act: torch.nn.Module) -> dict[torch.nn.Module, bool]:
    """The parts of an activation that may compute something else in training, and whether they train."""
    return {part: part.training for part in act.modules() if isinstance(part, RANDOM) or _is_users(part)}


def is_random(act: torch.nn.Module) -> bool:
    """Whether an activation draws numbers, by parts of torch's: computed again, it would be another one."""
    return any(isinstance(part, RANDOM) and part.training for part in act.modules())


def is_pure(act: torch.nn.Module) -> bool:
    """Whether an activation is known to depend on its input alone, so that it can be computed again.

    Others, also functions and modules of users, are never run to find out.
    """
    return type(act) in PURE and not act._forward_hooks and not act._forward_pre_hooks


def comes_again(act: torch.nn.Module, x: Tensor) -> bool:
    """Whether an activation can be computed again from its input ``x`` and its parameters alone.

    Not one that is random, and none that may read tensors which learn and are not its parameters. What is
    not of torch is tried on the first row: whether it draws from torch's generators, which it leaves as they
    are.
    """
    if is_random(act):
        return False
    # Under a compiler nothing is computed again, and it follows no generators.
    if torch.compiler.is_compiling() or not any(
        isinstance(part, Function) or _is_users(part) for part in act.modules()
    ):
        return True
    weights = {name: weight.detach() for name, weight in act.named_parameters()}
    with torch.enable_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
        before = _generators(x)
        learns = torch.func.functional_call(act, weights, (x.detach()[:1],)).requires_grad
        draws = not all(map(torch.equal, before, _generators(x)))
    return not learns and not draws


def _is_users(part: torch.nn.Module) -> bool:
    return not isinstance(part, Function) and not type(part).__module__.startswith("torch.")


def _generators(x: Tensor) -> list[Tensor]:
    """The states of the generators that a function of ``x`` may draw from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(x.device)] if x.is_cuda else [])]


def as_now(act: torch.nn.Module) -> Callable[[Tensor], Tensor]:
    """An activation in the mode that it has now, whatever mode it has when it is called."""
    modes = modes_of(act)
    if not modes or torch.compiler.is_compiling():
        return act

    def same(x: Tensor) -> Tensor:
        with in_modes(modes):
            return act(x)

    return same
