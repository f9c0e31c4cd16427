"""Trees as plain data, how far they are apart, and those that compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.space import Construction


@dataclass(frozen=True, eq=False)
class Leaf:
    """A node at the start.

    Attributes:
        name: ``"x"``, ``"h1"``, …, ``"hM"`` or the value of an auxiliary vector.
        vector: ``[p]``.
    """

    name: str
    vector: Tensor

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Node:
    """A node that was made: :math:`u(o(L_r c_i, R_r c_j) + b_r)`.

    Attributes:
        tuple_index: r, counted from 0.
        operation, activation: o and u.
        left, right: The children :math:`c_i` and :math:`c_j`.
        vector: ``[p]``.
    """

    tuple_index: int
    operation: str
    activation: str
    left: Tree
    right: Tree
    vector: Tensor

    def __str__(self) -> str:
        sign = {"add": "+", "mul": "*"}[self.operation]
        return f"{self.activation}{self.tuple_index}({self.left} {sign} {self.right})"


Tree = Leaf | Node


def tree_of(leaves: Sequence[Leaf], made: Sequence[Construction], vectors: Sequence[Tensor]) -> Tree:
    """The tree whose root is the last node that was made, with children by their places."""
    places: list[Tree] = list(leaves)
    for (r, operation, activation, left, right), vector in zip(made, vectors, strict=True):
        places.append(Node(r, operation, activation, places[left], places[right], vector))
    return places[-1]


def internal_nodes(tree: Tree, index: int = 1) -> dict[int, Node]:
    """All internal nodes: the root is 1, and the children of i are 2i and 2i + 1."""
    if isinstance(tree, Leaf):
        return {}
    below = internal_nodes(tree.left, 2 * index) | internal_nodes(tree.right, 2 * index + 1)
    return {index: tree} | below


def vector_difference(one: Tree, other: Tree) -> Tensor | float:
    """VD: the squared distances of nodes of the same index, and squared norms where one tree has none."""
    nodes, others = ({i: n.vector for i, n in internal_nodes(tree).items()} for tree in (one, other))
    none = torch.zeros(())
    differences = (nodes.get(index, none) - others.get(index, none) for index in nodes | others)
    return sum((difference.square().sum() for difference in differences), 0.0)


def tree_distance(predicted: Tree, target: Tree) -> Tensor | float:
    """TD: the sum over all subtrees of ``predicted`` of the least VD to a subtree of ``target``.

    Subtrees are those of internal nodes; one that occurs twice counts twice.
    """
    subtrees, targets = internal_nodes(predicted).values(), internal_nodes(target).values()
    return sum(min(vector_difference(one, other) for other in targets) for one in subtrees)


def isomorphic(tree: Tree) -> Iterator[Tree]:
    """All trees that differ by the order of children, where one of them is internal: no other is seen."""
    if isinstance(tree, Leaf):
        yield tree
        return
    matters = isinstance(tree.left, Node) or isinstance(tree.right, Node)
    for left, right in product(list(isomorphic(tree.left)), list(isomorphic(tree.right))):
        yield replace(tree, left=left, right=right)
        if matters:
            yield replace(tree, left=right, right=left)
