"""Gradients that can be differentiated again, for autograd Functions that compute theirs by hand, and when
these cannot be used at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformed() -> bool:
    """Whether somebody looks on who knows torch's own operations only, and no gradients by hand: a transform
    of ``torch.func`` (``grad``, ``vmap``, ``jvp``, …), or forward-mode differentiation.
    """
    # Torch has no public name for either.
    return not torch.compiler.is_compiling() and (
        torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    )


def differentiable_gradients(
    function: Callable[..., Sequence[Tensor]],
    values: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[Tensor],
) -> tuple[Tensor | None, ...]:
    """Gradients of a composition of differentiable operations, themselves made of such.

    Args:
        function: The composition.
        values: Its arguments.
        needed: Of which of them the gradient is wanted.
        grads: Gradients of what it returns.

    Returns:
        A gradient per argument, ``None`` where none is wanted.
    """
    # Each value under a name of its own: one tensor may stand in two places.
    values = [value.view_as(value) if need else value for value, need in zip(values, needed, strict=True)]
    leaves = [value for value, need in zip(values, needed, strict=True) if need]
    # What no leaf changes, such as the state of a memory that nothing learns, has no gradient to give.
    pairs = [(out, grad) for out, grad in zip(function(*values), grads, strict=True) if out.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(v) if need else None for v, need in zip(values, needed, strict=True))
    outs, arrived = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outs, leaves, arrived, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)


def counting_writes(*tensors: Tensor | None) -> list[Tensor]:
    """Those of which PyTorch knows when they are written to, and which it saves: not those of inference."""
    return [tensor for tensor in tensors if tensor is not None and not tensor.is_inference()]
