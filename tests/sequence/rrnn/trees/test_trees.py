from __future__ import annotations

import itertools

import torch

from wlkernelnn.sequence.rrnn import CELLS, Leaf, Node, Tree, isomorphic, tree_distance, vector_difference
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes, tree_of


def leaf(name: str = "x") -> Leaf:
    return Leaf(name, torch.zeros(1).double())


def node(value: float, left: Tree | None = None, right: Tree | None = None) -> Node:
    vector = torch.tensor([value]).double()
    return Node(0, "add", "tanh", left or leaf(), right or leaf(), vector)


def test_indices() -> None:
    tree = node(1, node(2, leaf(), node(5)), node(3, node(6)))
    assert {index: float(one.vector) for index, one in internal_nodes(tree).items()} == {
        1: 1,
        2: 2,
        3: 3,
        5: 5,
        6: 6,
    }
    assert internal_nodes(leaf()) == {}


def test_vector_difference() -> None:
    one = node(1, node(2), node(3))
    assert vector_difference(one, one) == 0
    # the root, the left child in both, right ones and below in one of them
    other = node(5, node(4, node(7)), None)
    assert vector_difference(one, other) == 4**2 + 2**2 + 3**2 + 7**2
    assert vector_difference(other, one) == vector_difference(one, other)
    assert vector_difference(one, leaf()) == 1 + 4 + 9


def test_tree_distance() -> None:
    predicted, target = node(1, node(2)), node(1, None, node(4))
    # The whole to the whole: 0 + 2² + 4², to node 3: 3² + 2²; the child to the whole: 1 + 4², to node 3: 2².
    assert tree_distance(predicted, target) == 13 + 4
    # The other way: the whole to the whole 20, to the child (1 − 2)² + 4²; the child to the child 2².
    assert tree_distance(target, predicted) == 17 + 4
    assert tree_distance(leaf(), target) == 0


def test_a_subtree_that_occurs_twice_counts_twice() -> None:
    shared = node(3)
    assert tree_distance(node(0, shared, shared), node(0)) == 9 + 9 + 2 * 9


def test_isomorphic_trees() -> None:
    tree = node(1, node(2), leaf("h"))
    first, second = isomorphic(tree)
    assert [str(one) for one in (first, second)] == [str(tree), "tanh0(h + tanh0(x + x))"]
    assert len(list(isomorphic(leaf()))) == len(list(isomorphic(node(1)))) == 1


def test_numbers_of_isomorphic_trees_are_the_papers() -> None:
    count = {}
    for name, cell in CELLS.items():
        leaves = [leaf(f"{i}") for i in range(cell.num_leaves)]
        vectors = torch.randn(len(cell.nodes), 2)
        for state, end in enumerate(cell.ends):
            tree = tree_of(leaves, cell.nodes[:end], vectors[:end].unbind(0))
            all_trees = list(isomorphic(tree))
            count[name, state] = len(all_trees)
            indices = {
                tuple(sorted((i, *n.vector.tolist()) for i, n in internal_nodes(t).items()))
                for t in all_trees
            }
            assert len(indices) == len(all_trees)
    assert count == {("gru", 0): 64, ("torch_gru", 0): 64, ("lstm", 0): 8, ("lstm", 1): 32}


def test_trees_are_read_by_their_places() -> None:
    cell = CELLS["gru"]
    leaves = [leaf(name) for name in ("x", "h", "0")]
    tree = tree_of(leaves, cell.nodes, list(torch.arange(8.0).view(8, 1)))
    z, r = "sigmoid1(x + h)", "sigmoid0(x + h)"
    new = f"tanh2(x + identity-1(h * {r}))"
    assert str(tree) == f"identity-1(identity-1(h * {z}) + identity-1(one_minus-1(0 + {z}) * {new}))"
    assert sorted(float(n.vector) for n in internal_nodes(tree).values()) == [0, 1, 1, 2, 3, 4, 5, 6, 7]
    assert len(list(itertools.islice(isomorphic(tree), 65))) == 64
