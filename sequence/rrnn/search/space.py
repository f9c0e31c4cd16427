"""What nodes of a tree can be made of: tuples, operations, activations and pairs, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.utils.checks import check_one_of

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "one_minus": lambda v: 1 - v,
    "identity": lambda v: v,
}


class Construction(NamedTuple):
    """How a node is made: :math:`u(o(L_r c_i, R_r c_j) + b_r)`, i < j.

    Attributes:
        tuple_index: r, counted from 0; −1 is the last one, the identity where there is one.
        operation: o.
        activation: u.
        left, right: The places i and j of its children.
    """

    tuple_index: int
    operation: str
    activation: str
    left: int
    right: int


def rounding(dtype: torch.dtype) -> float:
    """How much numbers of about 1 may differ that are the same but for rounding."""
    return min(2**10 * torch.finfo(dtype).eps, 2**-6)


def bounded(vectors: Tensor) -> Tensor:
    r"""Vectors :math:`v` of length p as :math:`v / \max(1, |v| / \sqrt p)`: a root mean square of at most 1.

    Bounded vectors, such as gates and states of a GRU, and their gradients stay as they are.
    """
    # The root is taken of what divides alone: at 0 it has no second derivative.
    square = torch.linalg.vecdot(vectors, vectors).unsqueeze(-1) / vectors.size(-1)
    return vectors / torch.where(square > (1 + rounding(vectors.dtype)) ** 2, square, 1).sqrt()


@dataclass(frozen=True)
class Space:
    """What a search chooses from. Constructions have numbers: first by pair, then by r, o and u.

    Pairs are ordered by j, then by i: those of a new node come last, and no number ever changes.

    Args:
        num_tuples: Number of (L, R, b).
        operations: Names of o: ``"add"`` and ``"mul"``.
        activations: Names of u, see :data:`ACTIVATIONS`.
        bounded: Whether all that is made is :func:`bounded`.

    Raises:
        ValueError: There is nothing to choose from, or a name is unknown.
    """

    num_tuples: int
    operations: tuple[str, ...] = ("add", "mul")
    activations: tuple[str, ...] = ("sigmoid", "tanh", "one_minus", "identity")
    bounded: bool = False

    def __post_init__(self) -> None:
        for name in ("operations", "activations"):
            names = getattr(self, name)
            if not names or len(set(names)) < len(names):
                raise ValueError(f"{name} must be names, each of them once, got {names!r}")
        for operation in self.operations:
            check_one_of("compose", operation, COMPOSE)
        for activation in self.activations:
            if activation not in ACTIVATIONS:
                raise ValueError(f"activations must be of {', '.join(ACTIVATIONS)}, got {activation!r}")

    @property
    def per_pair(self) -> int:
        """Candidates of a pair of nodes."""
        return self.num_tuples * len(self.operations) * len(self.activations)

    def number(self, made: Construction) -> int:
        """The number of a construction.

        Raises:
            ValueError: It is not in this space.
        """
        tuple_index, operation, activation, left, right = made
        if not 0 <= left < right:
            raise ValueError(f"the left child must stand before the right one, got {left} and {right}")
        if not -self.num_tuples <= tuple_index < self.num_tuples:
            raise ValueError(f"tuple_index must be one of {self.num_tuples} tuples, got {tuple_index}")
        number = (right * (right - 1) // 2 + left) * self.num_tuples + tuple_index % self.num_tuples
        for name, names in ((operation, self.operations), (activation, self.activations)):
            if name not in names:
                raise ValueError(f"{made} must be made of {', '.join(names)}, got {name!r}")
            number = number * len(names) + names.index(name)
        return number

    def parts(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """r, o, u, i and j of constructions, as numbers; of the shape of ``numbers``."""

        def split(value: Tensor, by: int) -> tuple[Tensor, Tensor]:
            return value.div(by, rounding_mode="floor"), value % by

        rest, u = split(numbers, len(self.activations))
        rest, o = split(rest, len(self.operations))
        pair, r = split(rest, self.num_tuples)
        # 1 + 8 pair is at least (2j − 1)², and below the next odd square.
        j = ((1 + (1 + 8 * pair).double().sqrt()) / 2).long()
        return r, o, u, pair - j * (j - 1) // 2, j

    def construction(self, number: int) -> Construction:
        return self.constructions([number])[0]

    def constructions(self, numbers: Sequence[int]) -> list[Construction]:
        """Those of several numbers."""
        parts = (part.tolist() for part in self.parts(torch.tensor(numbers, dtype=torch.int64)))
        return [
            Construction(r, self.operations[o], self.activations[u], i, j)
            for r, o, u, i, j in zip(*parts, strict=True)
        ]

    def made(self, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """What all operations and activations make of :math:`L_r c_i`, :math:`R_r c_j` and :math:`b_r`:
        ``[…, o, u, p]`` of three tensors ``[…, p]`` that can be broadcast.
        """
        both = torch.stack([COMPOSE[o](left, right) for o in self.operations], -2) + bias.unsqueeze(-2)
        return self._bounded(torch.stack([ACTIVATIONS[u](both) for u in self.activations], -2))

    def one(self, made: Construction, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """What the operation and the activation of a construction make of them, ``[…, p]``."""
        return self._bounded(ACTIVATIONS[made.activation](COMPOSE[made.operation](left, right) + bias))

    def _bounded(self, vectors: Tensor) -> Tensor:
        return bounded(vectors) if self.bounded else vectors
