"""Hooks of modules."""

from __future__ import annotations

import torch


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether hooks wait for a module to be called."""
    return any(
        (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    )
