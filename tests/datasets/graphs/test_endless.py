from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import EndlessShuffle


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 12), st.integers(1, 30))
def test_every_item_comes_up_before_any_comes_again(num_items: int, num_samples: int) -> None:
    epochs = [EndlessShuffle(num_items, num_samples)(epoch) for epoch in range(8)]
    assert {len(epoch) for epoch in epochs} == {num_samples}
    drawn = np.concatenate(epochs)
    for lap in drawn[: len(drawn) // num_items * num_items].reshape(-1, num_items):
        assert sorted(lap) == list(range(num_items))


def test_orders_differ_and_can_be_drawn_again() -> None:
    shuffle = EndlessShuffle(50, 50)
    assert not np.array_equal(shuffle(0), shuffle(1))
    assert not np.array_equal(shuffle(0), EndlessShuffle(50, 50, seed=1)(0))
    assert np.array_equal(shuffle(3), EndlessShuffle(50, 50)(3))


def test_numbers_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="num_items must be at least 1, got 0"):
        EndlessShuffle(0, 5)
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        EndlessShuffle(5, 0)
