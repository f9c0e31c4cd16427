"""What a forward pass has grown: trees, and how often each is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.space import Construction, Space

from .trees import Leaf, Tree, tree_of


@dataclass(frozen=True, eq=False)
class Record:
    """The trees of N tokens, in the order of the tokens, with their gradients.

    ``record[n]`` are the trees of token n, one for each state, as plain data.

    Attributes:
        space: What they were chosen from.
        leaf_names: Names of the nodes at the start.
        ends: After how many nodes each state was there.
        num_strings: B.
        leaves: Nodes at the start, ``[N, n, p]``.
        nodes: Nodes that were made, ``[N, K, p]``.
        numbers: How they were made: numbers of the space, ``[N, K]``.
        gaps: α(c*) − α(c**) of each round, ``[N, K]``.
    """

    space: Space
    leaf_names: tuple[str, ...]
    ends: tuple[int, ...]
    num_strings: int
    leaves: Tensor
    nodes: Tensor
    numbers: Tensor
    gaps: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, token: int) -> tuple[Tree, ...]:
        leaves = list(map(Leaf, self.leaf_names, self.leaves[token].detach().unbind(0)))
        made = self.space.constructions(self.numbers[token].tolist())
        vectors = self.nodes[token].detach().unbind(0)
        return tuple(tree_of(leaves, made[:end], vectors[:end]) for end in self.ends)

    def occurrences(self, state: int = 0) -> Tensor:
        """How often each place occurs in the trees of a state, counted from 0: ``[N, n + K]``, leaves first,
        with K the nodes up to the state.
        """
        end, num_leaves = self.ends[state], self.leaves.size(1)
        children = self.space.parts(self.numbers[:, :end])[3:]
        counts = torch.zeros(len(self), num_leaves + end, device=self.numbers.device)
        counts[:, -1] = 1
        for k in range(end - 1, -1, -1):
            parents = counts[:, num_leaves + k].unsqueeze(1).clone()
            for child in children:
                counts.scatter_add_(1, child[:, k : k + 1], parents)
        return counts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens, {len(self.ends)} trees each)"


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
