"""The recurrences string by string and token by token: what the fast versions are tested against.

Arguments are those of the fast versions, but in string order: strings end to end, ``ptr [B+1]`` where each
begins, in the place of ``steps``. Each returns what tokens have, ``[N, d]``, and what strings end with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .equations import Decay, GatedCell, Step, feedback_step, gated_step, ngram_step


def decayed_scan_naive(
    u: Tensor, decay: Decay, ptr: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`decayed_scan`: c ``[N, d]``, and the last of every string ``[B, d]``."""
    states = None if state is None else state.unsqueeze(0)
    (c,), last = ngram_scan_naive([u], decay, ptr, states, normalize=False)
    return c, last[0]


def ngram_scan_naive(
    u: Sequence[Tensor],
    decay: Decay,
    ptr: Tensor,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
) -> tuple[list[Tensor], Tensor]:
    r""":func:`ngram_scan`: :math:`c_1 … c_n`, each ``[N, d]``, and the last of every string ``[n, B, d]``."""
    states = [None] * len(u) if state is None else state.unbind(0)
    rows, last = _by_string(ngram_step(u, decay, compose, normalize), ptr, states, u[0])
    return rows, torch.stack(last)


def ngram_graph_naive(
    u: Sequence[Tensor],
    decay: Decay,
    edges: Sequence[tuple[int, int]],
    weight: Sequence[float | Tensor] | None = None,
    compose: str = "mul",
    normalize: bool = True,
) -> list[Tensor]:
    r""":func:`ngram_scan` along the edges of a directed acyclic graph: :math:`c_1 … c_n`, each ``[N, d]``.

    .. math::
        c_j[v] = \lambda_v \sum_{u \to v} w_{uv} \, c_j[u]
            + s_v \Big(\sum_{u \to v} w_{uv} \, c_{j-1}[u]\Big) \circ u_j[v]

    Args:
        u, decay, compose, normalize: See :func:`ngram_scan`.
        edges: Source and target of each.
        weight: w of every edge; default 1.
    """
    weighted = [*zip(edges, [1.0] * len(edges) if weight is None else weight, strict=True)]
    step, zero = ngram_step(u, decay, compose, normalize), torch.zeros_like(u[0][:1])[0]
    carried: dict[int, Sequence[Tensor]] = {}

    def carry(v: int) -> Sequence[Tensor]:
        if v not in carried:
            before = [zero] * len(u)
            for (source, target), w in weighted:
                if target == v:
                    before = [c + w * sent for c, sent in zip(before, carry(source), strict=True)]
            carried[v] = step(before, v, 0)
        return carried[v]

    rows = [carry(v) for v in range(len(u[0]))]
    return [torch.stack(of_level) for of_level in zip(*rows, strict=True)]


def feedback_scan_naive(
    u: Sequence[Tensor],
    logits: Tensor,
    weight: Tensor,
    ptr: Tensor,
    state: Tensor | None = None,
    **options: Any,
) -> tuple[list[Tensor], Tensor]:
    r""":func:`feedback_scan`: :math:`c_1 … c_n` and h, each ``[N, d]``, and the last ``[n+1, B, d]``."""
    states = [None] * (len(u) + 1) if state is None else state.unbind(0)
    rows, last = _by_string(feedback_step(u, logits, weight, **options), ptr, states, u[0])
    return rows, torch.stack(last)


def gated_scan_naive(
    cell: GatedCell,
    parts: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    state: Sequence[Tensor | None] = (None, None),
    scales: Sequence[float | Tensor] = (1.0, 0.0),
    norm: Callable[[Tensor], Tensor] | None = None,
    norm_state: bool = False,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """:func:`gated_scan` of parts W x + b ``[N, parts · d]``: c and h ``[N, d]``, and the last ``[B, d]``."""
    step = gated_step(cell, parts, weight, scales, norm, norm_state)
    (c, h), (last_c, last_h) = _by_string(step, ptr, state, parts[:, : parts.size(1) // len(cell.parts)])
    return (c, h), (last_c, last_h)


def _by_string(
    step: Step, ptr: Tensor, states: Sequence[Tensor | None], like: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """What strings carry at each token, and what they end with."""
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
