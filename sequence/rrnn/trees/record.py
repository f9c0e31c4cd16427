"""What a forward pass has grown."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.space import Space

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
