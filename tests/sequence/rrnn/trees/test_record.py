from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.checks.equations import randomize
from tests.inputs.strings import normal
from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import Leaf, Tree


def places(tree: Tree) -> Counter[str]:
    """How often each node occurs, by walking through the tree."""
    found = Counter([str(tree)])
    return found if isinstance(tree, Leaf) else found + places(tree.left) + places(tree.right)


@pytest.mark.parametrize("state", [0, 1])
def test_occurrences_are_those_of_the_tree(state: int) -> None:
    torch.manual_seed(0)
    model = RRNN(3, 4, (3, 2), 2)
    randomize(model)
    model.eval()
    model.keep_trees = True
    model(normal(2, 6, 3))
    record = model.last_trees
    assert record is not None
    occurrences = record.occurrences(state)
    assert occurrences.shape == (12, 4 + (3, 5)[state])
    unused = 0
    for token in range(12):
        walked = places(record[token][state])
        assert sorted(walked.values()) == sorted(n for n in occurrences[token].int().tolist() if n)
        for leaf, count in zip(record.leaf_names, occurrences[token].tolist(), strict=False):
            assert walked[leaf] == count
        unused += int((occurrences[token, 4:] == 0).sum())
    assert unused  # some nodes are made and never used
