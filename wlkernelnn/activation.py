"""Activations: the σ of graph and string layers."""

from __future__ import annotations

import torch
from torch.nn.modules.dropout import _DropoutNd
from torch_geometric.nn.resolver import activation_resolver


def activation(act: str | torch.nn.Module | None) -> torch.nn.Module:
    """An activation from its name, or as it is; ``None`` is the identity.

    Raises:
        ValueError: No activation has this name, or it works in place: layers go on with what they give it.
    """
    made = torch.nn.Identity() if act is None else activation_resolver(act)
    parts = made.modules() if isinstance(made, torch.nn.Module) else ()  # a function shows none
    if any(getattr(part, "inplace", False) for part in parts):
        raise ValueError(f"act must leave its input as it is, got {made}")
    return made


def is_random(act: torch.nn.Module) -> bool:
    """Whether an activation draws numbers, by parts of torch's: computed again, it would be another one."""
    return any(part.training and isinstance(part, _DropoutNd | torch.nn.RReLU) for part in act.modules())
