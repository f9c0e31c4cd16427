"""Activations: the σ of graph and string layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from torch_geometric.nn.resolver import activation_resolver

from .modes import in_modes

# What draws numbers in training.
RANDOM = (_DropoutNd, torch.nn.RReLU)


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
    """The parts of an activation that are random in training, and whether they train."""
    return {part: part.training for part in act.modules() if isinstance(part, RANDOM)}


def is_random(act: torch.nn.Module) -> bool:
    """Whether an activation draws numbers, by parts of torch's: computed again, it would be another one."""
    return any(modes_of(act).values())


def comes_again(act: torch.nn.Module, x: Tensor) -> bool:
    """Whether an activation can be computed again from its input ``x`` and its parameters alone.

    Not one that is random, and none with a function that may read tensors of its own which learn.
    """
    if is_random(act):
        return False
    if not any(isinstance(part, Function) for part in act.modules()):
        return True
    with torch.enable_grad():
        return not act(x.detach()[:1]).requires_grad


def as_now(act: torch.nn.Module) -> Callable[[Tensor], Tensor]:
    """An activation in the mode that it has now, whatever mode it has when it is called."""
    modes = modes_of(act)
    if not modes or torch.compiler.is_compiling():
        return act

    def same(x: Tensor) -> Tensor:
        with in_modes(modes):
            return act(x)

    return same
