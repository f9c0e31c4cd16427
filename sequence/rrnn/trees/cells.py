"""Known cells, written as the constructions of their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.norm import NodeNorm
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.space import Construction, Space


@dataclass(frozen=True)
class Cell:
    """A cell as a tree: nodes one after the other, as a search would find them.

    Places count x, the states, a vector of zeros, and then the nodes. The tuples have fixed roles.

    Args:
        num_states: M.
        nodes: How they are made, in order.
        ends: After how many nodes each new state is there.
    """

    num_states: int
    nodes: tuple[Construction, ...]
    ends: tuple[int, ...]

    @property
    def num_leaves(self) -> int:
        """How many places come before the nodes."""
        return self.num_states + 2

    @property
    def num_tuples(self) -> int:
        """How many tuples there must be besides the identity."""
        return 1 + max(node.tuple_index for node in self.nodes)

    def numbers(self, space: Space) -> list[int]:
        """The constructions as numbers of a space; a ``ValueError`` if one is not in it."""
        return [space.number(node) for node in self.nodes]

    def follow(self, pool: Pool, norm: NodeNorm | None = None, learn: bool = False) -> Tensor:
        """Make the nodes, ``[B, K, p]``, and append them to a pool that has the leaves.

        Args:
            pool: The leaves.
            norm: Normalises every node as that of the same round, or of the last one if there are fewer.
            learn: Whether running statistics of the norm move to these nodes'.

        Raises:
            ValueError: A node is not in the space of the pool.
        """
        self.numbers(pool.space)  # whether all are there
        for k, construction in enumerate(self.nodes):
            node = pool.one(construction)
            pool.append(node if norm is None else norm(node, min(k, len(norm.weight) - 1), learn))
        return torch.stack(pool.nodes[-len(self.nodes) :], 1)


def _cell(ends: tuple[int, ...], *nodes: tuple[int, str, str, int, int]) -> Cell:
    return Cell(len(ends), tuple(Construction(*node) for node in nodes), ends)


# x, h, 0; then eq. (1) – (4) of Qian et al.: r, z, r ⊙ h, 1 − z, h̃, z ⊙ h, (1 − z) ⊙ h̃, h.
GRU = _cell(
    (8,),
    (0, "add", "sigmoid", 0, 1),
    (1, "add", "sigmoid", 0, 1),
    (-1, "mul", "identity", 1, 3),
    (-1, "add", "one_minus", 2, 4),
    (2, "add", "tanh", 0, 5),
    (-1, "mul", "identity", 1, 4),
    (-1, "mul", "identity", 6, 7),
    (-1, "add", "identity", 8, 9),
)
# x, h, 0; then torch.nn.GRUCell: r, z, W_hn h + b_hn, r ⊙ that, n, 1 − z, z ⊙ h, (1 − z) ⊙ n, h.
TORCH_GRU = _cell(
    (9,),
    (0, "add", "sigmoid", 0, 1),
    (1, "add", "sigmoid", 0, 1),
    (2, "add", "identity", 1, 2),
    (-1, "mul", "identity", 3, 5),
    (3, "add", "tanh", 0, 6),
    (-1, "add", "one_minus", 2, 4),
    (-1, "mul", "identity", 1, 4),
    (-1, "mul", "identity", 7, 8),
    (-1, "add", "identity", 9, 10),
)
# x, c, h, 0; then eq. (7) – (11): f, i, o, c̃, c ⊙ f, i ⊙ c̃, c; tanh c, h.
LSTM = _cell(
    (7, 9),
    (0, "add", "sigmoid", 0, 2),
    (1, "add", "sigmoid", 0, 2),
    (2, "add", "sigmoid", 0, 2),
    (3, "add", "tanh", 0, 2),
    (-1, "mul", "identity", 1, 4),
    (-1, "mul", "identity", 5, 7),
    (-1, "add", "identity", 8, 9),
    (-1, "add", "tanh", 3, 10),
    (-1, "mul", "identity", 6, 11),
)

CELLS = {"gru": GRU, "torch_gru": TORCH_GRU, "lstm": LSTM}
