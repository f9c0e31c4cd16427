"""The n-gram recurrence with a gate that sees the layer's own output one step before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import is_pure
from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.ops.autograd import module_for
from wlkernelnn.ops.fast_op import FastOp, own

from .equations import by_step, feedback_step
from .levels import Levels
from .ngram import SCANS
from .steps import Steps


def feedback_scan(
    u: Sequence[Tensor],
    logits: Tensor,
    weight: Tensor,
    steps: Steps,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
    mix: Tensor | None = None,
    act: torch.nn.Module | None = None,
    carry: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    r"""The recurrence of :func:`ngram_scan`, gated by tokens and by the output h before.

    .. math::
        \lambda_t = \mathrm{sigmoid}(z_t + U (m \odot h[t-1])) \qquad
        y[t] = \sum_j a_j \odot c_j[t] \qquad
        h[t] = f_t \odot m \odot \sigma(y[t]) + (1 - f_t) \odot x_t

    Args:
        u: n tensors ``[N, d]`` in step order.
        logits: z, ``[N, d]`` in step order.
        weight: U, ``[d, d]``.
        steps: The strings, or :class:`Levels` of directed acyclic graphs (by plain operations).
        state: :math:`c_1[0] … c_n[0], h[0]`, ``[n+1, B, d]`` in the order of a step; default 0.
        compose, normalize: See :func:`ngram_scan`.
        mix: a, ``[n, d]``; default :math:`y = c_n`.
        act: σ, elementwise; default the identity. With one that is random or has parameters, or a function
            of the user's, steps are of plain operations, which is slower; and so where ``mask`` needs a
            gradient.
        carry: f and x, each ``[N, d]`` in step order; without, :math:`h = \sigma(y)`.
        mask: m, of dropout, ``[B, d]`` in the order of a step; default 1. Without ``carry`` only the gate
            has it.

    Returns:
        :math:`c_1 … c_n` and h, each behind its state, ``[B + N, d]`` in step order.
    """
    f, x = carry or (None, None)
    fast = (act is None or is_pure(act)) and not (mask is not None and mask.requires_grad)
    fast = fast and not isinstance(steps, Levels)
    scan = _feedback_scan if fast else _plain
    return scan(steps, act, compose, normalize, state, logits, weight, mix, f, x, mask, *u)


def _plain(*values: Any) -> tuple[Tensor, ...]:
    steps, act, compose, normalize, state, logits, weight, mix, f, x, mask, *u = values
    carry = None if f is None else (f, x)
    step = feedback_step(u, logits, weight, compose, normalize, mix, act, carry, mask)
    return by_step(step, steps, [None] * (len(u) + 1) if state is None else state.unbind(0), logits)


def _kernels_for(values: Sequence[Any]) -> Any:
    """The module with kernels for these arguments, or ``None``: steps are then of stock operations."""
    steps, act, _, _, state, logits, weight, mix, f, x, mask, *u = values
    if act is not None or mix is not None:
        return None
    module = module_for(SCANS, state, logits, weight, f, x, mask, *u)
    return module if module is not None and module.fits(steps, logits) else None


def _forward(*values: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    steps, _, compose, normalize, state, logits, weight, mix, f, x, mask, *u = values
    gates = logits.clone(memory_format=torch.contiguous_format)
    states = [None] * (len(u) + 1) if state is None else state.unbind(0)
    buffers = [steps.room(logits, before) for before in states]
    y = None if mix is None else torch.empty_like(logits)
    if kernels := _kernels_for(values):
        kernels.feedback(u, gates, weight, (f, x), mask, steps, buffers, compose, normalize)
    else:
        _advance(values, gates, y, buffers)
    return tuple(buffers), (gates, y, *buffers)


def _advance(values: Sequence[Any], gates: Tensor, y: Tensor | None, buffers: Sequence[Tensor]) -> None:
    """Step by step with one product of matrices each."""
    steps, act, compose, normalize, _, _, weight, mix, f, x, mask, *u = values
    n, transposed = len(u), weight.t()
    scratch = torch.empty_like(buffers[0][: steps.num_strings])
    pairs = zip(*map(steps.pairs, buffers), strict=True)
    for levels, (gate, y_t, f_t, x_t, *u_t) in zip(pairs, steps.each(gates, y, f, x, *u), strict=True):
        h_before, h = levels[n]
        part = scratch[: len(h)]
        mask_t = None if mask is None else mask[: len(h)]
        seen = h_before if mask_t is None else torch.mul(h_before, mask_t, out=part)
        gate.addmm_(seen, transposed).sigmoid_()
        for j, new in enumerate(u_t):
            before, now = levels[j]
            if j:
                new = COMPOSE[compose](levels[j - 1][0], new, out=part)
            if normalize:
                torch.lerp(new, before, gate, out=now)
            else:
                torch.addcmul(new, before, gate, out=now)
        if mix is None:
            y_t = levels[n - 1][1]
        else:
            y_t.zero_()
            for (_, now), a in zip(levels[:n], mix, strict=True):
                y_t.addcmul_(now, a)
        value = y_t if act is None else act(y_t)
        if f_t is None:
            h.copy_(value)
        else:
            torch.lerp(x_t, value if mask_t is None else value * mask_t, f_t, out=h)


def _backward(
    values: Sequence[Any],
    kept: Sequence[Tensor],
    needed: Sequence[bool],
    arrived: Sequence[Tensor | None],
) -> Sequence[Tensor | None]:
    steps, act, compose, normalize, _, logits, weight, mix, f, x, mask, *u = values
    gates, y, *buffers = kept
    n, grads = len(u), own(arrived, buffers)
    before = [steps.previous(buffer) for buffer in buffers]
    c = [buffer[steps.num_strings :] for buffer in buffers[:n]]
    m = None if mask is None else steps.of_tokens(mask)
    value, slope = _value_and_slope(act, c[-1] if y is None else y)
    # What gradients are multiplied by on their way from h to y; from c_j to the gate's logits, and to
    # c_{j−1}: for all steps at once.
    to_y = _product(None if f is None else _product(f, m), slope)
    scale = 1 - gates if normalize else None
    slope_of_gate = gates * (1 - gates)
    to_logits, to_below = [], []
    for j in range(n):
        new = COMPOSE[compose](before[j - 1], u[j]) if j else u[j]
        to_logits.append(slope_of_gate * (before[j] - new if normalize else before[j]))
        if j:
            to_below.append(_product(scale, u[j] if compose == "mul" else None))
    # What cannot wait: from every step to the one before.
    grad_logits = torch.empty_like(gates)
    grad_y = None if mix is None else torch.empty_like(logits)
    if kernels := _kernels_for(values):
        kernels.feedback_gradients(gates, weight, mask, to_y, to_logits, to_below, steps, grads, grad_logits)
    else:
        factors = gates, to_y, *to_logits, *to_below
        _retreat(steps, weight, mix, mask, factors, grads, grad_logits, grad_y)
    # What could wait.
    *of_levels, of_h = (grad[steps.num_strings :] for grad in grads)
    sent = of_levels if scale is None else [grad * scale for grad in of_levels]
    grad_u = [
        grad * below if compose == "mul" else grad for grad, below in zip(sent[1:], before, strict=False)
    ]
    return (
        *(None, None, None, None),
        torch.stack([grad[: steps.num_strings] for grad in grads]) if needed[4] else None,
        grad_logits,
        grad_logits.t() @ (before[n] if m is None else before[n] * m),
        None if grad_y is None or not needed[7] else torch.stack([(grad_y * c_j).sum(0) for c_j in c]),
        of_h * (_product(value, m) - x) if needed[8] else None,
        of_h * (1 - f) if needed[9] else None,
        None,
        *(sent[0], *grad_u),
    )


def _retreat(
    steps: Steps,
    weight: Tensor,
    mix: Tensor | None,
    mask: Tensor | None,
    factors: Sequence[Tensor | None],
    grads: Sequence[Tensor],
    grad_logits: Tensor,
    grad_y: Tensor | None,
) -> None:
    """Step by step backwards: adds up the gradients of the buffers, and fills those of logits and of y."""
    n = len(grads) - 1
    scratch = torch.empty_like(grads[0][: steps.num_strings])
    pairs = list(zip(*map(steps.pairs, grads), strict=True))
    inputs = steps.each(grad_logits, grad_y, *factors)
    for levels, (d_logits, d_y, gate, to_y_t, *to_other) in zip(
        reversed(pairs), reversed(inputs), strict=True
    ):
        h_before, h = levels[n]
        if mix is None:
            add_product(levels[n - 1][1], h, to_y_t)
        else:
            add_product(d_y.zero_(), h, to_y_t)
            for (_, now), a in zip(levels[:n], mix, strict=True):
                now.addcmul_(d_y, a)
        d_logits.zero_()
        for j, (c_before, now) in enumerate(levels[:n]):
            d_logits.addcmul_(now, to_other[j])
            c_before.addcmul_(now, gate)
            if j:
                add_product(levels[j - 1][0], now, to_other[n + j - 1])
        if mask is None:
            h_before.addmm_(d_logits, weight)
        else:
            part = torch.mm(d_logits, weight, out=scratch[: len(h)])
            h_before.addcmul_(part, mask[: len(h)])


_feedback_scan = FastOp(_plain, _forward, _backward)


def _product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Of two factors; ``None`` is 1."""
    return b if a is None else a if b is None else a * b


def add_product(to: Tensor, a: Tensor, b: Tensor | None) -> None:
    """Add a ⊙ b in place; ``None`` is 1."""
    if b is None:
        to.add_(a)
    else:
        to.addcmul_(a, b)


def _value_and_slope(act: torch.nn.Module | None, y: Tensor) -> tuple[Tensor, Tensor | None]:
    """σ(y) and σ'(y) of an elementwise σ; ``None`` is 1."""
    if act is None:
        return y, None
    with torch.enable_grad():
        y = y.detach().requires_grad_()
        value = act(y)
        (slope,) = torch.autograd.grad(value, y, torch.ones_like(value))
    return value.detach(), slope
