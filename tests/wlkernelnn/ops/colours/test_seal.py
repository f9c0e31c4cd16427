from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from wlkernelnn.ops.colours import Seal


def test_the_same_tensors_and_no_others() -> None:
    x, y = torch.arange(4), torch.arange(3)
    seal = Seal(x, None, y)
    assert seal.holds(x, None, y)
    for others in [(x, y, None), (x, None, y.clone()), (y, None, x), (x, None), (x, None, y, x), (x, x, y)]:
        assert not seal.holds(*others)


@pytest.mark.parametrize("change", ["written", "written through a view", "other memory", "other shape"])
def test_a_tensor_that_was_changed(change: str) -> None:
    x = torch.arange(4)
    seal = Seal(x)
    if change == "written":
        x[0] = 1
    elif change == "written through a view":
        x[1:].add_(1)
    elif change == "other memory":
        x.data = torch.arange(1, 5)
    else:
        x.resize_(2)
    assert not seal.holds(x)


def test_a_part_of_the_same_memory() -> None:
    x = torch.arange(4)
    assert not Seal(x).holds(x[:2])


def test_a_tensor_that_came_after_it_where_it_was() -> None:
    memory = np.arange(4)
    seal = Seal(torch.from_numpy(memory))
    memory[0] = 7
    assert not seal.holds(torch.from_numpy(memory))


def test_tensors_that_count_no_writes() -> None:
    with torch.inference_mode():
        x = torch.arange(4)
        seal = Seal(x)
        assert not seal.holds(x)


def test_copies_hold_nothing() -> None:
    x = torch.arange(4)
    seal = Seal(x)
    for other in (copy.copy(seal), copy.deepcopy(seal), pickle.loads(pickle.dumps(seal))):
        assert not other.holds(x)
    assert seal.holds(x)
