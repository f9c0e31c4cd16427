"""The recurrence of a memory with gates that see the output one step before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from wlkernelnn.ops.autograd import module_for, optional_module
from wlkernelnn.ops.fast_op import FastOp

from . import gated_sweeps
from .equations import GatedCell, by_step, gated_step
from .levels import Levels
from .steps import Steps


def gated_scan(
    cell: GatedCell,
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
        steps: The strings, or :class:`Levels` of directed acyclic graphs (by plain operations).
        state: :math:`c_0` and :math:`h_0`, each ``[B, d]`` in the order of a step, or ``None`` for 0.
        scales: i and f where they are constant: a number, ``[1]``, or ``[d]``.
        norm: Default the identity.
        norm_state: norm(c) instead of c is carried.

    Returns:
        c and h, each behind its state, ``[B + N, d]`` in step order.
    """
    i, f = (scale if isinstance(scale, Tensor) else x.new_full((1,), scale) for scale in scales)
    gamma, beta, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    norm_state = norm_state and norm is not None
    scan = _plain if isinstance(steps, Levels) else _gated_scan
    c, h = scan(cell, steps, norm_state, eps, x, weight, bias, feedback, *state, i, f, gamma, beta)
    return c, h


numba_gated = partial(optional_module, "wlkernelnn.ops.string.numba_gated")

# The module with the memory for a type of device; sweeps are for all others.
SCANS: dict[str, Callable[[], Any]] = {"cpu": numba_gated}


def gated_for(*values: Tensor | None) -> Any:
    """The module whose ``gated`` and ``gated_gradients`` take such values."""
    return module_for(SCANS, *values) or gated_sweeps


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """W x + b, without a W the identity, as a contiguous tensor of its own, of the type of x.

    Under autocast only products are of lower precision: states add up over many steps.
    """
    if weight is not None:
        return linear(x, weight, bias).to(x.dtype)
    return x.clone(memory_format=torch.contiguous_format) if bias is None else (x + bias).contiguous()


def _plain(*values: Any) -> tuple[Tensor, ...]:
    cell, steps, norm_state, eps, x, weight, bias, feedback, c_0, h_0, *scales, gamma, beta = values

    def norm(c: Tensor) -> Tensor:
        return c if gamma is None else torch.layer_norm(c, gamma.shape, gamma, beta, eps)

    parts = affine(x, weight, bias)
    like = parts[:, : parts.size(1) // len(cell.parts)]
    step = gated_step(cell, parts, feedback, scales, norm, norm_state)
    return by_step(step, steps, (c_0, h_0), like)


def _forward(*values: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    options, (x, weight, bias), given = values[:4], values[4:7], values[7:]
    # With the product of all tokens, so that it can be overwritten, and is not kept beside.
    parts = affine(x, weight, bias)
    c, h = gated_for(x, *given).gated(*options, parts, given)
    return (c, h), (parts, c, h)


def _backward(
    values: Sequence[Any],
    kept: Sequence[Tensor],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> Sequence[Tensor | None]:
    options, (x, weight, _), given = values[:4], values[4:7], values[7:]
    gradients = gated_for(x, *given).gated_gradients
    parts, *found = kept
    slopes, *others = gradients(*options, needed[7:], parts, given, found, grads)
    of_x = slopes if weight is None else linear(slopes, weight.t()) if needed[4] else None
    of_weight = slopes.t() @ x if needed[5] else None
    return *(None,) * 4, of_x, of_weight, slopes.sum(0) if needed[6] else None, *others


_gated_scan = FastOp(_plain, _forward, _backward)
