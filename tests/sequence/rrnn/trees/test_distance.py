from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import normal
from wlkernelnn.sequence.rrnn import (
    CELLS,
    Cell,
    Construction,
    Leaf,
    Record,
    Space,
    Tree,
    isomorphic,
    tree_distance,
    tree_distances,
    vector_difference,
)
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes, tree_of

P, N = 3, 6
NODE = Construction(0, "add", "tanh", 0, 1)


def random_record(cell: Cell, num_rounds: int = 6) -> Record:
    """Trees of any kind: children are drawn among all nodes before."""
    n, space = cell.num_leaves, Space(4)
    numbers = torch.empty(N, num_rounds, dtype=torch.long)
    for token in range(N):
        for k in range(num_rounds):
            right = int(torch.randint(1, n + k, ()))
            left = int(torch.randint(0, right, ()))
            numbers[token, k] = space.number(Construction(0, "add", "tanh", left, right))
    ends = tuple(range(num_rounds - cell.num_states + 1, num_rounds + 1))
    names = tuple(map(str, range(n)))
    nodes = normal(N, num_rounds, P).requires_grad_()
    return Record(space, names, ends, N, normal(N, n, P), nodes, numbers, normal(N, num_rounds))


def targets(cell: Cell, vectors: Tensor, state: int) -> list[Tree]:
    end = cell.ends[state]
    leaves = [Leaf(str(i), torch.zeros(P)) for i in range(cell.num_leaves)]
    return list(isomorphic(tree_of(leaves, cell.nodes[:end], vectors[:end].unbind(0))))


CASES = [("gru", 0), ("lstm", 0), ("lstm", 1)]


@pytest.mark.parametrize(("name", "state"), CASES)
@pytest.mark.parametrize("isomorphisms", ["exact", "expected"])
def test_distances_are_those_of_plain_trees(name: str, state: int, isomorphisms: str) -> None:
    cell = CELLS[name]
    record, target = random_record(cell), normal(N, len(cell.nodes), P)
    found = tree_distances(record, cell, target, state, isomorphisms)
    with torch.no_grad():
        for token in range(N):
            each = [tree_distance(record[token][state], one) for one in targets(cell, target[token], state)]
            expected = min(each) if isomorphisms == "exact" else sum(each) / len(each)
            torch.testing.assert_close(found[token], expected)


@pytest.mark.parametrize("isomorphisms", ["exact", "relaxed", "expected"])
def test_gradients(isomorphisms: str) -> None:
    cell = CELLS["lstm"]
    record, target = random_record(cell, 4), normal(N, len(cell.nodes), P)

    def distances(nodes: Tensor) -> Tensor:
        given = {name: getattr(record, name) for name in record.__dataclass_fields__} | {"nodes": nodes}
        return tree_distances(Record(**given), cell, target, 0, isomorphisms)

    assert torch.autograd.gradcheck(distances, record.nodes)


@pytest.mark.parametrize(("name", "state"), CASES)
def test_relaxed_is_a_lower_bound_and_each_subtree_has_its_own_order(name: str, state: int) -> None:
    cell = CELLS[name]
    target = normal(1, len(cell.nodes), P).expand(N, -1, -1)
    record = random_record(cell)
    # Nodes of the target in any order: subtrees of a tree then want different orders.
    order = torch.randint(0, len(cell.nodes), (N, 6))
    record = replace(record, nodes=target[0, order] + 0.1 * normal(N, 6, P))
    relaxed, exact, expected = (
        tree_distances(record, cell, target, state, how) for how in ("relaxed", "exact", "expected")
    )
    assert (relaxed <= exact + 1e-12).all()
    assert (exact <= expected).all()
    trees = targets(cell, target[0], state)
    for token in range(N):
        total = sum(
            min(
                float(vector_difference(one, other))
                for tree in trees
                for other in internal_nodes(tree).values()
            )
            for one in internal_nodes(record[token][state]).values()
        )
        assert float(relaxed[token]) == pytest.approx(total)


def test_relaxed_may_be_lower() -> None:
    """Two subtrees are the same but for the order of children: no order of the target is right for both."""
    space, sum_of = Space(1), Cell(1, (NODE, NODE._replace(right=3)), (2,))
    target = torch.tensor([[[3.0], [9.0]]]).double()
    # 3 and 0; 3 is the right child of a 9, beside a leaf, and the left child of another one, beside the 0.
    pairs = [(0, 1), (0, 1), (0, 3), (3, 4), (5, 6)]
    made = [NODE._replace(left=left, right=right) for left, right in pairs]
    made[1] = made[1]._replace(activation="sigmoid")
    nodes = torch.tensor([[[3.0], [0.0], [9.0], [9.0], [0.0]]]).double()
    numbers = torch.tensor([[space.number(one) for one in made]])
    record = Record(space, ("x", "h1", "0"), (5,), 1, normal(1, 3, 1), nodes, numbers, normal(1, 5))
    exact, relaxed = (tree_distances(record, sum_of, target, 0, how) for how in ("exact", "relaxed"))
    assert (relaxed < exact - 1).all()
    each = [tree_distance(record[0][0], tree) for tree in targets(sum_of, target[0], 0)]
    assert float(exact) == pytest.approx(float(min(each)))


def test_the_target_itself_and_its_isomorphic_trees_are_at_0() -> None:
    cell, space = CELLS["gru"], Space(4)
    vectors = normal(2, 8, P)
    turned = [Construction(*node[:3], *sorted(node[3:])) for node in cell.nodes]
    # z ⊙ h and (1 − z) ⊙ h̃ change places.
    turned = [*turned[:5], turned[6]._replace(left=6, right=7), turned[5], turned[7]]
    numbers = torch.tensor([cell.numbers(space), [space.number(node) for node in turned]])
    nodes = torch.stack([vectors[0], vectors[1][[0, 1, 2, 3, 4, 6, 5, 7]]])
    record = Record(space, ("x", "h1", "0"), (8,), 2, normal(2, 3, P), nodes, numbers, normal(2, 8))
    for how in ("exact", "relaxed"):
        assert not tree_distances(record, cell, vectors, 0, how).any()
    assert (tree_distances(record, cell, vectors, 0, "expected") > 0.1).all()


def test_what_is_refused() -> None:
    cell = CELLS["gru"]
    record = random_record(cell)
    with pytest.raises(ValueError, match="isomorphisms must be one of exact, relaxed, expected, got 'all'"):
        tree_distances(record, cell, normal(N, 8, P), isomorphisms="all")
    nodes = (NODE, *(NODE._replace(left=left, right=left + 1) for left in (2, 3, 4)))
    twice = Cell(1, nodes, (4,))
    with pytest.raises(ValueError, match="must not use a node twice that has internal children"):
        tree_distances(record, twice, normal(N, 4, P))
