"""Strings end to end, their batches, and stretches of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from tests.checks.pairwise import pairwise
from wlkernelnn.datasets import (
    LabelledStrings,
    LengthGroupedShuffle,
    PackedStrings,
    StringLoader,
    Vocabulary,
    draw_snippets,
)
from wlkernelnn.datasets.graphs.arrays import take_spans
from wlkernelnn.sequence import path_graph

STRINGS = [["b", "a"], [], ["a"], ["c", "a", "b"], []]
VOCABULARY = Vocabulary("abc")


@pytest.fixture
def strings() -> PackedStrings:
    return PackedStrings.encode(STRINGS, [4, 3, 2, 1, 0], VOCABULARY)


def test_strings_come_back(strings: PackedStrings) -> None:
    assert len(strings) == 5
    assert [VOCABULARY.decode(strings[i].x) for i in range(5)] == STRINGS
    assert strings[-2].x.tolist() == [2, 0, 1]
    assert strings[0].x.dtype == torch.int64
    assert strings.tokens.dtype == torch.uint8
    assert strings.ptr.tolist() == [0, 2, 2, 3, 6, 6]
    assert strings.lengths.tolist() == [2, 0, 1, 3, 0]
    assert strings.y.tolist() == [4, 3, 2, 1, 0]
    assert len(list(strings)) == 5
    with pytest.raises(IndexError, match="out of range"):
        strings[5]


def test_selection(strings: PackedStrings) -> None:
    chosen = strings.select(np.array([3, 1, 3]))
    assert [chosen[i].x.tolist() for i in range(3)] == [[2, 0, 1], [], [2, 0, 1]]
    assert chosen.y.tolist() == [1, 3, 1]
    assert len(strings.select([])) == 0


@pytest.mark.parametrize("positions", [np.array([-2, -5]), range(3, -1, -3), torch.tensor([3, 0])], ids=repr)
def test_positions_from_the_end(strings: PackedStrings, positions: Any) -> None:
    chosen = strings.select(positions)
    assert [chosen[i].x.tolist() for i in range(2)] == [[2, 0, 1], [1, 0]]
    assert chosen.y.tolist() == [1, 4]


@pytest.mark.parametrize("form", [list, torch.tensor], ids=["list", "tensor"])
def test_masks(strings: PackedStrings, form: Any) -> None:
    chosen = strings.select(form([True, False, False, True, False]))
    assert [chosen[i].x.tolist() for i in range(len(chosen))] == [[1, 0], [2, 0, 1]]
    assert chosen.y.tolist() == [4, 1]
    assert len(strings.select(form([False] * 5))) == 0


@pytest.mark.parametrize("positions", [[5], [-6], [True, False], [0.5]], ids=repr)
def test_positions_that_are_not_there(strings: PackedStrings, positions: Any) -> None:
    with pytest.raises(IndexError, match=r"out of bounds .* size 5|did not match .* 5|must be of integer"):
        strings.select(positions)


def test_what_is_handed_out_is_a_copy() -> None:
    strings = PackedStrings(torch.arange(5), torch.tensor([0, 2, 5]), torch.tensor([0, 1]))
    strings[0].x[:] = 9
    strings[0].y[:] = 9
    assert strings.y.tolist() == [0, 1]
    assert strings.tokens.tolist() == [0, 1, 2, 3, 4]


def test_no_strings_and_strings_of_characters() -> None:
    assert len(PackedStrings.encode([], [], VOCABULARY)) == 0
    packed = PackedStrings.encode(["ab", "c"], np.array([[0.5, np.nan], [1.0, 2.0]]), VOCABULARY)
    assert packed.tokens.tolist() == [0, 1, 2]
    assert packed.y.shape == (2, 2)


def test_spans_of_several_arrays() -> None:
    ptr, flat = np.array([0, 3, 3, 5]), np.arange(5)
    (first, second), lengths, bounds = take_spans(ptr, np.array([2, 1, 0, 2]), flat, 10 * flat)
    assert first.tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert second.tolist() == [30, 40, 0, 10, 20, 30, 40]
    assert lengths.tolist() == [2, 0, 3, 2]
    assert bounds.tolist() == [0, 2, 2, 5, 7]


def test_arrays_that_contradict_each_other() -> None:
    def pack(tokens: list[int], ptr: list[int], y: list[int]) -> PackedStrings:
        return PackedStrings(torch.tensor(tokens), torch.tensor(ptr), torch.tensor(y))

    for ptr in ([1, 2], [0, 2, 1], [], [[0, 2]]):
        with pytest.raises(ValueError, match=r"ptr must be(gin with 0 and never decrease| integers)"):
            pack([1, 2], ptr, [0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tokens must be numbers of one shape, got 'ab'"):
        PackedStrings("ab", [0, 2], [0])
    with pytest.raises(ValueError, match="y has no entries, expected 1 by ptr"):
        PackedStrings([1, 2], [0, 2], 0)
    with pytest.raises(TypeError, match="StringLoader reads PackedStrings, got list"):
        StringLoader([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tokens has 2 entries, expected 3 by ptr"):
        pack([1, 2], [0, 3], [0])
    with pytest.raises(ValueError, match="y has 2 entries, expected 1 by ptr"):
        pack([1, 2], [0, 2], [0, 0])
    with pytest.raises(ValueError, match="y has 1 entries, expected 2"):
        PackedStrings.encode(["a", "b"], [0], VOCABULARY)
    with pytest.raises(ValueError, match="token 'z' is not in the vocabulary"):
        PackedStrings.encode(["az"], [0], VOCABULARY)


def test_ids_and_labels_out_of_range(strings: PackedStrings) -> None:
    classes = tuple("vwxyz")
    LabelledStrings(strings, strings, strings, VOCABULARY, classes)
    with pytest.raises(ValueError, match="toy train tokens: expected ids from 0 to 1, got 2 at position 3"):
        LabelledStrings(strings, strings, strings, Vocabulary("ab"), classes, "toy")
    with pytest.raises(ValueError, match="valid y: expected ids from 0 to 3, got 4 at position 0"):
        LabelledStrings(strings.select([2]), strings, strings, VOCABULARY, classes[:4])


def test_classes_are_counted(strings: PackedStrings) -> None:
    data = LabelledStrings(strings, strings.select([0, 0, 4]), strings.select([]), VOCABULARY, tuple("vwxyz"))
    assert data.class_counts() == {"train": [1] * 5, "valid": [1, 0, 0, 0, 2], "test": [0] * 5}


def test_strings_of_vectors() -> None:
    tokens = torch.arange(12.0).view(6, 2)
    strings = PackedStrings(tokens, torch.tensor([0, 2, 2, 6]), torch.arange(3))
    assert torch.equal(strings[0].x, tokens[:2])
    chosen = strings.select([2, 1, 0])
    assert torch.equal(chosen.tokens, torch.cat([tokens[2:], tokens[:2]]))
    assert chosen.ptr.tolist() == [0, 4, 4, 6]


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
    assert torch.equal(batch.edge_index.as_tensor(), expected.edge_index)
    batch.edge_index.validate()
    batch.validate()


@pairwise(n=[20, 2500], batch_size=[1, 7, 3000], shuffle=[False, True])
def test_batches_are_the_strings_end_to_end(n: int, batch_size: int, shuffle: bool) -> None:
    data = random_strings(n)
    loader = StringLoader(data, batch_size, shuffle=shuffle)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-n // batch_size)
    numbers = torch.cat([batch.y for batch in batches])
    assert torch.equal(numbers.sort().values, torch.arange(n))
    assert torch.equal(numbers, torch.arange(n)) != shuffle
    for batch in batches[-3:]:
        assert_is_batch_of(batch, [data[i].x for i in batch.y.tolist()])
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
    assert_is_batch_of(batch, [data[4].x, data[4].x, data[0].x])


@pytest.mark.parametrize(
    ("positions", "numbers"),
    [([-2, 0, -5], [3, 0, 0]), ([False, True, True, False, True], [1, 2, 4]), ([], [])],
    ids=["from_the_end", "mask", "nothing"],
)
def test_resampling_by_any_positions(positions: list[Any], numbers: list[int]) -> None:
    data, drop_last = random_strings(5), len(positions) == 3
    loader = StringLoader(data, 2, drop_last=drop_last, resample=lambda epoch: np.array(positions))
    batches = list(loader)
    assert len(batches) == len(loader) == (len(numbers) // 2 if drop_last else -(-len(numbers) // 2))
    came = [number for batch in batches for number in batch.y.tolist()]
    assert came == numbers[: 2 * len(batches)]
    for batch in batches:
        assert_is_batch_of(batch, [data[i].x for i in batch.y.tolist()])


def test_resampling_beyond_the_end() -> None:
    with pytest.raises(IndexError, match=r"index 5 is out of bounds .* size 5"):
        list(StringLoader(random_strings(5), resample=lambda epoch: np.array([5])))


def test_batches_do_not_share_memory_with_the_store() -> None:
    data = random_strings(5)
    before = [string.x for string in data]
    (batch,) = StringLoader(data)
    batch.x.zero_()
    batch.y.zero_()
    batch.ptr.zero_()
    assert all(torch.equal(a.x, b) for a, b in zip(data, before, strict=True))
    assert data.y.tolist() == list(range(5))


def test_the_loader_of_pyg_makes_the_same_batches() -> None:
    data = random_strings(50)
    for ours, theirs in zip(StringLoader(data, 8), DataLoader(data, 8), strict=True):
        for name in ("x", "ptr", "batch", "y"):
            assert torch.equal(ours[name], theirs[name]), name
        assert torch.equal(ours.edge_index.as_tensor(), theirs.edge_index)


def test_the_loader_of_pyg_where_a_batch_has_one_edge() -> None:
    data = PackedStrings([3, 1, 2, 2, 0], [0, 2, 5], [0, 1])
    assert [batch.num_edges for batch in DataLoader(data, 1)] == [1, 2]


def test_selections_and_transforms_of_pyg() -> None:
    data = random_strings(10)
    shown = {"half": data[:0.5], "slice": data[8:1:-3], "mask": data[data.y > 6], "list": data[[3, 3]]}
    numbers = {name: [int(string.y) for string in some] for name, some in shown.items()}
    assert numbers == {"half": [0, 1, 2, 3, 4], "slice": [8, 5, 2], "mask": [7, 8, 9], "list": [3, 3]}
    assert data[(data.y > 7).nonzero()].y.tolist() == [8, 9]
    assert sorted(data.shuffle().y.tolist()) == list(range(10))
    doubled = PackedStrings([1, 2, 3], [0, 2, 3], [0, 1], transform=lambda d: Data(x=2 * d.x))
    assert [string.x.tolist() for string in doubled[[1, 0]]] == [[6], [2, 4]]


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        StringLoader(random_strings(5), batch_size=0)
    with pytest.raises(ValueError, match="resample has lengths of 3 strings, the loader has 5"):
        StringLoader(random_strings(5), resample=LengthGroupedShuffle([1, 2, 3], 2))


def test_batches_of_vectors() -> None:
    lengths = torch.tensor([3, 0, 2, 4])
    ptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    data = PackedStrings(torch.randn(9, 2), ptr, torch.arange(4))
    first, second = StringLoader(data, 3)
    assert torch.equal(first.x, data.tokens[:5])
    assert torch.equal(second.x, data.tokens[5:])
    assert first.x.dtype == torch.float32
    (shuffled,) = StringLoader(data, 4, shuffle=True)
    expected = path_graph([data[i].x for i in shuffled.y.tolist()])
    assert torch.equal(shuffled.x, expected.x)
    assert torch.equal(shuffled.ptr, expected.ptr)


TEXT = torch.arange(1_000)  # every token says where it stood


def test_labels_follow_and_nothing_overlaps() -> None:
    parts = draw_snippets(TEXT, 20, (10, 30))
    assert [len(part) for part in parts] == [10, 30]
    seen: list[int] = []
    for part in parts:
        for i in range(len(part)):
            read, following = part[i].x, part.y[i]
            torch.testing.assert_close(following, read + 1)
            assert len(read) == 19
            seen += [*read.tolist(), int(following[-1])]
    assert len(set(seen)) == len(seen) == 800


def test_drawn_by_the_seed() -> None:
    (one,), (same,), (other,) = (draw_snippets(TEXT, 5, [200], seed) for seed in (0, 0, 1))
    torch.testing.assert_close(one.tokens, same.tokens)
    assert not torch.equal(one.tokens, other.tokens)
    assert one.tokens[:8].tolist() != list(range(4)) + list(range(5, 9))  # not in the order of the text


def test_parts_before_the_last_stay() -> None:
    few, many = draw_snippets(TEXT, 20, (5, 3, 10)), draw_snippets(TEXT, 20, (5, 3, 42))
    for one, other in zip(few[:2], many, strict=False):
        torch.testing.assert_close(one.tokens, other.tokens)
    torch.testing.assert_close(few[2].y, many[2].y[:10])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((TEXT.view(2, -1), 20, (1,)), r"tokens must be integers \[N\], got .* \[2, 500\]"),
        ((TEXT, 1, (1,)), "length must be an integer of at least 2, got 1"),
        ((TEXT, 20, (4, 0)), "sizes must be an integer of at least 1, got 0"),
        ((TEXT, 20, ()), "sizes must be those of at least one part"),
        ((TEXT, 20, 4), "sizes must be those of at least one part, got 4"),
        ((TEXT, 20, (1,), -1), "seed must be an integer of at least 0, got -1"),
        ((TEXT - 1, 20, (1,)), "tokens must be ids from 0 on, got -1"),
        (("text", 20, (1,)), r"tokens must be integers \[N\], got 'text'"),
        ((TEXT[:999], 20, (25, 25)), "50 snippets of 20 tokens need 1,000 tokens, got 999"),
    ],
)
def test_bad_arguments(arguments: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        draw_snippets(*arguments)


def test_lists_arrays_and_small_integers() -> None:
    for kind in (list, np.array, lambda values: torch.tensor(values, dtype=torch.int32)):
        strings = PackedStrings(kind([3, 1, 2]), kind([0, 2, 3]), kind([1, 0]))
        (batch,) = StringLoader(strings, 2)
        assert (strings[0].x.tolist(), strings.y.tolist(), strings.y.dtype) == ([3, 1], [1, 0], torch.int64)
        assert (batch.x.dtype, batch.y.dtype, batch.ptr.tolist()) == (torch.int64, torch.int64, [0, 2, 3])
    (part,) = draw_snippets(list(range(20)), 5, [2])
    assert torch.equal(part.y[:, 0], part.tokens[:: part.y.size(1)].long() + 1)
