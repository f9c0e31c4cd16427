"""The search that grows a tree, for a whole batch (Algorithm 1, and eq. (5))."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .choice import Choice, copies
from .pool import Pool


class Grown(NamedTuple):
    """What a search has found for B strings: the nodes of 𝒫 ``[B, K, p]``, their numbers in a
    :class:`~.space.Space` ``[B, K]``, and α(c*) − α(c**) of each round ``[B, K]``, if asked for.
    """

    nodes: Tensor
    numbers: Tensor
    gaps: Tensor | None


def search(
    pool: Pool,
    scorer: Callable[[Tensor], Tensor],
    num_rounds: int,
    choice: Choice,
    distinct: bool = False,
    norm: Callable[[Tensor, int], Tensor] | None = None,
    merging: bool = False,
) -> Grown:
    r"""Grow trees: in each round the candidate with the highest score becomes a node.

    Candidates are :math:`u(o(L_r c_i, R_r c_j) + b_r)` of all r, o, u and i < j. Those of earlier rounds are
    still there: they and their scores are computed once, and a round adds those with the newest node.

    Args:
        pool: Nodes at the start; those that are found are appended.
        scorer: α, from ``[B, C, p]`` to ``[B, C]``; it scores each candidate by itself.
        num_rounds: N̄.
        choice: How a node comes from the candidates.
        distinct: No candidate is chosen that is a copy of a node of 𝒫 (line 14), unless there is
            nothing else. Otherwise only none that is made in the same way: c and :math:`0 + c` may both be
            in 𝒫.
        norm: Of the node of each round, counted from 0, once it is chosen: copies are looked for before.
        merging: Both children of a node leave (eq. (5)), so that every node is used once; candidates that
            were chosen are closed by that alone.
    """
    start = len(pool.nodes)
    made: list[Tensor] = []
    blocks: list[Tensor] = []
    picks: list[Tensor] = []
    gaps: list[Tensor | None] = []
    scores = taken = copied = None
    first = pool.nodes[0]
    used = torch.zeros(first.size(0), start + num_rounds, dtype=torch.bool, device=first.device)
    for k in range(num_rounds):
        pool.sides()  # of which the chosen node has gradients
        with torch.set_grad_enabled(torch.is_grad_enabled() and choice.learns):
            new = pool.candidates()
        if distinct or choice.learns:
            blocks.append(new)
        scores = _beside(scores, scorer(new))
        taken = _beside(taken, scores.new_zeros(new.shape[:2], dtype=torch.bool))
        closed = taken
        if distinct:
            found = torch.stack(made, 1) if made else new[:, :0]
            copied = _beside(copied, _copied(new, found))
            copied = copied | torch.cat([_copied(block, found[:, -1:]) for block in blocks], 1)
            closed = taken | copied
            closed = torch.where(closed.all(1, keepdim=True), taken, closed)
        if merging:
            *_, left, right = pool.space.parts(torch.arange(scores.size(1), device=scores.device))
            closed = used[:, left] | used[:, right]
        chosen = choice(scores.masked_fill(closed, -torch.inf), blocks, pool.make)
        if merging:
            *_, left, right = pool.space.parts(chosen.best)
            both = torch.stack([left, right], 1)
            used = used.scatter(1, both, torch.ones_like(both, dtype=torch.bool))
        taken = taken.scatter(1, chosen.best.unsqueeze(1), 1)
        made.append(chosen.node)
        pool.append(chosen.node if norm is None else norm(chosen.node, k))
        picks.append(chosen.best)
        gaps.append(chosen.gap)
    return grown(pool, picks, gaps)


def grown(pool: Pool, numbers: list[Tensor], gaps: list[Tensor | None]) -> Grown:
    """What was found, of lists over the rounds: the last nodes of a pool."""
    known = [gap for gap in gaps if gap is not None]
    nodes = torch.stack(pool.nodes[len(pool.nodes) - len(numbers) :], 1)
    return Grown(nodes, torch.stack(numbers, 1), torch.stack(known, 1) if known else None)


def _beside(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else torch.cat([one, other], 1)


@torch.no_grad()
def _copied(candidates: Tensor, nodes: Tensor) -> Tensor:
    """Which candidates ``[B, C, p]`` are copies of one of the nodes ``[B, k, p]``: ``[B, C]``."""
    found = torch.zeros(candidates.shape[:2], dtype=torch.bool, device=candidates.device)
    for node in nodes.unbind(1):
        found = found | copies(candidates, node.unsqueeze(1))
    return found
