"""Gradients that can be differentiated again, for autograd Functions that compute theirs by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


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
    found = iter(torch.autograd.grad(function(*values), leaves, grads, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)
