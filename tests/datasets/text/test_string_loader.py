from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from wlkernelnn.datasets import PackedStrings, StringLoader
from wlkernelnn.sequence import path_graph


def random_strings(n: int, longest: int = 6) -> PackedStrings:
    """Strings whose label is their number; about one in seven is empty."""
    rng = torch.Generator().manual_seed(n)
    lengths = torch.randint(longest + 1, (n,), generator=rng)
    ptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    tokens = torch.randint(100, (int(ptr[-1]),), generator=rng).to(torch.int16)
    return PackedStrings(tokens, ptr, torch.arange(n))


def assert_is_batch_of(batch: Data, strings: list[torch.Tensor]) -> None:
    assert type(batch) is Data
    expected = path_graph(strings)
    for name in ("x", "ptr", "batch"):
        assert batch[name].dtype == torch.int64
        assert torch.equal(batch[name], expected[name]), name
    assert batch.num_graphs == len(strings)
    batch.validate()


@pytest.mark.parametrize("shuffle", [False, True], ids=["in_order", "shuffled"])
@pytest.mark.parametrize("batch_size", [1, 7, 10, 3000])
@pytest.mark.parametrize("n", [20, 2500])
def test_batches_are_the_strings_end_to_end(n: int, batch_size: int, shuffle: bool) -> None:
    data = random_strings(n)
    loader = StringLoader(data, batch_size, shuffle=shuffle)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-n // batch_size)
    numbers = torch.cat([batch.y for batch in batches])
    assert torch.equal(numbers.sort().values, torch.arange(n))
    assert torch.equal(numbers, torch.arange(n)) != shuffle
    for batch in batches[-3:]:
        assert_is_batch_of(batch, [data[i] for i in batch.y.tolist()])
    assert sum(batch.x.numel() for batch in batches) == data.tokens.numel()


def test_nothing_but_empty_strings() -> None:
    empty = PackedStrings(torch.tensor([], dtype=torch.long), torch.tensor([0, 0, 0]), torch.tensor([1, 0]))
    (batch,) = StringLoader(empty)
    assert batch.x.shape == batch.batch.shape == (0,)
    assert batch.ptr.tolist() == [0, 0, 0]
    assert batch.y.tolist() == [1, 0]
    assert list(StringLoader(empty.select([]))) == []


def test_epochs_differ_and_resume() -> None:
    def numbers(batches: list[Data]) -> list[list[int]]:
        return [batch.y.tolist() for batch in batches]

    loader = StringLoader(random_strings(50), 8, shuffle=True, seed=3, drop_last=True)
    first = numbers(list(loader))
    assert [len(batch) for batch in first] == [8] * 6
    batches = iter(loader)
    taken = numbers([next(batches) for _ in range(2)])
    assert taken != first[:2]
    resumed = StringLoader(random_strings(50), 8, shuffle=True, seed=3, drop_last=True)
    resumed.sampler.set_epoch(7)
    resumed.load_state_dict(loader.state_dict())
    assert numbers(list(resumed)) == numbers(list(batches))
    assert numbers(list(resumed)) == numbers(list(loader))


def test_resampling_and_labels_of_other_types() -> None:
    data = random_strings(5)
    data = PackedStrings(data.tokens, data.ptr, torch.rand(5, 2))
    (batch,) = StringLoader(data, resample=lambda epoch: torch.tensor([4, 4, 0]).numpy())
    assert torch.equal(batch.y, data.y[[4, 4, 0]])
    assert_is_batch_of(batch, [data[4], data[4], data[0]])


@pytest.mark.parametrize(
    ("positions", "numbers"),
    [([-2, 0, -5], [3, 0, 0]), ([False, True, True, False, True], [1, 2, 4]), ([], [])],
    ids=["from_the_end", "mask", "nothing"],
)
@pytest.mark.parametrize("drop_last", [False, True])
def test_resampling_by_any_positions(positions: list[Any], numbers: list[int], drop_last: bool) -> None:
    data = random_strings(5)
    loader = StringLoader(data, 2, drop_last=drop_last, resample=lambda epoch: np.array(positions))
    batches = list(loader)
    assert len(batches) == len(loader) == (len(numbers) // 2 if drop_last else -(-len(numbers) // 2))
    came = [number for batch in batches for number in batch.y.tolist()]
    assert came == numbers[: 2 * len(batches)]
    for batch in batches:
        assert_is_batch_of(batch, [data[i] for i in batch.y.tolist()])


def test_resampling_beyond_the_end() -> None:
    with pytest.raises(IndexError, match=r"index 5 is out of bounds .* size 5"):
        list(StringLoader(random_strings(5), resample=lambda epoch: np.array([5])))


def test_batches_do_not_share_memory_with_the_store() -> None:
    data = random_strings(5)
    before = [string.clone() for string in data]
    (batch,) = StringLoader(data)
    batch.x.zero_()
    batch.y.zero_()
    batch.ptr.zero_()
    assert all(torch.equal(a, b) for a, b in zip(data, before, strict=True))
    assert data.y.tolist() == list(range(5))


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        StringLoader(random_strings(5), batch_size=0)


def test_strings_of_vectors() -> None:
    lengths = torch.tensor([3, 0, 2, 4])
    ptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    data = PackedStrings(torch.randn(9, 2), ptr, torch.arange(4))
    first, second = StringLoader(data, 3)
    assert torch.equal(first.x, data.tokens[:5])
    assert torch.equal(second.x, data.tokens[5:])
    assert first.x.dtype == torch.float32
    (shuffled,) = StringLoader(data, 4, shuffle=True)
    expected = path_graph([data[i] for i in shuffled.y.tolist()])
    assert torch.equal(shuffled.x, expected.x)
    assert torch.equal(shuffled.ptr, expected.ptr)
