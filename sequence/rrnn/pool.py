"""The nodes of a step, from which further ones are made."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .space import Construction, Space
from .tuples import Tuples


class Pool:
    """Nodes :math:`c_1, c_2, …` of B strings in the order [data, previous, auxiliary, 𝒫].

    :math:`L_r c_i` and :math:`R_r c_i` are computed once for each node.

    Args:
        space: What can be made of them.
        tuples: The tuples (L, R, b), as many as in ``space``.
        nodes: Those at the start, at least two, ``[B, n, p]``.
        projected: ``tuples.project(nodes)``, if it is known already.

    Attributes:
        nodes: All nodes, ``[B, p]`` each.
    """

    def __init__(self, space: Space, tuples: Tuples, nodes: Tensor, projected: Tensor | None = None) -> None:
        self.space = space
        self.nodes = list(nodes.unbind(1))
        self._tuples = tuples
        self._bias = tuples.biases()
        self._projected = tuples.project(nodes) if projected is None else projected
        self._num_paired = 1

    def append(self, node: Tensor) -> None:
        """One more node, ``[B, p]``."""
        self.nodes.append(node)

    def projected(self) -> Tensor:
        """:math:`L_r c_i` and :math:`R_r c_i` of all nodes and tuples, ``[B, nodes, 2, tuples, p]``."""
        known = self._projected.size(1)
        if known < len(self.nodes):
            new = self._tuples.project(torch.stack(self.nodes[known:], 1))
            self._projected = torch.cat([self._projected, new], 1)
        return self._projected

    def candidates(self) -> Tensor:
        """What can be made with nodes that were not there at the last call: ``[B, C, p]``, as numbered."""
        left, right = self.projected().unbind(2)
        blocks = [
            self.space.made(left[:, :j], right[:, j : j + 1], self._bias).flatten(1, -2)
            for j in range(self._num_paired, len(self.nodes))
        ]
        self._num_paired = len(self.nodes)
        return torch.cat(blocks, 1) if len(blocks) > 1 else blocks[0]

    def make(self, numbers: Tensor) -> Tensor:
        """What constructions give: vectors ``[B, K, p]`` of numbers ``[B, K]``."""
        r, o, u, i, j = self.space.parts(numbers)
        left, right = self.projected().unbind(2)
        strings = torch.arange(len(numbers), device=numbers.device).unsqueeze(1)
        made = self.space.made(left[strings, i, r], right[strings, j, r], self._bias[r])
        return made[strings, torch.arange(numbers.size(1), device=numbers.device), o, u]

    def with_tuples(self, made: Construction) -> Tensor:
        """What all tuples make where a construction has its own: ``[B, tuples, p]``."""
        projected = self.projected()
        only = replace(self.space, operations=(made.operation,), activations=(made.activation,))
        return only.made(projected[:, made.left, 0], projected[:, made.right, 1], self._bias).flatten(1, -2)
