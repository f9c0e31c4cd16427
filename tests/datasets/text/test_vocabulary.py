from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import Vocabulary

TEXT = ["b", "a", "c", "a", "b", "d", "a"]


def test_frequent_tokens_come_first() -> None:
    vocabulary = Vocabulary.build(TEXT)
    assert vocabulary.tokens == ("a", "b", "c", "d")
    assert len(vocabulary) == 4
    assert "d" in vocabulary
    assert "e" not in vocabulary
    ids = vocabulary.encode(TEXT)
    assert ids.dtype == torch.int64
    assert ids.tolist() == [1, 0, 2, 0, 1, 3, 0]
    assert vocabulary.decode(ids) == TEXT
    assert vocabulary.decode([3, 3]) == ["d", "d"]


def test_a_string_is_a_text_of_characters() -> None:
    vocabulary = Vocabulary.build("na na\n")
    assert vocabulary.tokens == ("n", "a", " ", "\n")
    assert vocabulary.encode("a\n").tolist() == [1, 3]


def test_special_unknown_and_rare_tokens() -> None:
    vocabulary = Vocabulary.build(TEXT, special=("<pad>", "c"), unknown="<unk>", min_count=2)
    assert vocabulary.tokens == ("<pad>", "c", "<unk>", "a", "b")
    assert vocabulary.encode(["d", "a", "zebra", "c"]).tolist() == [2, 3, 2, 1]
    # One that occurs, or is special already, is numbered as such.
    assert Vocabulary.build(["x", "<unk>", "x"], unknown="<unk>").tokens == ("x", "<unk>")
    assert Vocabulary.build("ab", special=["?"], unknown="?").tokens == ("?", "a", "b")
    with pytest.raises(ValueError, match=r"min_count=2 leaves out 2 tokens: give the unknown token"):
        Vocabulary.build(TEXT, min_count=2)


CHARACTERS = 'aB \n\0"\\é\u0301\u2028\ufeff😀'


@settings(deadline=None, max_examples=50)
@given(
    text=st.text(CHARACTERS, max_size=30),
    special=st.lists(st.text(CHARACTERS, max_size=2), unique=True, max_size=3),
)
def test_every_text_comes_back(
    text: str, special: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    vocabulary = Vocabulary.build(text, special=special)
    assert "".join(vocabulary.decode(vocabulary.encode(text))) == text
    path = tmp_path_factory.getbasetemp() / "vocabulary.json"
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary


def test_saved_with_its_unknown_token(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build(TEXT, unknown="<unk>")
    vocabulary.save(tmp_path / "v.json")
    loaded = Vocabulary.load(tmp_path / "v.json")
    assert loaded == vocabulary
    assert loaded != Vocabulary(vocabulary.tokens)
    assert loaded.encode(["?"]).tolist() == [vocabulary.tokens.index("<unk>")]
    assert repr(loaded) == "Vocabulary(5 tokens, unknown='<unk>')"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\n", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "'format'"),
        (json.dumps({"format": "other/2"}), "its format is 'other/2', expected 'wlkernelnn.Vocabulary/1'"),
        (
            json.dumps({"format": "wlkernelnn.Vocabulary/1", "tokens": ["a", 1], "unknown": None}),
            "token 1 is 1, expected a str",
        ),
        (
            json.dumps({"format": "wlkernelnn.Vocabulary/1", "tokens": ["a", "a"], "unknown": None}),
            "'a' is there 2 times",
        ),
    ],
)
def test_files_that_hold_no_vocabulary(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"v\.json: not a vocabulary of wlkernelnn .*{message}"):
        Vocabulary.load(path)


def test_vocabularies_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="must be distinct, 'b' is there 3 times"):
        Vocabulary(["a", "b", "b", "b"])
    with pytest.raises(ValueError, match="unknown token '<unk>' is not among the 2 tokens"):
        Vocabulary(["a", "b"], unknown="<unk>")


def test_tokens_that_are_no_words() -> None:
    """An unknown token would stand for them."""
    vocabulary = Vocabulary(["?", "a"], unknown="?")
    for tokens, said in (([None], "None"), (["a", 1], "1"), (b"a", "97"), (iter(["z", 0.5]), "0.5")):
        with pytest.raises(TypeError, match=f"token . is {said}, expected a str"):
            vocabulary.encode(tokens)  # type: ignore[arg-type]
    assert vocabulary.encode(np.array(["a", "z"])).tolist() == [1, 0]
    for make in (Vocabulary, Vocabulary.build):
        with pytest.raises(TypeError, match="token 0 is 7, expected a str"):
            make([7, 8])  # type: ignore[operator]


def test_tokens_and_ids_that_are_not_in_it() -> None:
    vocabulary = Vocabulary.build(TEXT)
    with pytest.raises(ValueError, match="token 'zebra' is not in the vocabulary of 4 tokens"):
        vocabulary.encode(["a", "zebra"])
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 3, got 4 at position 2"):
        vocabulary.decode([0, 3, 4])
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 3, got -1 at position 0"):
        vocabulary.decode(torch.tensor([-1]))
    with pytest.raises(ValueError, match=r"ids must be integers \[N\], got torch.float32 \[1\]"):
        vocabulary.decode([0.5])  # type: ignore[list-item]
    assert vocabulary.decode([]) == []
    # More tokens than an id of one byte can have.
    many = Vocabulary([str(i) for i in range(300)])
    assert many.decode(torch.tensor([255, 0], dtype=torch.uint8)) == ["255", "0"]


def test_a_special_string_is_one_token_and_counts_are_checked() -> None:
    assert Vocabulary.build(TEXT, special="<pad>").tokens == ("<pad>", "a", "b", "c", "d")
    with pytest.raises(ValueError, match="min_count must be an integer of at least 1, got 0"):
        Vocabulary.build(TEXT, min_count=0)
