"""The n-gram recurrence on a GPU: how Triton's kernels are run; to be imported only where Triton is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import triton_kernels as kernels
from .equations import Decay
from .steps import Steps

if not hasattr(tl, "tuple"):
    raise ImportError(f"kernels of tuples of tensors need Triton 3.3, got {triton.__version__}")

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# A program is a warp with so many bytes of a row: a cache line. What the next steps read is fetched so many
# steps ahead, since there may be few strings, and thus few programs.
BYTES, STAGES = 128, 8


def ngram(
    u: Sequence[Tensor], decay: Decay, steps: Steps, state: Tensor | None, compose: str, normalize: bool
) -> tuple[Tensor, ...]:
    """What :func:`wlkernelnn.ops.string.ngram_scan` returns, without gradients."""
    u, factor = _dense(u), _factor(decay, u[0])
    c = tuple(u[0].new_empty(steps.num_strings + steps.num_tokens, u[0].size(1)) for _ in u)
    before = None if state is None else state.contiguous()
    _run(kernels.ngram, u, factor, before, c, steps=steps, MULTIPLY=compose == "mul", NORMALIZE=normalize)
    return c


def ngram_gradients(
    u: Sequence[Tensor],
    decay: Decay,
    steps: Steps,
    c: Sequence[Tensor],
    arrived: Sequence[Tensor | None],
    compose: str,
    normalize: bool,
    of_decay: bool,
) -> tuple[list[Tensor], Tensor | None, Tensor]:
    """Gradients of u, of λ if it is needed, and of the state."""
    u, factor = _dense(u), _factor(decay, u[0])
    grads = _dense(
        [torch.zeros_like(level) if grad is None else grad for grad, level in zip(arrived, c, strict=True)]
    )
    grad_u = tuple(torch.empty_like(value) for value in u)
    grad_state = u[0].new_empty(len(u), steps.num_strings, u[0].size(1))
    grad_decay = None
    if of_decay:  # of every token, or else of every string
        rows, dtype = (steps.num_tokens, None) if factor.dim() == 2 else (steps.num_strings, _exact(factor))
        grad_decay = factor.new_empty(rows, factor.size(-1), dtype=dtype)
    values = u, factor, _dense(c), grads, grad_u, grad_decay, grad_state
    _run(kernels.ngram_gradients, *values, steps=steps, MULTIPLY=compose == "mul", NORMALIZE=normalize)
    if grad_decay is not None and factor.dim() == 1:
        grad_decay = grad_decay.sum(0).to(factor.dtype)
    return list(grad_u), grad_decay, grad_state


def _run(
    kernel: Any, u: tuple[Tensor, ...], decay: Tensor, *others: Any, steps: Steps, **constants: Any
) -> None:
    """Run a kernel for every string and block of channels."""
    num_strings, width = steps.num_strings, u[0].size(1)
    block = max(32, BYTES // u[0].element_size())
    constants |= {"PER_STEP": decay.dim() == 2, "LEVELS": len(u), "BLOCK": block, "STAGES": STAGES}
    constants["ACC"] = tl.float64 if u[0].dtype == torch.float64 else tl.float32
    rows = None if steps.equal else steps.starts, steps.lengths, num_strings, width
    with torch.cuda.device_of(u[0]):
        kernel[(num_strings, triton.cdiv(width, block))](u, decay, *others, *rows, **constants, num_warps=1)


def _dense(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(value.contiguous() for value in values)


def _factor(decay: Decay, like: Tensor) -> Tensor:
    """λ as a tensor, of every channel if it is a number."""
    if isinstance(decay, Tensor):
        return decay.contiguous()
    return like.new_full((like.size(1),), decay, dtype=_exact(like))


def _exact(tensor: Tensor) -> torch.dtype:
    """The type that sums are kept in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
