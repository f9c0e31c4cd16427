from __future__ import annotations

from collections import Counter

import torch

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal
from wlkernelnn.sequence import RRNN, RRNNGRU
from wlkernelnn.sequence.rrnn import (
    GRU,
    Construction,
    Leaf,
    Record,
    Space,
    tree_counts,
    tree_of,
    tuple_choices,
)
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes

SPACE = Space(3)
X, H, ZERO = 0, 1, 2


def record_of(*trees: list[Construction]) -> Record:
    numbers = torch.tensor([[SPACE.number(node) for node in tree] for tree in trees])
    leaves, nodes = torch.zeros(len(trees), 3, 2), torch.zeros(*numbers.shape, 2)
    return Record(SPACE, ("x", "h1", "0"), (numbers.size(1),), 1, leaves, nodes, numbers, nodes[..., 0])


def test_trees_are_alike_whatever_else_was_made() -> None:
    gate = Construction(1, "add", "sigmoid", X, H)
    other, unused = Construction(0, "mul", "tanh", H, ZERO), Construction(2, "add", "tanh", X, ZERO)
    root = Construction(2, "mul", "identity", 3, 4)
    counts = tree_counts(
        record_of(
            [gate, other, unused, root],
            [unused, gate, other, root._replace(left=4, right=5)],
            [other, gate, unused, root],  # the children change places
            [gate, other, unused, root._replace(right=5)],
        )
    )
    assert counts == {
        (gate, other, root): 2,
        (other, gate, root): 1,
        (gate, unused, root): 1,
    }


def test_counts_are_those_of_the_trees() -> None:
    torch.manual_seed(0)
    model = RRNN(3, 4, (3, 2), 2)
    randomize(model)
    model.eval()
    model.keep_trees = True
    model(*end_to_end([normal(9, 3), normal(40, 3)]))
    record = model.last_trees
    assert record is not None
    for state in (0, 1):
        leaves = [Leaf(name, torch.empty(0)) for name in record.leaf_names]
        found: Counter[str] = Counter()
        for made, count in tree_counts(record, state).items():
            found[str(tree_of(leaves, made, [torch.empty(0)] * len(made)))] += count
        assert found == Counter(str(record[token][state]) for token in range(49))
        assert 1 < len(found) < 49


def test_tuples_of_the_gru() -> None:
    torch.manual_seed(0)
    model = RRNNGRU(3, 4, 2)
    randomize(model)
    model.eval()
    model.keep_trees = True
    model(normal(2, 5, 3))
    record = model.last_trees
    assert record is not None
    choices = tuple_choices(record)
    assert choices.shape == (10, len(GRU.nodes))
    for token, row in enumerate(record.numbers.tolist()):
        assert choices[token].tolist() == [record.space.construction(n).tuple_index for n in row]
    assert choices.unique().tolist() == [0, 1, 2]


def test_nodes_that_no_tree_has_have_no_tuple() -> None:
    torch.manual_seed(0)
    model = RRNN(3, 4, (2, 3), 2)
    randomize(model)
    model.eval().keep_trees = True
    model(normal(2, 5, 3))
    record = model.last_trees
    assert record is not None
    choices, made = tuple_choices(record), record.space.parts(record.numbers)[0]
    # Trees of several states share nodes, and their vectors.
    nodes = [
        {node.vector.data_ptr() for tree in record[n] for node in internal_nodes(tree).values()}
        for n in range(10)
    ]
    assert (choices >= 0).sum(1).tolist() == [len(found) for found in nodes]
    assert torch.equal(choices[choices >= 0], made[choices >= 0])
    assert (choices < 0).any()
