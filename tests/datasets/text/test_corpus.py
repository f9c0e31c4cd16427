from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest
import torch

from wlkernelnn.datasets import EOS, Corpus, Vocabulary, load_ptb, load_text, load_wikitext

LINES = {"train": " a b a \n\n b c\n", "valid": "c a\n", "test": "b zebra\n"}


def write(folder: Path, pattern: str, **texts: str | bytes) -> list[Path]:
    paths = []
    for part, text in (LINES | texts).items():
        path = folder / pattern.format(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(path)
    return paths


def words(corpus: Corpus, part: str) -> str:
    return " ".join(corpus.vocabulary.decode(getattr(corpus, part)))


def test_penn_treebank(data_root: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = load_ptb(data_root)
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [929_589, 73_760, 82_430]
    assert len(corpus.vocabulary) == 10_000
    (eos,) = corpus.vocabulary.encode([EOS]).tolist()
    lines = [int((part == eos).sum()) for part in (corpus.train, corpus.valid, corpus.test)]
    assert lines == [42_068, 3_370, 3_761]
    assert corpus.vocabulary.unknown == "<unk>"
    assert (torch.bincount(corpus.train).diff() <= 0).all()
    assert not caplog.records
    # Every file decides for itself whether it is compressed.
    first = gzip.decompress((data_root / "ptb" / "ptb.train.txt.gz").read_bytes()).decode().split("\n")[1]
    assert words(corpus, "train").split(EOS)[1].split() == first.split()


@pytest.mark.parametrize("folder", ["ptb", ""])
def test_own_files_in_the_place_of_published_ones(
    tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / folder, "ptb.{}.txt")
    with caplog.at_level(logging.WARNING):
        corpus = load_ptb(tmp_path)
    assert words(corpus, "train") == f"a b a {EOS} {EOS} b c {EOS}"
    assert words(corpus, "valid") == f"c a {EOS}"
    assert words(corpus, "test") == f"b <unk> {EOS}"
    # By frequency, then by first occurrence; <unk> joins as it does not occur.
    assert corpus.vocabulary.tokens == ("<unk>", EOS, "a", "b", "c")
    assert corpus.name == "ptb"
    assert "8 / 3 / 3 tokens, the published ptb has 929,589 / 73,760 / 82,430" in caplog.text


def test_wikitext(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Its files say <unk> themselves; a blank at the ends of lines and empty lines are usual there.
    text = " \n = Title = \n \n <unk> b b \n"
    write(tmp_path / "wikitext-103", "wiki.{}.tokens", train=text)
    corpus = load_wikitext("wikitext-103", tmp_path)
    assert words(corpus, "train") == f"{EOS} = Title = {EOS} {EOS} <unk> b b {EOS}"
    assert words(corpus, "valid") == f"<unk> <unk> {EOS}"
    assert corpus.vocabulary.tokens == (EOS, "=", "b", "Title", "<unk>")
    assert "the published wikitext-103 has 103,227,021 / 217,646 / 245,569" in caplog.text
    with pytest.raises(FileNotFoundError, match=r"wikitext-2/wiki\.train\.tokens is not in"):
        load_wikitext(root=tmp_path)
    with pytest.raises(ValueError, match="name must be one of wikitext-2, wikitext-103, got 'wikitext'"):
        load_wikitext("wikitext", tmp_path)  # type: ignore[arg-type]


def test_corpora_that_are_nowhere(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        load_ptb(tmp_path)
    assert "ptb/ptb.train.txt is not in" in str(error.value)
    assert "licensed by the LDC" in str(error.value)
    assert f"as it is or gzipped, at {tmp_path / 'ptb' / 'ptb.train.txt'}" in str(error.value)


def test_three_files_of_words(tmp_path: Path) -> None:
    paths = write(tmp_path, "{}.txt", test="a\r\nb b")
    corpus = load_text(paths)
    assert words(corpus, "test") == f"a {EOS} b b {EOS}"
    assert corpus.vocabulary.tokens == (EOS, "a", "b", "c")
    assert corpus.name == "train.txt"
    rare = load_text(paths, unknown="?", min_count=2, name="rare")
    assert words(rare, "train") == f"a b a {EOS} {EOS} b ? {EOS}"
    assert rare.name == "rare"


@pytest.mark.parametrize("pattern", ["{}.txt", "ptb.{}.txt", "My-{}-part.TXT"])
def test_a_folder_of_three_files(tmp_path: Path, pattern: str) -> None:
    paths = write(tmp_path / "toy", pattern, test="a b")
    (tmp_path / "toy" / "README-contest.md").write_text("what is in here")
    (tmp_path / "toy" / "test").mkdir()
    corpus, expected = load_text(tmp_path / "toy"), load_text(paths)
    assert corpus.digest() == expected.digest()
    assert corpus.name == "toy"
    paths[1].rename(tmp_path / "toy" / "dev.txt")
    assert load_text(tmp_path / "toy").digest() == expected.digest()
    (tmp_path / "toy" / "val.txt").write_text("c")
    with pytest.raises(ValueError, match=r"one file called valid or val or dev .*, got dev\.txt, val\.txt"):
        load_text(tmp_path / "toy")
    paths[0].unlink()
    with pytest.raises(ValueError, match="toy: expected one file called train, got none"):
        load_text(tmp_path / "toy")


def test_one_file_of_characters_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"abcab\r\nabc"))
    corpus = load_text(path, level="characters", sizes=(0.7, 0.1, 0.2))
    parts = (corpus.train, corpus.valid, corpus.test)
    assert ["".join(corpus.vocabulary.decode(part)) for part in parts] == ["abcab\r\n", "a", "bc"]
    assert corpus.train.dtype == torch.int64


def test_one_file_of_words_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\n" * 4)
    corpus = load_text(tmp_path / "a.txt", sizes=(0.5, 0.25, 0.25))
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [6, 3, 3]
    assert words(corpus, "valid") == f"a b {EOS}"


def test_wikipedia_has_27_characters(data_root: Path) -> None:
    corpus = load_text(data_root / "charlm" / "wiki_az.txt.gz", level="characters", sizes=(0.9, 0.05, 0.05))
    assert sorted(corpus.vocabulary.tokens) == list(" abcdefghijklmnopqrstuvwxyz")
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [1_725_289, 95_850, 95_849]


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    paths = write(tmp_path, "{}.txt")
    with pytest.raises(ValueError, match=r"test\.txt: the test part: token 'zebra' is not in the vocabulary"):
        load_text(paths)
    with pytest.raises(ValueError, match="min_count=3 leaves out 3 tokens"):
        load_text(paths, min_count=3)
    with pytest.raises(ValueError, match=r"level must be one of words, characters, got 'bytes'"):
        load_text(paths, level="bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min_count must be an integer of at least 1, got 0"):
        load_text(paths, min_count=0)
    with pytest.raises(ValueError, match="unknown must be a token, or None, got 3"):
        load_text(paths, unknown=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="source must be one file, or three"):
        load_text(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected one file, or three \(train, valid, test\), got 2"):
        load_text(paths[:2])
    with pytest.raises(ValueError, match="split sizes: expected three fractions"):
        load_text(paths[0], sizes=(0.5, 0.5, 0.5))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt: no such file"):
        load_text(tmp_path / "nowhere.txt")
    paths = write(tmp_path, "{}.txt", test="")
    with pytest.raises(ValueError, match=r"test\.txt: the test part has no tokens"):
        load_text(paths)
    paths = write(tmp_path, "{}.txt", valid="a\nna\xefve\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"valid\.txt: line 2: byte 0xef at 4 is not utf-8"):
        load_text(paths)
    assert "naïve" in load_text([paths[1]] * 3, encoding="latin-1").vocabulary


def test_ids_that_are_not_those_of_tokens() -> None:
    ids, vocabulary = torch.tensor([0, 1]), Vocabulary("ab")
    Corpus(ids, ids, ids, vocabulary)
    with pytest.raises(ValueError, match="toy valid: expected ids from 0 to 1, got 2 at position 1"):
        Corpus(ids, torch.tensor([0, 2]), ids, vocabulary, "toy")
    with pytest.raises(ValueError, match=r"test must be integers \[N\], got torch.int64 \[1, 2\]"):
        Corpus(ids, ids, ids[None], vocabulary)
