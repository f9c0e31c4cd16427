"""The n-gram recurrence by stock operations: step by step over all strings at once, level by level."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.ops.fast_op import own

from .equations import Decay
from .steps import Steps


def ngram(
    u: Sequence[Tensor], decay: Decay, steps: Steps, state: Tensor | None, compose: str, normalize: bool
) -> tuple[Tensor, ...]:
    """What :func:`wlkernelnn.ops.string.ngram_scan` returns, without gradients."""
    c: list[Tensor] = []
    for j, new in enumerate(u):
        extended = steps.room(new, None if state is None else state[j])
        if j:
            new = COMPOSE[compose](steps.previous(c[-1]), new, out=extended[steps.num_strings :])
        pairs = steps.pairs(extended)
        for (before, now), new_t, factor in zip(pairs, steps.split(new), factors(decay, steps), strict=True):
            if normalize:  # λ c + (1 − λ) u
                torch.lerp(new_t, before, factor, out=now)
            elif isinstance(factor, Tensor):
                torch.addcmul(new_t, before, factor, out=now)
            else:
                torch.add(new_t, before, alpha=factor, out=now)
        c.append(extended)
    return tuple(c)


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
    grads = own(arrived, c)
    grad_u: list[Tensor] = []
    grad_decay = None
    for j in reversed(range(len(u))):
        for (before, now), factor in zip(
            reversed(steps.pairs(grads[j])), reversed(factors(decay, steps)), strict=True
        ):
            if isinstance(factor, Tensor):
                before.addcmul_(now, factor)
            else:
                before.add_(now, alpha=factor)
        arriving = grads[j][steps.num_strings :]
        below = steps.previous(c[j - 1]) if j else None
        if of_decay:
            moved = steps.previous(c[j])
            if normalize:
                moved = moved - (u[j] if below is None else COMPOSE[compose](below, u[j]))
            grad_decay = arriving * moved if grad_decay is None else grad_decay.addcmul_(arriving, moved)
        sent = _scaled(arriving, decay) if normalize else arriving
        if below is None:
            grad_u.append(sent)
            continue
        grad_u.append(sent * below if compose == "mul" else sent)
        for (before, _), sent_t, u_t in zip(
            steps.pairs(grads[j - 1]), steps.split(sent), steps.split(u[j]), strict=True
        ):
            if compose == "mul":
                before.addcmul_(sent_t, u_t)
            else:
                before.add_(sent_t)
    if grad_decay is not None and isinstance(decay, Tensor) and decay.dim() == 1:
        grad_decay = grad_decay.sum(0)
    return grad_u[::-1], grad_decay, torch.stack([grad[: steps.num_strings] for grad in grads])


def factors(decay: Decay, steps: Steps) -> Sequence[float | Tensor]:
    """λ of every step."""
    if isinstance(decay, Tensor) and decay.dim() == 2:
        return steps.split(decay)
    return [decay] * len(steps.counts)


def _scaled(values: Tensor, decay: Decay) -> Tensor:
    """(1 − λ) times the values."""
    if isinstance(decay, Tensor):
        return torch.addcmul(values, values, decay, value=-1)
    return values * (1 - decay)
