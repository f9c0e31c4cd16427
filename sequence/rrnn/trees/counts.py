"""What trees a network grows, and how often."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.space import Construction, Space

from .record import Record


def tuple_choices(record: Record) -> Tensor:
    r"""Which tuple every node has, ``[N, K]``; −1 where a node was made and is in no tree of the token.

    This is :math:`\mathcal{I}_{e,i,t,j}` of Qian et al. (section 5.2). Their :math:`N_e`, the changes from
    epoch to epoch, is ``(after != before).sum()`` for the same strings.
    """
    used = torch.zeros_like(record.numbers)
    for state, end in enumerate(record.ends):
        used[:, :end] += record.occurrences(state)[:, -end:].long()
    return torch.where(used > 0, record.space.parts(record.numbers)[0], -1)


def tree_counts(record: Record, state: int = 0) -> Counter[tuple[Construction, ...]]:
    """How many tokens have each tree, given by the constructions of its nodes.

    Children stand before their parents and left ones before right ones. Nodes that are not part of the tree
    are left out, and a node that is used twice is there once.

    Args:
        record: What a pass has grown. The counters of several passes can be added up.
        state: Which of the states, counted from 0.
    """
    numbers = record.numbers[:, : record.ends[state]]
    rows, counts = numbers.cpu().unique(dim=0, return_counts=True)
    found: Counter[tuple[Construction, ...]] = Counter()
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        found[_in_order(record.space, row, record.leaves.size(1))] += count
    return found


def _in_order(space: Space, numbers: list[int], num_leaves: int) -> tuple[Construction, ...]:
    """The nodes below the last one, in the order of a walk through the tree."""
    made = space.constructions(numbers)
    places = {leaf: leaf for leaf in range(num_leaves)}
    ordered: list[Construction] = []

    def visit(place: int) -> int:
        if place not in places:
            node = made[place - num_leaves]
            left, right = visit(node.left), visit(node.right)
            places[place] = num_leaves + len(ordered)
            ordered.append(node._replace(left=left, right=right))
        return places[place]

    visit(num_leaves + len(numbers) - 1)
    return tuple(ordered)
