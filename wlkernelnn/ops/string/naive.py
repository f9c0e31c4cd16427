"""The recurrences as their equations say them: the oracle of the fast versions, and for reading.

Everything is in string order: strings end to end, ``ptr [B+1]`` where each begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .equations import Cell, Step, feedback_step, gated_step, ngram_step


def decayed_scan_naive(
    u: Tensor, decay: float | Tensor, ptr: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r""":math:`c_t = \lambda_t \odot c_{t-1} + u_t` of every string.

    Args:
        u: ``[N, d]``.
        decay: λ: a number, ``[d]``, or ``[N, d]``.
        ptr: ``[B+1]``.
        state: :math:`c_0`, ``[B, d]``; default 0.

    Returns:
        c ``[N, d]``, and the last of every string ``[B, d]``.
    """
    states = None if state is None else state.unsqueeze(0)
    (c,), last = ngram_scan_naive([u], decay, ptr, states, normalize=False)
    return c, last[0]


def ngram_scan_naive(
    u: Sequence[Tensor],
    decay: float | Tensor,
    ptr: Tensor,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
) -> tuple[list[Tensor], Tensor]:
    r"""The n levels of a string kernel (Lei et al. 2017, section 2, Tables 4 and 5) of every string.

    .. math::
        c_1[t] = \lambda_t c_1[t-1] + s_t u_1[t] \qquad
        c_j[t] = \lambda_t c_j[t-1] + s_t (c_{j-1}[t-1] \circ u_j[t])

    Args:
        u: n tensors ``[N, d]``.
        decay: λ: a number, ``[d]``, or ``[N, d]``.
        ptr: ``[B+1]``.
        state: :math:`c_1[0] … c_n[0]`, ``[n, B, d]``; default 0.
        compose: ∘, ``"mul"`` or ``"add"``.
        normalize: s = 1 − λ instead of 1.

    Returns:
        :math:`c_1 … c_n`, each ``[N, d]``, and the last of every string ``[n, B, d]``.
    """

    states = [None] * len(u) if state is None else state.unbind(0)
    rows, last = _by_string(ngram_step(u, decay, compose, normalize), ptr, states, u[0])
    return rows, torch.stack(last)


def feedback_scan_naive(
    u: Sequence[Tensor],
    logits: Tensor,
    weight: Tensor,
    ptr: Tensor,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
    mix: Tensor | None = None,
    act: Callable[[Tensor], Tensor] | None = None,
    carry: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
) -> tuple[list[Tensor], Tensor]:
    r"""The recurrence of :func:`ngram_scan_naive`, gated by tokens and by the output h before.

    .. math::
        \lambda_t = \mathrm{sigmoid}(z_t + U (m \odot h[t-1])) \qquad
        y[t] = \sum_j a_j \odot c_j[t] \qquad
        h[t] = f_t \odot m \odot \sigma(y[t]) + (1 - f_t) \odot x_t

    Args:
        u: n tensors ``[N, d]``.
        logits: z, ``[N, d]``.
        weight: U, ``[d, d]``.
        ptr: ``[B+1]``.
        state: :math:`c_1[0] … c_n[0], h[0]`, ``[n+1, B, d]``; default 0.
        compose, normalize: See :func:`ngram_scan_naive`.
        mix: a, ``[n, d]``; default :math:`y = c_n`.
        act: σ; default the identity.
        carry: f and x, each ``[N, d]``; without, :math:`h = \sigma(y)`.
        mask: m, ``[B, d]``; default 1.

    Returns:
        :math:`c_1 … c_n` and h, each ``[N, d]``, and the last of every string ``[n+1, B, d]``.
    """

    states = [None] * (len(u) + 1) if state is None else state.unbind(0)
    step = feedback_step(u, logits, weight, compose, normalize, mix, act, carry, mask)
    rows, last = _by_string(step, ptr, states, u[0])
    return rows, torch.stack(last)


def gated_scan_naive(
    cell: Cell,
    parts: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    state: Sequence[Tensor | None] = (None, None),
    scales: Sequence[float | Tensor] = (1.0, 0.0),
    norm: Callable[[Tensor], Tensor] | None = None,
    norm_state: bool = False,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    r"""A gated memory (Liang et al. 2019, equations 9, 10 and 18) of every string.

    .. math::
        [\tilde c_t, i_t, f_t, o_t] = p_t + U h_{t-1} \quad \text{(gates through the sigmoid)} \qquad
        c_t = i_t \odot \varphi(\tilde c_t) + f_t \odot c_{t-1} \qquad
        h_t = o_t \odot \psi(\mathrm{norm}(c_t))

    Args:
        cell: Which of these there are, and what is in place of the others.
        parts: p, ``[N, parts · d]``.
        weight: U of the last parts, those that see h, ``[seeing · d, d]``; ``None`` if none does.
        ptr: ``[B+1]``.
        state: :math:`c_0` and :math:`h_0`, each ``[B, d]``, or ``None`` for 0.
        scales: i and f where they are constant: a number, ``[1]``, or ``[d]``.
        norm: Default the identity.
        norm_state: norm(c) instead of c is what is carried.

    Returns:
        c and h, each ``[N, d]``, and the last of every string, each ``[B, d]``.
    """
    step = gated_step(cell, parts, weight, scales, norm, norm_state)
    (c, h), (last_c, last_h) = _by_string(step, ptr, state, parts[:, : parts.size(1) // len(cell.parts)])
    return (c, h), (last_c, last_h)


def _by_string(
    step: Step, ptr: Tensor, states: Sequence[Tensor | None], like: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """String by string and token by token: what strings carry, and what they end with."""
    zero = like.new_zeros(like.size(1))
    rows: list[list[Tensor]] = [[] for _ in states]
    last: list[list[Tensor]] = [[] for _ in states]
    for string, (begin, end) in enumerate(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)):
        carried: Sequence[Tensor] = [zero if state is None else state[string] for state in states]
        for t in range(begin, end):
            carried = step(carried, t, string)
            for of_token, value in zip(rows, carried, strict=True):
                of_token.append(value)
        for of_string, value in zip(last, carried, strict=True):
            of_string.append(value)

    def stacked(values: list[Tensor]) -> Tensor:
        return torch.stack(values) if values else like.new_zeros(0, like.size(1))

    return [stacked(values) for values in rows], [stacked(values) for values in last]
