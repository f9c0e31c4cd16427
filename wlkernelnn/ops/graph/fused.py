"""Sums over edges by kernels that write nothing of size ``[E, K]``: numba's on a CPU, Triton's on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import counting_writes, differentiable_gradients, transformed
from wlkernelnn.ops.optional import optional_module


class Loop(Protocol):
    """A sum over edges of values of sources, targets and tables, and its gradients.

    Attributes:
        fixed: What the gradients read beside the values, and nobody may write to before.
    """

    fixed: Sequence[Tensor | None]

    def sum(self, *values: Tensor | None) -> Tensor:
        """The sum; ``None`` stands in the place of a table that is not there."""

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Gradients of the values, each in its place, of those that are needed."""


@cache
def numba_loops() -> Any:
    """The module of loops for CPUs, imported by the first call; ``None`` where numba cannot be imported."""
    return optional_module("wlkernelnn.ops.graph.numba_loops")


@cache
def triton_loops() -> Any:
    """The module of loops for GPUs, imported by the first call; ``None`` where Triton cannot be imported."""
    return optional_module("wlkernelnn.ops.graph.triton_loops")


# Which module has the loops of a type of device. Under TRITON_INTERPRET=1 Triton's take CPU tensors as well.
LOOPS: dict[str, Callable[[], Any]] = {"cpu": numba_loops, "cuda": triton_loops}


def loops_for(values: Sequence[Tensor | None], weight: Tensor | None) -> Any:
    """The module of loops that take these values and give every gradient that is wanted of them, or ``None``.

    Its ``GatedLoop(edges, edge_type, weight, scale)`` and ``MappedLoop(edges, edge_type, weight, kind)`` are
    each a :class:`Loop`.
    """
    if torch.compiler.is_compiling() or transformed():
        return None
    first, *others = (value for value in (*values, weight) if value is not None)
    if any(other.dtype != first.dtype or other.device != first.device for other in others):
        return None
    if weight is not None and weight.requires_grad and torch.is_grad_enabled():
        return None
    loops = LOOPS.get(first.device.type, lambda: None)()
    return loops if loops is not None and first.dtype in loops.DTYPES else None


class FusedSum(torch.autograd.Function):
    """A :class:`Loop` in autograd's hands.

    Its arguments are the loop, the same function of the values composed of differentiable operations (which
    gives second derivatives), and the values.
    """

    @staticmethod
    def forward(ctx: Any, loop: Loop, composed: Callable[..., Tensor], *values: Tensor | None) -> Tensor:
        ctx.loop, ctx.composed = loop, composed
        ctx.save_for_backward(*values, *counting_writes(*loop.fixed))
        return loop.sum(*values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # All are asked for: that is when autograd sees what was written to.
        needed, saved = ctx.needs_input_grad[2:], ctx.saved_tensors
        values = saved[: len(needed)]
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            grads = differentiable_gradients(
                lambda *values: (ctx.composed(*values),), values, needed, (grad,)
            )
        else:
            found = ctx.loop.gradients(needed, grad, *values)
            grads = tuple(value if need else None for value, need in zip(found, needed, strict=True))
        return (None, None, *grads)
