"""The decayed scan and the n-gram recurrence, step by step over all strings at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.compose import composed
from wlkernelnn.ops.differentiable import differentiable_gradients

from .naive import ngram_scan_naive
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
    return _NgramScan.apply(steps, decay, state, compose, normalize, *u)


class _NgramScan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: Steps,
        decay: float | Tensor,
        state: Tensor | None,
        compose: str,
        normalize: bool,
        *u: Tensor,
    ) -> tuple[Tensor, ...]:
        c: list[Tensor] = []
        for j, new in enumerate(u):
            extended = steps.room(new, None if state is None else state[j])
            tokens = extended[steps.num_strings :]
            if j:
                new = composed(steps.previous(c[-1]), new, compose, out=tokens)
            if normalize:
                torch.mul(new, 1 - decay, out=tokens)
            elif not j:
                tokens.copy_(new)
            sweep_(steps.pairs(extended), decay, steps)
            c.append(extended)
        ctx.steps, ctx.compose, ctx.normalize = steps, compose, normalize
        ctx.number = None if isinstance(decay, Tensor) else decay
        ctx.save_for_backward(decay if isinstance(decay, Tensor) else None, state, *u, *c)
        return tuple(c)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        steps, compose, normalize = ctx.steps, ctx.compose, ctx.normalize
        decay, state, *saved = ctx.saved_tensors
        decay = ctx.number if decay is None else decay
        u, c = saved[: len(grads)], saved[len(grads) :]
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            values = (steps, decay, state, compose, normalize, *u)
            return differentiable_gradients(_composed_scan, values, ctx.needs_input_grad, grads)
        scale = 1 - decay if normalize else None
        grads = tuple(grad.clone() for grad in grads)
        grad_u: list[Tensor] = []
        grad_decay = None
        for j in reversed(range(len(u))):
            pairs = steps.pairs(grads[j])
            sweep_([(now, before) for before, now in reversed(pairs)], decay, steps, backwards=True)
            arriving = grads[j][steps.num_strings :]
            below = steps.previous(c[j - 1]) if j else None
            if ctx.needs_input_grad[1]:
                moved = steps.previous(c[j])
                if normalize:
                    moved = moved - (u[j] if below is None else composed(below, u[j], compose))
                grad_decay = arriving * moved if grad_decay is None else grad_decay.addcmul_(arriving, moved)
            sent = arriving if scale is None else arriving * scale
            if below is None:
                grad_u.append(sent)
                continue
            grad_u.append(sent * below if compose == "mul" else sent)
            add_to_previous_(grads[j - 1], sent * u[j] if compose == "mul" else sent, steps)
        if grad_decay is not None and decay.dim() == 1:
            grad_decay = grad_decay.sum(0)
        grad_state = None
        if ctx.needs_input_grad[2]:
            grad_state = torch.stack([grad[: steps.num_strings] for grad in grads])
        return None, grad_decay, grad_state, None, None, *reversed(grad_u)


def sweep_(
    pairs: Iterable[tuple[Tensor, Tensor]], decay: float | Tensor, steps: Steps, backwards: bool = False
) -> None:
    """Add λ times its neighbour to every step, one after the other; λ is that of the later of the two."""
    if not isinstance(decay, Tensor):
        for from_, to in pairs:
            to.add_(from_, alpha=decay)
        return
    factors = steps.split(decay) if decay.dim() == 2 else [decay] * len(steps.counts)
    for (from_, to), factor in zip(pairs, reversed(factors) if backwards else factors, strict=True):
        to.addcmul_(from_, factor)


def add_to_previous_(extended: Tensor, values: Tensor, steps: Steps) -> None:
    """Add ``values [N, d]`` to what came before every token: the transpose of ``steps.previous``."""
    if steps.equal:
        extended[: steps.num_tokens] += values
        return
    for (before, _), value in zip(steps.pairs(extended), steps.split(values), strict=True):
        before += value


def _composed_scan(
    steps: Steps, decay: float | Tensor, state: Tensor | None, compose: str, normalize: bool, *u: Tensor
) -> tuple[Tensor, ...]:
    """The same of operations that can be differentiated any number of times."""
    if isinstance(decay, Tensor) and decay.dim() == 2:
        decay = steps.leave(decay)
    before = None if state is None else steps.unsort(state)
    c, _ = ngram_scan_naive([steps.leave(value) for value in u], decay, steps.ptr, before, compose, normalize)
    states = [None] * len(u) if state is None else state.unbind(0)
    return tuple(steps.with_state(steps.enter(c_j), c_0) for c_j, c_0 in zip(c, states, strict=True))
