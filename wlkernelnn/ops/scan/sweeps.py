"""The n-gram recurrence by stock operations: step by step over all strings at once, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from wlkernelnn.compose import composed

from .steps import Steps


def ngram(
    u: Sequence[Tensor],
    decay: float | Tensor,
    steps: Steps,
    state: Tensor | None,
    compose: str,
    normalize: bool,
) -> tuple[Tensor, ...]:
    """What :func:`wlkernelnn.ops.scan.ngram_scan` returns, without gradients."""
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
    return tuple(c)


def ngram_gradients(
    u: Sequence[Tensor],
    decay: float | Tensor,
    steps: Steps,
    c: Sequence[Tensor],
    grads: Sequence[Tensor],
    compose: str,
    normalize: bool,
    of_decay: bool,
) -> tuple[list[Tensor], Tensor | None, Tensor]:
    """Gradients of u, of λ if it is wanted, and of the state."""
    scale = 1 - decay if normalize else None
    grads = tuple(grad.clone() for grad in grads)
    grad_u: list[Tensor] = []
    grad_decay = None
    for j in reversed(range(len(u))):
        pairs = steps.pairs(grads[j])
        sweep_([(now, before) for before, now in reversed(pairs)], decay, steps, backwards=True)
        arriving = grads[j][steps.num_strings :]
        below = steps.previous(c[j - 1]) if j else None
        if of_decay:
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
    if grad_decay is not None and isinstance(decay, Tensor) and decay.dim() == 1:
        grad_decay = grad_decay.sum(0)
    return grad_u[::-1], grad_decay, torch.stack([grad[: steps.num_strings] for grad in grads])


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
