"""The n-gram recurrence with a gate that sees the layer's own output one step before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import comes_again, modes_of
from wlkernelnn.blocks.compose import composed
from wlkernelnn.ops.autograd import differentiable_gradients, transformed
from wlkernelnn.utils.modes import in_modes

from .equations import by_step, feedback_step
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
        steps: The strings.
        state: :math:`c_1[0] … c_n[0], h[0]`, ``[n+1, B, d]`` in the order of a step; default 0.
        compose, normalize: See :func:`ngram_scan`.
        mix: a, ``[n, d]``; default :math:`y = c_n`.
        act: σ, elementwise; default the identity. Where it is random, by torch's generators
            (dropout, ``RReLU``), or reads tensors that learn and are not its parameters, steps are of plain
            operations, which is slower; and where ``mask`` wants a gradient.
        carry: f and x, each ``[N, d]`` in step order; without, :math:`h = \sigma(y)`.
        mask: m, of dropout, ``[B, d]`` in the order of a step; default 1. Without ``carry`` only the gate
            has it.

    Returns:
        :math:`c_1 … c_n` and h, each behind its state, ``[B + N, d]`` in step order.
    """
    parameters = () if act is None else tuple(act.parameters())
    f, x = carry or (None, None)
    # The fast backward pass computes σ again, which must not be another one.
    plain = transformed() or torch.compiler.is_compiling()
    learned_mask = mask is not None and mask.requires_grad
    fast = not plain and not learned_mask and (act is None or comes_again(act, logits))
    scan = _FeedbackScan.apply if fast else _plain_scan
    return scan(
        steps, act, compose, normalize, state, logits, weight, mix, f, x, mask, len(u), *u, *parameters
    )


class _FeedbackScan(torch.autograd.Function):
    """Step by step with one product of matrices each; all that can wait is done for all steps at once."""

    @staticmethod
    def forward(
        ctx: Any,
        steps: Steps,
        act: torch.nn.Module | None,
        compose: str,
        normalize: bool,
        state: Tensor | None,
        logits: Tensor,
        weight: Tensor,
        mix: Tensor | None,
        f: Tensor | None,
        x: Tensor | None,
        mask: Tensor | None,
        n: int,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        u = rest[:n]
        gates = logits.clone()
        states = [None] * (n + 1) if state is None else state.unbind(0)
        buffers = [steps.room(logits, before) for before in states]
        mixed = None if mix is None else torch.empty_like(logits)
        scratch = torch.empty_like(buffers[0][: steps.num_strings])
        transposed = weight.t()
        pairs = zip(*map(steps.pairs, buffers), strict=True)
        inputs = steps.each(gates, mixed, f, x, *u)
        for levels, (gate, y, f_t, x_t, *u_t) in zip(pairs, inputs, strict=True):
            h_before, h = levels[n]
            part = scratch[: len(h)]
            mask_t = None if mask is None else mask[: len(h)]
            seen = h_before if mask_t is None else torch.mul(h_before, mask_t, out=part)
            gate.addmm_(seen, transposed).sigmoid_()
            for j, new in enumerate(u_t):
                before, now = levels[j]
                if j:
                    new = composed(levels[j - 1][0], new, compose, out=part)
                if normalize:
                    torch.lerp(new, before, gate, out=now)
                else:
                    torch.addcmul(new, before, gate, out=now)
            if y is None:
                y = levels[n - 1][1]
            else:
                assert mix is not None
                y.zero_()
                for (_, now), a in zip(levels[:n], mix, strict=True):
                    y.addcmul_(now, a)
            value = y if act is None else act(y)
            if f_t is None:
                h.copy_(value)
            else:
                torch.lerp(x_t, value if mask_t is None else value * mask_t, f_t, out=h)
        ctx.steps, ctx.act, ctx.compose, ctx.normalize, ctx.n = steps, act, compose, normalize, n
        ctx.modes = {} if act is None else modes_of(act)
        ctx.save_for_backward(state, logits, weight, mix, f, x, mask, *rest, gates, mixed, *buffers)
        return tuple(buffers)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        with in_modes(ctx.modes):  # σ is computed again
            return _FeedbackScan._gradients(ctx, *grads)

    @staticmethod
    def _gradients(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        steps, act, compose, normalize, n = ctx.steps, ctx.act, ctx.compose, ctx.normalize, ctx.n
        state, logits, weight, mix, f, x, mask, *saved = ctx.saved_tensors
        num_parameters = len(saved) - 2 * n - 3
        u, parameters = saved[:n], saved[n : n + num_parameters]
        gates, mixed, *buffers = saved[n + num_parameters :]
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            values = (steps, act, compose, normalize, state, logits, weight, mix, f, x, mask, n)
            values = (*values, *u, *parameters)
            return differentiable_gradients(_plain_scan, values, ctx.needs_input_grad, grads)
        before = [steps.previous(buffer) for buffer in buffers]
        c = [buffer[steps.num_strings :] for buffer in buffers[:n]]
        m = None if mask is None else steps.of_tokens(mask)
        y = c[-1] if mix is None else mixed
        value, slope = (y, None) if act is None else _value_and_slope(act, y)
        # What gradients are multiplied by on their way from h to σ(y), and to y; from c_j to the gate's
        # logits, and to c_{j−1}: for all steps at once.
        to_value = _product(f, m) if f is not None else None
        to_y = _product(to_value, slope)
        scale = 1 - gates if normalize else None
        slope_of_gate = gates * (1 - gates)
        to_logits, to_below = [], []
        for j in range(n):
            new = composed(before[j - 1], u[j], compose) if j else u[j]
            to_logits.append(slope_of_gate * (before[j] - new if normalize else before[j]))
            if j:
                to_below.append(_product(scale, u[j] if compose == "mul" else None))
        # What cannot wait: from every step to the one before.
        grads = tuple(grad.clone() for grad in grads)
        grad_logits = torch.empty_like(logits)
        grad_y = None if mix is None else torch.empty_like(logits)
        scratch = torch.empty_like(grads[0][: steps.num_strings])
        pairs = list(zip(*map(steps.pairs, grads), strict=True))
        inputs = steps.each(grad_logits, grad_y, gates, to_y, *to_logits, *to_below)
        for levels, (d_logits, d_y, gate, to_y_t, *to_other) in zip(
            reversed(pairs), reversed(inputs), strict=True
        ):
            h_before, h = levels[n]
            if d_y is None:
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
        # What could wait.
        *arrived, arrived_h = (grad[steps.num_strings :] for grad in grads)
        sent = arrived if scale is None else [grad * scale for grad in arrived]
        grad_u = [
            grad * below if compose == "mul" else grad for grad, below in zip(sent[1:], before, strict=False)
        ]
        needed = ctx.needs_input_grad
        return (
            *(None, None, None, None),
            torch.stack([grad[: steps.num_strings] for grad in grads]) if needed[4] else None,
            grad_logits,
            grad_logits.t() @ (before[n] if m is None else before[n] * m),
            torch.stack([(grad_y * c_j).sum(0) for c_j in c]) if needed[7] else None,
            arrived_h * (_product(value, m) - x) if needed[8] else None,
            arrived_h * (1 - f) if needed[9] else None,
            *(None, None),
            *(sent[0], *grad_u),
            *_parameter_gradients(act, y, arrived_h if to_value is None else arrived_h * to_value),
        )


def _product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Of two factors; ``None`` is 1."""
    return b if a is None else a if b is None else a * b


def add_product(to: Tensor, a: Tensor, b: Tensor | None) -> None:
    """Add a ⊙ b in place; ``None`` is 1."""
    if b is None:
        to.add_(a)
    else:
        to.addcmul_(a, b)


def _value_and_slope(act: torch.nn.Module, y: Tensor) -> tuple[Tensor, Tensor]:
    """σ(y) and σ'(y) of an elementwise σ."""
    with torch.enable_grad():
        y = y.detach().requires_grad_()
        value = act(y)
    if not value.requires_grad:
        return value, torch.zeros_like(y)
    (slope,) = torch.autograd.grad(value, y, torch.ones_like(value))
    return value.detach(), slope


def _parameter_gradients(act: torch.nn.Module | None, y: Tensor, grad: Tensor) -> Sequence[Tensor | None]:
    """Gradients of the weights of σ, from that of σ(y); ``None`` of those that do not learn."""
    weights = () if act is None else tuple(act.parameters())
    learned = [weight for weight in weights if weight.requires_grad]
    if act is None or not learned:
        return (None,) * len(weights)
    with torch.enable_grad():
        value = act(y.detach())
    found = iter(torch.autograd.grad(value, learned, grad, allow_unused=True))
    return tuple(next(found) if weight.requires_grad else None for weight in weights)


def _plain_scan(
    steps: Steps,
    act: torch.nn.Module | None,
    compose: str,
    normalize: bool,
    state: Tensor | None,
    logits: Tensor,
    weight: Tensor,
    mix: Tensor | None,
    f: Tensor | None,
    x: Tensor | None,
    mask: Tensor | None,
    n: int,
    *rest: Tensor,
) -> tuple[Tensor, ...]:
    """The same of torch's own operations."""
    u, parameters = rest[:n], rest[n:]

    def activated(y: Tensor) -> Tensor:
        if act is None:
            return y
        names = (name for name, _ in act.named_parameters())
        return torch.func.functional_call(act, dict(zip(names, parameters, strict=True)), (y,))

    carry = None if f is None or x is None else (f, x)
    step = feedback_step(u, logits, weight, compose, normalize, mix, activated, carry, mask)
    return by_step(step, steps, [None] * (n + 1) if state is None else state.unbind(0), logits)
