"""The n-gram recurrences on a GPU: how Triton's kernels are run; to be imported only where Triton is."""

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

# With feedback: channels of a program, bytes of sums that it adds up side by side, its warps, and the width
# up to which its rows of U fit into registers. The interpreter has as many processors as one likes.
CHANNELS, SUMS, WARPS, WIDEST, PROCESSORS = 16, 65_536, 8, 1024, 64


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


def fits(steps: Steps, like: Tensor) -> bool:
    """Whether :func:`feedback` takes such strings of such values: its programs run at the same time."""
    return _shape(steps, like) is not None


def feedback(
    u: Sequence[Tensor],
    gates: Tensor,
    weight: Tensor,
    carry: Sequence[Tensor | None],
    mask: Tensor | None,
    steps: Steps,
    buffers: Sequence[Tensor],
    compose: str,
    normalize: bool,
) -> None:
    """The steps of :func:`wlkernelnn.ops.string.feedback_scan`, without a mix or an activation.

    Args:
        gates: Logits of tokens, which become λ.
        buffers: The levels and h behind their states, which are there; the rest is filled.
    """
    *c, h = buffers
    values = _dense(u), gates, weight.contiguous(), *map(_dense_if, (*carry, mask)), tuple(c), h
    turns = range(1, len(steps.counts) + 1)
    constants = {"LEVELS": len(u), "MULTIPLY": compose == "mul", "NORMALIZE": normalize}
    _in_turns(kernels.feedback, turns, *values, steps=steps, **constants)


def feedback_gradients(
    gates: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    to_y: Tensor | None,
    to_logits: Sequence[Tensor],
    to_below: Sequence[Tensor | None],
    steps: Steps,
    grads: Sequence[Tensor],
    grad_logits: Tensor,
) -> None:
    """The same backwards: adds up the gradients of the buffers, and fills those of the logits."""
    *of_c, of_h = grads
    below = _dense([factor for factor in to_below if factor is not None]) or None
    factors = _dense_if(mask), _dense_if(to_y), _dense(to_logits), below
    turns = range(len(steps.counts), -1, -1)
    values = gates, weight.contiguous(), *factors, tuple(of_c), of_h, grad_logits
    _in_turns(kernels.feedback_gradients, turns, *values, steps=steps, LEVELS=len(of_c))


def _shape(steps: Steps, like: Tensor) -> tuple[int, int, int] | None:
    """Groups of strings that run at the same time, strings in a group, and columns of U in a tile."""
    blocks = triton.cdiv(like.size(1), CHANNELS)
    on_gpu = like.is_cuda
    groups = torch.cuda.get_device_properties(like.device).multi_processor_count if on_gpu else PROCESSORS
    groups //= blocks
    if like.size(1) > WIDEST or not groups:
        return None
    strings = triton.next_power_of_2(triton.cdiv(max(1, steps.num_strings), groups))
    tile = min(128, SUMS // (strings * CHANNELS * _exact(like).itemsize))
    return None if tile < 32 else (triton.cdiv(steps.num_strings, strings), strings, tile)


def _in_turns(kernel: Any, turns: range, *values: Any, steps: Steps, **constants: Any) -> None:
    """Run a kernel whose programs wait for each other after every turn."""
    like, shape = values[-1], _shape(steps, values[-1])
    assert shape is not None
    if not steps.num_tokens:
        return
    width, (groups, strings, tile) = like.size(1), shape
    grid = triton.cdiv(width, CHANNELS), groups
    arrived = torch.zeros(groups, dtype=torch.int32, device=like.device)
    rows = None if steps.equal else steps.starts, steps.lengths, arrived
    constants |= {"STRINGS": strings, "BLOCK": CHANNELS, "TILE": tile, "TILES": triton.cdiv(width, tile)}
    constants["ACC"] = tl.float64 if like.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(like):
        if like.is_cuda:
            ends = min(turns), max(turns) + 1
            together = {"launch_cooperative_grid": True, "num_warps": WARPS}
            kernel[grid](*values, *rows, *ends, steps.num_strings, width, **constants, **together)
            return
        for turn in turns:  # the interpreter runs one program after the other: they cannot wait
            kernel[grid](*values, *rows, turn, turn + 1, steps.num_strings, width, **constants)


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


def _dense_if(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.contiguous()


def _factor(decay: Decay, like: Tensor) -> Tensor:
    """λ as a tensor, of every channel if it is a number."""
    if isinstance(decay, Tensor):
        return decay.contiguous()
    return like.new_full((like.size(1),), decay, dtype=_exact(like))


def _exact(tensor: Tensor) -> torch.dtype:
    """The type that sums are kept in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
