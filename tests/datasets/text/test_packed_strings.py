from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.datasets import LabelledStrings, PackedStrings, Vocabulary
from wlkernelnn.datasets.files.spans import take_spans

STRINGS = [["b", "a"], [], ["a"], ["c", "a", "b"], []]
VOCABULARY = Vocabulary("abc")


@pytest.fixture
def strings() -> PackedStrings:
    return PackedStrings.encode(STRINGS, [4, 3, 2, 1, 0], VOCABULARY)


def test_strings_come_back(strings: PackedStrings) -> None:
    assert len(strings) == 5
    assert [VOCABULARY.decode(strings[i]) for i in range(5)] == STRINGS
    assert strings[-2].tolist() == [2, 0, 1]
    assert strings[0].dtype == torch.int64
    assert strings.tokens.dtype == torch.uint8
    assert strings.ptr.tolist() == [0, 2, 2, 3, 6, 6]
    assert strings.lengths.tolist() == [2, 0, 1, 3, 0]
    assert strings.y.tolist() == [4, 3, 2, 1, 0]
    assert len(list(strings)) == 5
    with pytest.raises(IndexError, match="string 5 of 5"):
        strings[5]


def test_selection(strings: PackedStrings) -> None:
    chosen = strings.select(np.array([3, 1, 3]))
    assert [chosen[i].tolist() for i in range(3)] == [[2, 0, 1], [], [2, 0, 1]]
    assert chosen.y.tolist() == [1, 3, 1]
    assert len(strings.select([])) == 0


@pytest.mark.parametrize(
    "positions", [[-2, 0], np.array([-2, -5]), range(3, -1, -3), torch.tensor([3, 0]), (3, 0)], ids=repr
)
def test_positions_from_the_end(strings: PackedStrings, positions: Any) -> None:
    chosen = strings.select(positions)
    assert [chosen[i].tolist() for i in range(2)] == [[2, 0, 1], [1, 0]]
    assert chosen.y.tolist() == [1, 4]


@pytest.mark.parametrize("form", [list, np.array, torch.tensor], ids=["list", "array", "tensor"])
def test_masks(strings: PackedStrings, form: Any) -> None:
    chosen = strings.select(form([True, False, False, True, False]))
    assert [chosen[i].tolist() for i in range(len(chosen))] == [[1, 0], [2, 0, 1]]
    assert chosen.y.tolist() == [4, 1]
    assert len(strings.select(form([False] * 5))) == 0


@pytest.mark.parametrize("positions", [[5], [-6], [True, False], [0.5]], ids=repr)
def test_positions_that_are_not_there(strings: PackedStrings, positions: Any) -> None:
    with pytest.raises(IndexError, match=r"out of bounds .* size 5|did not match .* 5|must be of integer"):
        strings.select(positions)


def test_what_is_handed_out_is_a_copy() -> None:
    strings = PackedStrings(torch.arange(5), torch.tensor([0, 2, 5]), torch.tensor([0, 1]))
    strings[0][:] = 9
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

    for ptr in ([], [1, 2], [0, 2, 1], [[0, 2]]):
        with pytest.raises(ValueError, match="ptr must begin with 0 and never decrease"):
            pack([1, 2], ptr, [0])  # type: ignore[arg-type]
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
    assert torch.equal(strings[0], tokens[:2])
    chosen = strings.select([2, 1, 0])
    assert torch.equal(chosen.tokens, torch.cat([tokens[2:], tokens[:2]]))
    assert chosen.ptr.tolist() == [0, 4, 4, 6]
