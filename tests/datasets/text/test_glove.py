from __future__ import annotations

import gzip
import io
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from wlkernelnn.datasets import Vocabulary, load_glove, load_sst

FILE = "the 3 4 0\ncafé .5 -1e-3 2\n' 1 1 1\ntwo 0 0 0\nthe 9 9 9\nunused x y z\n. . . 7 7 7\n"
WORDS = Vocabulary(["the", "café", "zebra", "two"])


def write(folder: Path, text: str | bytes = FILE) -> Path:
    path = folder / "glove.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_vectors_of_a_small_file(tmp_path: Path) -> None:
    vectors = load_glove(write(tmp_path), WORDS)
    expected = torch.tensor([[3, 4, 0], [0.5, -0.001, 2], [0, 0, 0], [0, 0, 0]])
    assert torch.equal(vectors.weight, expected)
    assert vectors.weight.dtype == torch.float32
    assert vectors.known.tolist() == [True, True, False, True]
    assert vectors.num_repeated == 1
    assert vectors.out_of_vocabulary() == {"oov_types": 1, "oov_type_fraction": 0.25}
    assert vectors.out_of_vocabulary(torch.tensor([2, 0, 2, 1, 1], dtype=torch.uint8)) == {
        "oov_types": 1,
        "oov_type_fraction": 0.25,
        "oov_tokens": 2,
        "oov_token_fraction": 0.4,
    }
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 3, got -1 at position 0"):
        vectors.out_of_vocabulary(torch.tensor([-1]))


def test_unit_vectors_and_drawn_ones(tmp_path: Path) -> None:
    vectors = load_glove(write(tmp_path), WORDS, unit_norm=True, oov_std=0.1, seed=4)
    torch.testing.assert_close(vectors.weight[0], torch.tensor([0.6, 0.8, 0.0]))
    assert vectors.weight[1].norm() == pytest.approx(1)
    assert vectors.weight[3].tolist() == [0, 0, 0]  # and not NaN
    drawn = vectors.weight[2]
    assert 0 < drawn.abs().max() < 0.6
    assert torch.equal(load_glove(tmp_path / "glove.txt", WORDS, oov_std=0.1, seed=4).weight[2], drawn)
    assert not torch.equal(load_glove(tmp_path / "glove.txt", WORDS, oov_std=0.1).weight[2], drawn)
    many = Vocabulary([str(i) for i in range(2000)])
    assert load_glove(tmp_path / "glove.txt", many, oov_std=0.1).weight.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"], ids=["unix", "windows", "blank"])
def test_line_ends_and_compression(tmp_path: Path, end: str) -> None:
    expected = load_glove(write(tmp_path), WORDS).weight
    path = tmp_path / "glove.txt.gz"
    path.write_bytes(gzip.compress((FILE.replace("\n", end) + end).encode()))
    assert torch.equal(load_glove(path, WORDS).weight, expected)


def test_words_that_look_like_something_else(tmp_path: Path) -> None:
    text = '# 1 2\n" 3 4\n1 5 6\n\u0085 7 8\nmail name@domain.com 9 9\n 2 2\n'
    vectors = load_glove(write(tmp_path, text), Vocabulary(["#", '"', "1", "\u0085", "mail"]))
    assert vectors.weight.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [0, 0]]


def test_first_lines_that_say_how_many_there_are(tmp_path: Path) -> None:
    vectors = load_glove(write(tmp_path, f"7 3 \n{FILE}"), Vocabulary(["the", "7"]))
    assert vectors.weight.tolist() == [[3, 4, 0], [0, 0, 0]]
    words = load_glove(write(tmp_path, "7 3\nthe 1\n"), Vocabulary(["the", "7"]))
    assert words.weight.tolist() == [[1], [3]]


@pytest.mark.parametrize("header", ["", "2 2\n"])
def test_byte_order_marks(tmp_path: Path, header: str) -> None:
    text = f"{header}the 1 2\na 3 4\n".encode("utf-8-sig")
    assert load_glove(write(tmp_path, text), Vocabulary(["the", "a"])).weight.tolist() == [[1, 2], [3, 4]]


def test_a_file_without_any_of_the_words(tmp_path: Path) -> None:
    vectors = load_glove(write(tmp_path), Vocabulary("xy"))
    assert vectors.weight.tolist() == [[0, 0, 0]] * 2
    assert not vectors.known.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("2 3\n", "the file is empty"),  # but for word2vec's first line
        ("the\t1 2\n", r"line 1: expected a word and its numbers with a blank between each, got 'the\\t1 2'"),
        ("the\n", "line 1: expected a word and its numbers with a blank between each, got 'the'"),
        ("the 1 2\n\nb 1\n", "line 3: expected 2 numbers as in the first line, got 1"),
        ("the 1 2\nb\n", "line 2: expected 2 numbers as in the first line, got 0"),
        ("the 1 2\nb 1 2 3\n", "line 2: expected 2 numbers as in the first line, got 3"),
        ("the 1 2\nb  1 2\n", "line 2: expected 2 numbers as in the first line, got 3"),
        ("4 3\nthe 1 2\n", "line 2: expected 1 numbers as in the first line, got 2"),
        ("4 3\nthe 1 2 3\nb 1\n", "line 3: expected 3 numbers as in the first line, got 1"),
        ("a 1 2\nthe 1 x\n", "line 2: expected 2 numbers .*'x'"),
        ("a 1 2\nthe 1 é\n", "line 2: expected 2 numbers"),
        ("a 1 2\nthe 1 nan\n", r"line 2: a number is not finite \(in float32\)"),
        ("a 1 2\ntwo 1 2\nthe 1 1e39\n", r"line 3: a number is not finite \(in float32\)"),
        ("a 1 2\ncafé 1 2\n".encode("latin-1"), r"line 2: the word b'caf\\xe9' is not UTF-8"),
        ("the 1 2\n".encode("utf-16"), r"line 1: the word .* is not UTF-8"),
        (gzip.compress(b"the 1 2\n", mtime=0), "line 1: "),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=rf"glove\.txt: {message}"):
        load_glove(write(tmp_path, text), WORDS)


def test_arguments_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"glove\.txt: no such file"):
        load_glove(tmp_path / "glove.txt", WORDS)
    with pytest.raises(ValueError, match=r"oov_std must be a standard deviation, got -1"):
        load_glove(write(tmp_path), WORDS, oov_std=-1)


def test_words_of_the_sentiment_treebank(data_root: Path) -> None:
    path = data_root / "glove" / "glove.6B.100d.subset.txt.gz"
    data = load_sst(data_root, phrases=False)
    vectors = load_glove(path, data.vocabulary)
    assert vectors.weight.shape == (19_538, 100)
    assert int(vectors.known.sum()) == 17_370
    # The first lines, by another reader.
    with gzip.open(path) as file:
        lines = [line.decode().split(" ", 1) for line in itertools.islice(file, 50)]
    expected = np.loadtxt(io.StringIO("".join(numbers for _, numbers in lines)))
    known = [i for i, (word, _) in enumerate(lines) if word in data.vocabulary]
    assert len(known) > 40
    ids = data.vocabulary.encode([lines[i][0] for i in known])
    np.testing.assert_allclose(vectors.weight[ids], expected[known], rtol=1e-6)
