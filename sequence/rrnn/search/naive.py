"""Algorithm 1 and eq. (5) as they stand, candidate by candidate: the oracle of the batched search."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wlkernelnn.blocks.compose import COMPOSE

from .choice import copies
from .search import Grown
from .space import ACTIVATIONS, Construction, Space, bounded


def search_naive(
    start: Tensor,
    weight: Tensor,
    bias: Tensor,
    space: Space,
    scorer: Callable[[Tensor], Tensor],
    num_rounds: int,
    how: str = "hard",
    temperature: float = 1.0,
    distinct: bool = False,
) -> Grown:
    r"""See :func:`~.search.search` and :class:`~.choice.Choice`.

    Args:
        start: ``[B, n, p]``.
        weight: :math:`L_r` and :math:`R_r` of all tuples, ``[2, tuples, p, p]``; bias: ``[tuples, p]``.
    """
    nodes = list(start.unbind(1))
    numbers: list[Tensor] = []
    gaps: list[Tensor] = []
    strings = torch.arange(len(start))
    for _ in range(num_rounds):
        candidates = []
        for j in range(len(nodes)):
            for i in range(j):
                for r in range(space.num_tuples):
                    for o in space.operations:
                        for u in space.activations:
                            both = COMPOSE[o](nodes[i] @ weight[0, r].t(), nodes[j] @ weight[1, r].t())
                            made = ACTIVATIONS[u](both + bias[r])
                            candidates.append(bounded(made) if space.bounded else made)
        scored = candidates if how != "hard" else [candidate.detach() for candidate in candidates]
        scores = torch.stack([scorer(candidate) for candidate in scored], 1)
        vectors = torch.stack(candidates, 1)
        closed = torch.zeros_like(scores, dtype=torch.bool)
        for number in numbers:
            closed[strings, number] = True
        if distinct:
            copied = closed.clone()
            for node in nodes[start.size(1) :]:
                copied |= copies(vectors, node.unsqueeze(1))
            closed = torch.where(copied.all(1, keepdim=True), closed, copied)
        open_scores = scores.masked_fill(closed, -torch.inf)
        number = open_scores.argmax(1)
        best = vectors[strings, number]
        weights = torch.softmax(open_scores / temperature, 1).unsqueeze(2)
        if how == "softmax":
            nodes.append((weights * vectors).sum(1))
        elif how == "straight_through":
            mixed = (weights * vectors.detach()).sum(1)
            nodes.append(best + mixed - mixed.detach())
        else:
            nodes.append(best)
        numbers.append(number)
        runner_up = open_scores.masked_fill(copies(vectors, best.unsqueeze(1)), -torch.inf).max(1).values
        gaps.append(scores[strings, number] - runner_up)
    return Grown(torch.stack(nodes[start.size(1) :], 1), torch.stack(numbers, 1), torch.stack(gaps, 1))


def merge_naive(
    start: Tensor, weight: Tensor, bias: Tensor, space: Space, scorer: Callable[[Tensor], Tensor]
) -> Grown:
    r"""Eq. (5) of Qian et al., :math:`f = f_N \circ … \circ f_1`, string by string.

    :math:`f_k` makes all :math:`C_k` of pairs in the multiset :math:`\mathcal N_{k-1}`, puts the best one in
    and takes its children out, until one is left. Arguments are those of :func:`search_naive`.
    """
    vectors, numbers = [], []
    for string in start:
        multiset = dict(enumerate(string))  # by places
        made: list[Tensor] = []
        how: list[int] = []
        while len(multiset) > 1:
            candidates = {}
            for j in multiset:
                for i in (place for place in multiset if place < j):
                    for r in range(space.num_tuples):
                        for o in space.operations:
                            for u in space.activations:
                                left, right = weight[0, r] @ multiset[i], weight[1, r] @ multiset[j]
                                vector = ACTIVATIONS[u](COMPOSE[o](left, right) + bias[r])
                                number = space.number(Construction(r, o, u, i, j))
                                candidates[number] = bounded(vector) if space.bounded else vector
            number = max(candidates, key=lambda number: (scorer(candidates[number]).item(), -number))
            *_, i, j = space.construction(number)
            del multiset[i], multiset[j]
            multiset[start.size(1) + len(made)] = candidates[number]
            made.append(candidates[number])
            how.append(number)
        vectors.append(torch.stack(made))
        numbers.append(how)
    return Grown(torch.stack(vectors), torch.tensor(numbers), None)
