from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from wlkernelnn.ops.colours import Origin


def test_the_same_tensors_and_no_others() -> None:
    x, y = torch.arange(4), torch.arange(3)
    origin = Origin(x, None, y)
    assert origin.is_of(x, None, y)
    for others in [(x, y, None), (x, None, y.clone()), (y, None, x), (x, None), (x, None, y, x), (x, x, y)]:
        assert not origin.is_of(*others)


@pytest.mark.parametrize("change", ["written", "written through a view", "other memory", "other shape"])
def test_a_tensor_that_was_changed(change: str) -> None:
    x = torch.arange(4)
    origin = Origin(x)
    if change == "written":
        x[0] = 1
    elif change == "written through a view":
        x[1:].add_(1)
    elif change == "other memory":
        x.data = torch.arange(1, 5)
    else:
        x.resize_(2)
    assert not origin.is_of(x)


def test_a_part_of_the_same_memory() -> None:
    x = torch.arange(4)
    assert not Origin(x).is_of(x[:2])


def test_a_tensor_that_came_after_it_where_it_was() -> None:
    memory = np.arange(4)
    origin = Origin(torch.from_numpy(memory))
    memory[0] = 7
    assert not origin.is_of(torch.from_numpy(memory))


def test_tensors_that_count_no_writes() -> None:
    with torch.inference_mode():
        x = torch.arange(4)
        origin = Origin(x)
        assert not origin.is_of(x)


def test_copies_know_nothing() -> None:
    x = torch.arange(4)
    origin = Origin(x)
    for other in (copy.copy(origin), copy.deepcopy(origin), pickle.loads(pickle.dumps(origin))):
        assert not other.is_of(x)
    assert origin.is_of(x)
