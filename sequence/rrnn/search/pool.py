"""The nodes of a step, from which further ones are made."""

from __future__ import annotations

import torch
from torch import Tensor

from .space import Construction, Space
from .tuples import Tuples


class Pool:
    """Nodes :math:`c_1, c_2, …` of B strings in the order [data, previous, auxiliary, 𝒫], ``[B, p]`` each.

    :math:`L_r c_i` and :math:`R_r c_i` are computed once for each node. At the start there are at least two,
    ``[B, n, p]``; ``projected`` is ``tuples.project`` of them, if it is known already.
    """

    def __init__(self, space: Space, tuples: Tuples, nodes: Tensor, projected: Tensor | None = None) -> None:
        self.space = space
        self.nodes = list(nodes.unbind(1))
        self._tuples = tuples
        self._bias = tuples.biases()
        # L_r c_i and R_r c_i of every node, [B, tuples, p] each, and all of them side by side if asked for.
        self._left: list[Tensor] = []
        self._right: list[Tensor] = []
        self._sides: tuple[Tensor, Tensor] | None = None
        self._keep(tuples.project(nodes) if projected is None else projected)
        self._num_paired = 1

    def append(self, node: Tensor) -> None:
        self.nodes.append(node)

    def sides(self) -> tuple[Tensor, Tensor]:
        """:math:`L_r c_i` and :math:`R_r c_i` of all nodes and tuples, ``[B, nodes, tuples, p]`` each."""
        self._project()
        if self._sides is None or self._sides[0].size(1) < len(self.nodes):
            self._sides = torch.stack(self._left, 1), torch.stack(self._right, 1)
        return self._sides

    def candidates(self) -> Tensor:
        """What can be made with nodes that were not there at the last call: ``[B, C, p]``, as numbered."""
        left, right = self.sides()
        blocks = [
            self.space.made(left[:, :j], right[:, j : j + 1], self._bias).flatten(1, -2)
            for j in range(self._num_paired, len(self.nodes))
        ]
        self._num_paired = len(self.nodes)
        return torch.cat(blocks, 1) if len(blocks) > 1 else blocks[0]

    def make(self, numbers: Tensor) -> Tensor:
        """What constructions give: vectors ``[B, K, p]`` of numbers ``[B, K]``."""
        r, o, u, i, j = self.space.parts(numbers)
        left, right = self.sides()
        strings = torch.arange(numbers.size(0), device=numbers.device).unsqueeze(1)
        made = self.space.made(left[strings, i, r], right[strings, j, r], self._bias[r])
        return made[strings, torch.arange(numbers.size(1), device=numbers.device), o, u]

    def one(self, made: Construction) -> Tensor:
        """What one construction gives, the same for all strings: ``[B, p]``."""
        self._project()
        r = made.tuple_index
        return self.space.one(made, self._left[made.left][:, r], self._right[made.right][:, r], self._bias[r])

    def with_tuples(self, made: Construction) -> Tensor:
        """What all tuples make where a construction has its own: ``[B, tuples, p]``."""
        self._project()
        return self.space.one(made, self._left[made.left], self._right[made.right], self._bias)

    def _project(self) -> None:
        known = len(self._left)
        if known < len(self.nodes):
            self._keep(self._tuples.project(torch.stack(self.nodes[known:], 1)))

    def _keep(self, projected: Tensor) -> None:
        left, right = projected.unbind(2)
        self._left += left.unbind(1)
        self._right += right.unbind(1)
