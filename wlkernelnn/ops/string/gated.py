"""The recurrence of a memory with gates that see the output one step before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import differentiable_gradients, transformed
from wlkernelnn.ops.optional import optional_module
from wlkernelnn.ops.products import linear, weight_gradient

from . import gated_sweeps
from .equations import Cell, by_step, gated_step
from .steps import Steps


def gated_scan(
    cell: Cell,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    feedback: Tensor | None,
    steps: Steps,
    state: Sequence[Tensor | None] = (None, None),
    scales: Sequence[float | Tensor] = (1.0, 0.0),
    norm: torch.nn.LayerNorm | None = None,
    norm_state: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""A gated memory (Liang et al. 2019, equations 9, 10 and 18) of every string.

    .. math::
        [\tilde c_t, i_t, f_t, o_t] = W x_t + b + U h_{t-1} \quad \text{(gates through the sigmoid)} \qquad
        c_t = i_t \odot \varphi(\tilde c_t) + f_t \odot c_{t-1} \qquad
        h_t = o_t \odot \psi(\mathrm{norm}(c_t))

    Args:
        cell: Which of these there are, and what is in place of the others.
        x: ``[N, m]`` in step order.
        weight, bias: W ``[parts · d, m]``, or ``None`` for the identity, and b ``[parts · d]`` or ``None``.
        feedback: U of the last parts, those that see h, ``[seeing · d, d]``; ``None`` if none does.
        steps: The strings.
        state: :math:`c_0` and :math:`h_0`, each ``[B, d]`` in the order of a step, or ``None`` for 0.
        scales: i and f where they are constant: a number, ``[1]``, or ``[d]``.
        norm: Default the identity.
        norm_state: norm(c) instead of c is what is carried.

    Returns:
        c and h, each behind its state, ``[B + N, d]`` in step order.
    """
    i, f = (scale if isinstance(scale, Tensor) else x.new_full((1,), scale) for scale in scales)
    c_0, h_0 = state
    gamma, beta, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    norm_state = norm_state and norm is not None
    plain = transformed() or torch.compiler.is_compiling()
    scan = _plain_scan if plain else _GatedScan.apply
    c, h = scan(cell, steps, norm_state, eps, x, weight, bias, feedback, c_0, h_0, i, f, gamma, beta)
    return c, h


@cache
def numba_gated() -> Any:
    """The module for CPUs, imported by the first call; ``None`` where numba cannot be imported."""
    return optional_module("wlkernelnn.ops.string.numba_gated")


# Which module has the memory for a type of device; by sweeps it is for all.
SCANS: dict[str, Callable[[], Any]] = {"cpu": numba_gated}


def gated_for(*values: Tensor | None) -> Any:
    """The module whose ``gated`` and ``gated_gradients`` take such values."""
    kinds = {(value.device.type, value.dtype) for value in values if value is not None}
    if torch.compiler.is_compiling() or len(kinds) != 1:
        return gated_sweeps
    ((device, dtype),) = kinds
    scan = SCANS.get(device, lambda: None)()
    return scan if scan is not None and dtype in scan.DTYPES else gated_sweeps


def in_one_pass(x: Tensor) -> bool:
    """Whether :func:`gated_scan` reads and writes what it makes of such tokens but once, whoever sees h."""
    return gated_for(x) is not gated_sweeps


def affine(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, product: Callable[..., Tensor] = linear
) -> Tensor:
    """W x + b, without a W the identity, as a tensor of its own."""
    if weight is not None:
        return product(x, weight, bias)
    return x.clone() if bias is None else x + bias


class _GatedScan(torch.autograd.Function):
    """With the product of all tokens, so that what comes of it can be overwritten, and is not kept beside."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        steps: Steps,
        norm_state: bool,
        eps: float,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *given: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        # Under autocast only products are of lower precision: states add up over many steps.
        parts = affine(x, weight, bias).to(x.dtype)
        c, h = gated_for(x, *given).gated(cell, steps, norm_state, eps, parts, given)
        ctx.cell, ctx.steps, ctx.norm_state, ctx.eps = cell, steps, norm_state, eps
        ctx.save_for_backward(x, weight, bias, *given, parts, c, h)
        ctx.set_materialize_grads(False)
        return c, h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        arguments = ctx.cell, ctx.steps, ctx.norm_state, ctx.eps
        x, weight, bias, *given, parts, c, h = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            arrived = [torch.zeros_like(c) if grad is None else grad for grad in grads]
            values = (*arguments, x, weight, bias, *given)
            return differentiable_gradients(_plain_scan, values, needed, arrived)
        scan = gated_for(x, *given)
        slopes, *found = scan.gated_gradients(*arguments, needed[7:], parts, given, (c, h), grads)
        of_x = slopes
        if weight is not None:
            of_x = linear(slopes, weight.t()) if needed[4] else None
        return (
            *(None, None, None, None),
            of_x,
            weight_gradient(x, slopes) if needed[5] else None,
            slopes.sum(0) if needed[6] else None,
            *(grad if need else None for grad, need in zip(found, needed[7:], strict=True)),
        )


def _plain_scan(
    cell: Cell,
    steps: Steps,
    norm_state: bool,
    eps: float,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    feedback: Tensor | None,
    c_0: Tensor | None,
    h_0: Tensor | None,
    scale_i: Tensor,
    scale_f: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
) -> tuple[Tensor, ...]:
    """The same of torch's own operations."""

    def norm(c: Tensor) -> Tensor:
        return c if gamma is None else torch.layer_norm(c, gamma.shape, gamma, beta, eps)

    # As in the fast version, only products are of lower precision under autocast.
    parts = affine(x, weight, bias, torch.nn.functional.linear).to(x.dtype)
    like = parts[:, : parts.size(1) // len(cell.parts)]
    step = gated_step(cell, parts, feedback, (scale_i, scale_f), norm, norm_state)
    return by_step(step, steps, (c_0, h_0), like)
