"""The decayed scan and the n-gram recurrence, over all strings at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import differentiable_gradients, transformed
from wlkernelnn.ops.optional import optional_module

from . import ngram_sweeps as sweeps
from .equations import by_step, ngram_step
from .steps import Steps


def decayed_scan(u: Tensor, decay: float | Tensor, steps: Steps, state: Tensor | None = None) -> Tensor:
    r""":math:`c_t = \lambda_t \odot c_{t-1} + u_t` of every string.

    Args:
        u: ``[N, d]`` in step order.
        decay: λ: a number, ``[d]``, or ``[N, d]`` in step order.
        steps: The strings.
        state: :math:`c_0`, ``[B, d]`` in the order of a step; default 0.

    Returns:
        c behind its state, ``[B + N, d]`` in step order.
    """
    states = None if state is None else state.unsqueeze(0)
    return ngram_scan([u], decay, steps, states, normalize=False)[0]


def ngram_scan(
    u: Sequence[Tensor],
    decay: float | Tensor,
    steps: Steps,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
) -> tuple[Tensor, ...]:
    r"""The n levels of a string kernel network (Lei et al. 2017, Tables 4 and 5) of every string.

    .. math::
        c_1[t] = \lambda_t c_1[t-1] + s_t u_1[t] \qquad
        c_j[t] = \lambda_t c_j[t-1] + s_t (c_{j-1}[t-1] \circ u_j[t])

    Args:
        u: n tensors ``[N, d]`` in step order.
        decay: λ: a number, ``[d]``, or ``[N, d]`` in step order.
        steps: The strings.
        state: :math:`c_1[0] … c_n[0]`, ``[n, B, d]`` in the order of a step; default 0.
        compose: ∘, ``"mul"`` or ``"add"``.
        normalize: s = 1 − λ instead of 1.

    Returns:
        :math:`c_1 … c_n`, each behind its state, ``[B + N, d]`` in step order.
    """
    scan = _plain_scan if transformed() else _NgramScan.apply
    return scan(steps, decay, state, compose, normalize, *u)


@cache
def triton_scan() -> Any:
    """The module for GPUs, imported by the first call; ``None`` where Triton cannot be imported."""
    return optional_module("wlkernelnn.ops.string.triton_scan")


# Which module has the recurrence for a type of device; by sweeps it is for all. Under TRITON_INTERPRET=1
# Triton's takes CPU tensors as well.
SCANS: dict[str, Callable[[], Any]] = {"cuda": triton_scan}


def scan_for(u: Tensor) -> Any:
    """The module whose ``ngram`` and ``ngram_gradients`` take such values."""
    scan = None if torch.compiler.is_compiling() else SCANS.get(u.device.type, lambda: None)()
    return scan if scan is not None and u.dtype in scan.DTYPES else sweeps


class _NgramScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:
        # Unpacked here: torch's compiler drops ctx where as many arguments come as forward names.
        steps, decay, state, compose, normalize, *u = given
        c = scan_for(u[0]).ngram(u, decay, steps, state, compose, normalize)
        ctx.steps, ctx.compose, ctx.normalize = steps, compose, normalize
        ctx.number = None if isinstance(decay, Tensor) else decay
        ctx.save_for_backward(decay if isinstance(decay, Tensor) else None, state, *u, *c)
        return c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        steps, compose, normalize = ctx.steps, ctx.compose, ctx.normalize
        decay, state, *saved = ctx.saved_tensors
        decay = ctx.number if decay is None else decay
        u, c = saved[: len(grads)], saved[len(grads) :]
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            values = (steps, decay, state, compose, normalize, *u)
            return differentiable_gradients(_plain_scan, values, ctx.needs_input_grad, grads)
        of_decay, of_state = ctx.needs_input_grad[1:3]
        grad_u, grad_decay, grad_state = scan_for(u[0]).ngram_gradients(
            u, decay, steps, c, grads, compose, normalize, of_decay
        )
        return None, grad_decay, grad_state if of_state else None, None, None, *grad_u


def _plain_scan(
    steps: Steps, decay: float | Tensor, state: Tensor | None, compose: str, normalize: bool, *u: Tensor
) -> tuple[Tensor, ...]:
    """The same of torch's own operations."""
    states = [None] * len(u) if state is None else state.unbind(0)
    return by_step(ngram_step(u, decay, compose, normalize), steps, states, u[0])
