"""The gated memory by stock operations: step by step over all strings at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.fast_op import own

from .equations import GatedCell, tanh_if
from .feedback import add_product
from .steps import Steps

# Its overload is said once, not looked for at every step.
_norm_backward = torch.ops.aten.native_layer_norm_backward.default


def gated(
    cell: GatedCell, steps: Steps, norm_state: bool, eps: float, parts: Tensor, given: Sequence[Any]
) -> tuple[Tensor, Tensor]:
    """What :func:`wlkernelnn.ops.string.gated_scan` returns, without gradients; squashes the parts."""
    weight, c_0, h_0, scale_i, scale_f, gamma, beta = given
    width = parts.size(1) // len(cell.parts)
    part, gates = cell.named(parts), parts[:, width:]
    c, h = (steps.room(parts[:, :width], before) for before in (c_0, h_0))
    blind = parts.size(1) - (0 if weight is None else weight.size(0))
    if blind and cell.squash:
        part["cell"].tanh_()
    if weight is None:
        gates.sigmoid_()
    else:
        transposed = weight.t()
    inputs = steps.each(parts[:, blind:], gates, *map(part.get, ("cell", "input", "forget", "output")))
    pairs = zip(steps.pairs(c), steps.pairs(h), inputs, strict=True)
    for (c_before, c_t), (h_before, h_t), (logits, gates_t, new, i, f, o) in pairs:
        if weight is not None:
            seeing = torch.addmm(logits, h_before, transposed)
            if not blind:
                new.copy_(tanh_if(cell.squash, seeing[:, :width]))
            if cell.gates:
                torch.sigmoid(seeing[:, width - blind :], out=gates_t)
        if cell.input == "rest":
            torch.lerp(new, c_before, f, out=c_t)
        else:
            torch.mul(c_before, scale_f if f is None else f, out=c_t)
            c_t.addcmul_(new, scale_i if i is None else i)
        y = c_t
        if gamma is not None:
            y = torch.layer_norm(c_t, (width,), gamma, beta, eps)
            if norm_state:
                c_t.copy_(y)
        if cell.squash_output:
            y = torch.tanh(y, out=h_t)
        if o is not None:
            torch.mul(y, o, out=h_t)
        elif y is not h_t:
            h_t.copy_(y)
    return c, h


def gated_gradients(
    cell: GatedCell,
    steps: Steps,
    norm_state: bool,
    eps: float,
    needed: Sequence[bool],
    values: Tensor,
    given: Sequence[Any],
    found: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of parts, now squashed, and of all that was given; any that is not needed may be anything."""
    weight, _, _, scale_i, scale_f, gamma, beta = given
    c, h = found
    num_strings, width = steps.num_strings, c.size(1)
    c_before, h_before = steps.previous(c), steps.previous(h)
    part = cell.named(values)
    new, o, f = part["cell"], part.get("output"), part.get("forget", scale_f)
    i = 1 - f if cell.input == "rest" else part.get("input", scale_i)
    # What gradients are multiplied by on their way from h to norm(c) and to o, and from c to c̃ and the
    # other gates: for all steps at once.
    raw = i * new + f * c_before if norm_state else c[num_strings:]
    moments: list[Tensor] = []
    y = raw
    if gamma is not None:
        y, *moments = torch.native_layer_norm(raw, (width,), gamma, beta, eps)
    y = tanh_if(cell.squash_output, y)
    to_y = o
    if cell.squash_output:
        to_y = 1 - y * y if o is None else torch.addcmul(o, o * y, y, value=-1)
    slopes = torch.empty_like(values)
    slope, gates = cell.named(slopes), values[:, width:]
    torch.addcmul(gates, gates, gates, value=-1, out=slopes[:, width:])
    if "input" in slope:
        slope["input"].mul_(new)
    if "forget" in slope:
        slope["forget"].mul_(c_before - new if cell.input == "rest" else c_before)
    if o is not None:
        slope["output"].mul_(y)
    slope["cell"].copy_(torch.addcmul(i, i * new, new, value=-1) if cell.squash else i)
    # What cannot wait: from every step to the one before.
    grad_c, grad_h = own(grads, found)
    grad_y = None if gamma is None else torch.empty_like(raw)
    grad_raw = torch.zeros_like(raw) if norm_state else grad_c[num_strings:]
    blind = values.size(1) - (0 if weight is None else weight.size(0))
    of_c = slopes.view(len(slopes), len(cell.parts), width)[:, : len(cell.parts) - cell.output]
    inputs = steps.each(
        *(slopes[:, blind:], of_c, slope.get("output"), to_y, part.get("forget")),
        *(grad_raw, grad_raw.unsqueeze(1), grad_y, raw, *moments),
    )
    pairs = list(zip(steps.pairs(grad_c), steps.pairs(grad_h), inputs, strict=True))
    for (dc_before, dc), (dh_before, dh), step in reversed(pairs):
        to_h, to_parts, to_o, to_y_t, f_t, d_raw, to_each, dy, *normed = step
        if dy is None:
            add_product(dc, dh, to_y_t)
        else:
            add_product(dy.copy_(dc) if norm_state else dy.zero_(), dh, to_y_t)
            raw_t, *moments_t = normed
            through = _norm_backward(dy, raw_t, (width,), *moments_t, gamma, beta, (True, False, False))
            d_raw.add_(through[0])
        to_parts.mul_(to_each)
        if to_o is not None:
            to_o.mul_(dh)
        dc_before.addcmul_(d_raw, scale_f if f_t is None else f_t)
        if weight is not None:
            dh_before.addmm_(to_h, weight)
    # What could wait.
    of_norm: Sequence[Tensor | None] = (None, None)
    if grad_y is not None:
        wanted = False, *needed[5:]
        of_norm = _norm_backward(grad_y, raw, (width,), *moments, gamma, beta, wanted)[1:]
    return (
        slopes,
        slopes[:, blind:].t() @ h_before if needed[0] else None,
        *(grad_c[:num_strings], grad_h[:num_strings]),
        (grad_raw * new).sum_to_size(scale_i.shape) if needed[3] else None,
        (grad_raw * c_before).sum_to_size(scale_f.shape) if needed[4] else None,
        *of_norm,
    )
