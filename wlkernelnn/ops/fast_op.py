"""Operations with a fast version whose gradients are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .autograd import differentiable_gradients, traced


@dataclass(frozen=True)
class FastOp:
    """An operation with gradients by hand, beside the same made of PyTorch's own operations.

    The fast version runs in plain eager mode. Whatever records or transforms operations (see
    :func:`~wlkernelnn.ops.autograd.traced`) gets the plain one, and so do gradients of gradients.

    Attributes:
        plain: From the arguments to a tuple of tensors, by differentiable operations.
        forward: From the arguments to the same tuple, and a tuple of the tensors (outputs or others) that
            ``backward`` needs beside the arguments; ``None``: by ``plain``, without such tensors.
        backward: From the arguments, those tensors, one bool per argument that says whether its gradient is
            needed, and a gradient per output (``None`` for 0), to a gradient per argument. Those that are not
            needed may be anything.
    """

    plain: Callable[..., tuple[Tensor, ...]]
    forward: Callable[..., tuple[tuple[Tensor, ...], Sequence[Tensor | None]]] | None
    backward: Callable[..., Sequence[Tensor | None]]

    def __call__(self, *values: Any) -> tuple[Tensor, ...]:
        tensors = (value for value in values if isinstance(value, Tensor))
        return self.plain(*values) if traced(*tensors) else _Fast.apply(self, *values)


class _Fast(torch.autograd.Function):
    # What is computed again in the backward pass is to have the precisions of the first time.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, op: FastOp, *values: Any) -> tuple[Tensor, ...]:
        outs, kept = (op.plain(*values), ()) if op.forward is None else op.forward(*values)
        ctx.op = op
        ctx.others = [None if isinstance(value, Tensor) else value for value in values]
        saved = [value if isinstance(value, Tensor) else None for value in (*values, *kept)]
        if any(ctx.needs_input_grad):  # PyTorch saves no tensors of inference
            saved = [t.clone() if t is not None and t.is_inference() else t for t in saved]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        return outs

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(grad is None for grad in grads):
            return (None,) * len(ctx.needs_input_grad)
        # All that was saved is asked for: that is when autograd sees what was written to.
        op, needed, saved = ctx.op, ctx.needs_input_grad[1:], ctx.saved_tensors
        values = [
            other if tensor is None else tensor for tensor, other in zip(saved, ctx.others, strict=False)
        ]
        if torch.is_grad_enabled() or traced(*grads):  # differentiated again, or transformed
            with torch.enable_grad():
                return None, *differentiable_gradients(op.plain, values, needed, grads)
        found = op.backward(values, saved[len(values) :], needed, grads)
        return None, *(grad if need else None for grad, need in zip(found, needed, strict=True))


def own(grads: Sequence[Tensor | None], outs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of outputs as tensors that may be written to."""
    return [
        torch.zeros_like(out) if grad is None else grad.clone(memory_format=torch.contiguous_format)
        for grad, out in zip(grads, outs, strict=True)
    ]
