"""Activations: the σ of graph and string layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.resolver import activation_resolver

from .hooks import has_hooks

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


def is_pure(act: torch.nn.Module) -> bool:
    """Whether an activation is known to depend on its input alone, so that it can be computed again.

    Others, also functions and modules of users, are never run to find out.
    """
    return type(act) in PURE and not has_hooks(act)
