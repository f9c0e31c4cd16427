"""The recurrences as their equations say them: the oracle of the fast versions, and for reading.

Everything is in string order: strings end to end, ``ptr [B+1]`` where each begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .cell import Cell


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

    def gate(h: Tensor, t: int, string: int) -> float | Tensor:
        return decay[t] if isinstance(decay, Tensor) and decay.dim() == 2 else decay

    def output(c: list[Tensor], t: int, string: int) -> Tensor:
        return c[-1]

    rows, last = _recurrence(u, gate, output, ptr, state, compose, normalize)
    return rows[:-1], last[:-1]


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

    def gate(h: Tensor, t: int, string: int) -> Tensor:
        seen = h if mask is None else mask[string] * h
        return torch.sigmoid(logits[t] + weight @ seen)

    def output(c: list[Tensor], t: int, string: int) -> Tensor:
        h = c[-1] if mix is None else torch.stack([a * c_j for a, c_j in zip(mix, c, strict=True)]).sum(0)
        h = h if act is None else act(h)
        if carry is None:
            return h
        f, x = carry[0][t], carry[1][t]
        return f * (h if mask is None else mask[string] * h) + (1 - f) * x

    return _recurrence(u, gate, output, ptr, state, compose, normalize)


def _recurrence(
    u: Sequence[Tensor],
    gate: Callable[[Tensor, int, int], float | Tensor],
    output: Callable[[list[Tensor], int, int], Tensor],
    ptr: Tensor,
    state: Tensor | None,
    compose: str,
    normalize: bool,
) -> tuple[list[Tensor], Tensor]:
    """String by string and token by token; ``gate(h, t, string)`` gives λ and ``output(c, t, string)`` h."""
    n, zero = len(u), u[0].new_zeros(u[0].size(1))
    rows: list[list[Tensor]] = [[] for _ in range(n + 1)]
    last = []
    for string, (begin, end) in enumerate(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)):
        c = [zero if state is None else state[j, string] for j in range(n)]
        h = zero if state is None or len(state) == n else state[n, string]
        for t in range(begin, end):
            decay = gate(h, t, string)
            scale = 1 - decay if normalize else 1
            new = [decay * c[0] + scale * u[0][t]]
            for j in range(1, n):
                part = c[j - 1] * u[j][t] if compose == "mul" else c[j - 1] + u[j][t]
                new.append(decay * c[j] + scale * part)
            c, h = new, output(new, t, string)
            for kept, value in zip(rows, (*c, h), strict=True):
                kept.append(value)
        last.append(torch.stack([*c, h]))
    out = [torch.stack(kept) if kept else u[0].new_zeros(0, u[0].size(1)) for kept in rows]
    return out, torch.stack(last, 1) if last else u[0].new_zeros(n + 1, 0, u[0].size(1))


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
    width = parts.size(1) // len(cell.parts)
    zero = parts.new_zeros(width)
    rows: tuple[list[Tensor], list[Tensor]] = ([], [])
    last: tuple[list[Tensor], list[Tensor]] = ([], [])
    for string, (begin, end) in enumerate(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)):
        c, h = (zero if before is None else before[string] for before in state)
        for t in range(begin, end):
            seeing = parts.new_zeros(parts.size(1))
            if weight is not None:
                seeing = torch.cat([seeing[weight.size(0) :], weight @ h])
            part = cell.named(parts[t] + seeing)
            gate = {name: torch.sigmoid(logit) for name, logit in part.items()}
            new = torch.tanh(part["cell"]) if cell.squash else part["cell"]
            f: float | Tensor = 0.0
            if cell.forget is not None:
                f = gate["forget"] if cell.forget == "gate" else scales[1]
            i = 1 - f if cell.input == "rest" else gate["input"] if cell.input == "gate" else scales[0]
            c = i * new + f * c
            y = c if norm is None else norm(c)
            c = y if norm_state else c
            h = torch.tanh(y) if cell.squash_output else y
            h = gate["output"] * h if cell.output else h
            rows[0].append(c)
            rows[1].append(h)
        last[0].append(c)
        last[1].append(h)

    def stacked(values: list[Tensor]) -> Tensor:
        return torch.stack(values) if values else parts.new_zeros(0, width)

    return (stacked(rows[0]), stacked(rows[1])), (stacked(last[0]), stacked(last[1]))
