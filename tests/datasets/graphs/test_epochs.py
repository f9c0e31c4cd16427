"""Epochs drawn in other ways than shuffled."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import (
    BucketResampler,
    EndlessShuffle,
    LengthGroupedShuffle,
    PackedLoader,
)


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
    with pytest.raises(ValueError, match="num_items must be an integer of at least 1, got 0"):
        EndlessShuffle(0, 5)
    with pytest.raises(ValueError, match="num_samples must be an integer of at least 1, got 0"):
        EndlessShuffle(5, 0)


def test_batches_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, size=1003)
    shuffle = LengthGroupedShuffle(lengths, 32)
    order = shuffle(0)
    assert sorted(order) == list(range(1003))
    batches = lengths[order[:992]].reshape(-1, 32)
    assert np.ptp(batches, axis=1).max() <= 3  # about twenty strings have the same length
    assert len(set(order[992:]) - set(shuffle(1)[992:])) > 5  # other strings fill no batch
    of_epoch = [batches[:, 0], lengths[shuffle(1)[:992]].reshape(-1, 32)[:, 0]]
    assert not np.array_equal(of_epoch[0], np.sort(of_epoch[0]))
    assert not np.array_equal(*of_epoch)
    assert np.array_equal(shuffle(1), LengthGroupedShuffle(lengths, 32)(1))
    assert not np.array_equal(order, LengthGroupedShuffle(lengths, 32, seed=1)(0))


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_few_strings_of_similar_length(count: int) -> None:
    assert sorted(LengthGroupedShuffle(np.zeros(count), 8)(0)) == list(range(count))


def test_lengths_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="the number of lengths must be an integer of at least 1, got 0"):
        LengthGroupedShuffle([], 5)
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        LengthGroupedShuffle([3], 0)


@pytest.fixture
def y() -> np.ndarray:
    # Five buckets of width 0.05 with 1, 2, 10, 100 and 500 members; two of them hold negative values.
    centres = np.repeat([-3.01, -0.02, 0.02, 1.01, 7.77], [1, 2, 10, 100, 500])
    return np.random.default_rng(0).permutation(centres)


def test_buckets_come_up_equally_often(y: np.ndarray) -> None:
    resample = BucketResampler(y, num_samples=1000)
    assert resample.num_buckets == 5
    _, counts = np.unique(y[resample(3)], return_counts=True)
    assert counts.tolist() == [200] * 5


def test_negative_and_positive_values_around_zero_are_different_buckets() -> None:
    assert BucketResampler([-0.01, 0.01]).num_buckets == 2
    assert BucketResampler([0.01, 0.04, 0.06, 0.09], width=0.05).num_buckets == 2
    assert BucketResampler([0.01, 0.04, 0.06, 0.09], width=0.1).num_buckets == 1


def test_members_of_a_bucket_come_cyclically(y: np.ndarray) -> None:
    draws = np.concatenate([BucketResampler(y, num_samples=997)(epoch) for epoch in range(6)])
    for value in np.unique(y):
        members = np.flatnonzero(y == value)
        seen = draws[y[draws] == value]
        whole = len(seen) // len(members) * len(members)
        for lap in seen[:whole].reshape(-1, len(members)):
            assert np.array_equal(lap, seen[: len(members)])
        if whole:
            assert np.array_equal(np.sort(seen[: len(members)]), members)
            assert len(members) < 3 or not np.array_equal(seen[: len(members)], members)
        assert len(np.unique(seen)) == min(len(seen), len(members))


@pytest.mark.parametrize("num_samples", [3, 613])
def test_an_epoch_continues_where_the_one_before_stopped(y: np.ndarray, num_samples: int) -> None:
    epochs = [BucketResampler(y, num_samples=num_samples, seed=1)(epoch) for epoch in range(9)]
    at_once = BucketResampler(y, num_samples=9 * num_samples, seed=1)(0)
    assert np.array_equal(np.concatenate(epochs), at_once)


def test_seeds_and_epochs_give_different_orders(y: np.ndarray) -> None:
    resample = BucketResampler(y)
    assert np.array_equal(resample(4), BucketResampler(y)(4))
    assert not np.array_equal(resample(4), resample(5))
    assert not np.array_equal(resample(4), BucketResampler(y, seed=1)(4))
    assert len(resample(0)) == len(y)
    # No round goes through the buckets in the order of another.
    rounds = y[resample(0)[:600]].reshape(-1, 5)
    assert len(np.unique(rounds, axis=0)) > 60


def test_it_feeds_a_loader() -> None:
    train = regression_set()[::2]
    resample = BucketResampler(train.y, width=0.25, num_samples=200)
    loader = PackedLoader(train, batch_size=64, resample=resample)
    drawn = np.concatenate([batch.y[:, 0].numpy() for batch in loader])
    np.testing.assert_array_equal(drawn, train.y[resample(0), 0])
    spread = np.ptp(np.bincount(np.unique(np.floor(drawn / 0.25), return_inverse=True)[1]))
    assert spread <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1.0, np.nan]}, r"y\[1\] is nan"),
        ({"y": np.ones((3, 2))}, r"shape \(3, 2\)"),
        ({"y": []}, r"shape \(0,\)"),
        ({"y": [1.0], "width": 0.0}, "width must be positive"),
        ({"y": [1.0], "num_samples": 0}, "num_samples must be an integer of at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BucketResampler(**arguments)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_processes_share_each_batch(count: int, batch_size: int, processes: int, drop_last: bool) -> None:
    """They have equally many batches, and together the graphs of one process, in its order."""
    data = random_packed(12)[:count]

    def values(**place: int) -> list[list[float]]:
        loader = PackedLoader(data, batch_size, shuffle=True, drop_last=drop_last, **place)
        batches = [*loader]
        assert len(loader) == len(batches)
        assert all(batch.num_graphs == len(batch.ptr) - 1 == len(batch.y) for batch in batches)
        return [batch.y[:, 0].tolist() for batch in batches]

    shares = [values(num_replicas=processes, rank=rank) for rank in range(processes)]
    assert [[*chain(*parts)] for parts in zip(*shares, strict=True)] == values()
    for parts in zip(*shares, strict=True):
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_processes_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, alone = (PackedLoader(random_packed(5), batch_size=2, num_replicas=n) for n in (None, 1))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    assert [batch.num_graphs for batch in loader] == [1, 1, 1]
    assert [batch.num_graphs for batch in alone] == [2, 2, 1]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"rank": 0}, "rank must be from 0 to num_replicas - 1, got rank 0 of None"),
        ({"num_replicas": 2, "rank": 2}, "got rank 2 of 2"),
        ({"num_replicas": 2}, "num_replicas=2 needs a rank"),
        ({"num_replicas": 0}, "num_replicas"),
        ({"num_replicas": -1}, "num_replicas"),
    ],
)
def test_bad_places(place: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedLoader(random_packed(3), **place)


def test_seeds_are_checked_when_they_are_given() -> None:
    for make in (
        lambda: EndlessShuffle(5, 3, seed=-1),
        lambda: LengthGroupedShuffle([1, 2], 1, seed=-1),
        lambda: BucketResampler(np.arange(3.0), seed=-1),
    ):
        with pytest.raises(ValueError, match="seed"):
            make()
