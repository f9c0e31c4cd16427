from __future__ import annotations

import csv
import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import (
    DOCUMENT_SETS,
    LabelledStrings,
    PackedStrings,
    document_files,
    document_tokens,
    load_documents,
)

TRAIN = '"3","Oil up","Prices rose"\n"1","Talks","""No,"" they\\said"\n"4","a","b"\n"2","Win","1-0"\n'
TEST = '"1","Talks","end"\n"4","",""\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tiny official AG News."""
    (tmp_path / "ag_news").mkdir()
    (tmp_path / "ag_news" / "train.csv").write_text(TRAIN)
    (tmp_path / "ag_news" / "test.csv.gz").write_bytes(gzip.compress(TEST.encode()))
    return tmp_path


def content(data: LabelledStrings, strings: PackedStrings) -> list[tuple[int, str]]:
    return [
        (y, " ".join(data.vocabulary.decode(string.x)))
        for y, string in zip(strings.y.tolist(), strings, strict=True)
    ]


# Tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The U.S. don't, ROBIN'S can't've", "the u . s . do n't , robin 's ca n't 've"),
        ("nt n't 's 'tis they're o'clock's'", "nt n't 's ' tis they 're o ' clock 's '"),
        ("Haiti #39;s M amp;S for #36;5 &lt;b&gt;now&lt;/b&gt; #8212; x", "haiti 's m & s for $ 5 now — x"),
        ("a &#39;b&quot; &amp; <A HREF=x.com>c</A> 1 < 2 > 0", "a ' b \" & c 1 < 2 > 0"),
        ("if a<b and c>d or e < f", "if a < b and c > d or e < f"),
        ("Kmart <KMRT.O> a <h1>b</h1> <i >c</i><br />d <x1>", "kmart < kmrt . o > a b c d < x1 >"),
        ("""<A HREF="a b" target=/full">c</A> <img src='d' alt = e/>f""", "c f"),
        (r"\$5 second\team snake_case ___", "$ 5 second team snake case"),
        ("Café 漢字\t東\u00a0京 -- №5", "café 漢字 東 京 - - № 5"),
        ("Scho\u0308n \u0130stanbul", "sch\u00f6n i\u0307stanbul"),
        ("किताब! ১ম می\u200cخواهم \u0308 \u200c", "किताब ! ১ম می\u200cخواهم \u0308 \u200c"),
        ("", ""),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert document_tokens(text) == tokens.split()


@settings(deadline=None, max_examples=100)
@given(st.text("aB'nt s#39;&<>/\\_ éß1.", max_size=30), st.integers(0, 5))
def test_tokens_are_not_blank_and_begin_alike(text: str, length: int) -> None:
    tokens = document_tokens(text)
    assert all(token and not any(sign.isspace() for sign in token) for token in tokens)
    assert document_tokens(text, length) == tokens[:length]
    assert document_tokens(f" {text}\n") == tokens


# Files


def test_official_files(folder: Path) -> None:
    data = load_documents("ag_news", folder, num_valid=1)
    documents = {(2, "oil up prices rose"), (0, 'talks " no , " they said'), (3, "a b"), (1, "win 1 - 0")}
    assert len(documents - set(content(data, data.train))) == 1
    assert len(data.valid) == 1
    assert data.test.y.tolist() == [0, 3]
    assert data.test.lengths.tolist() == [2, 0]
    assert data.classes == ("World", "Sports", "Business", "Sci/Tech")
    assert data.name == "ag_news"


def test_vocabulary_is_that_of_training(folder: Path) -> None:
    data = load_documents("ag_news", folder, num_valid=1)
    seen = set(data.train.tokens.tolist())
    unknown = data.vocabulary.encode(["<unk>"]).item()
    assert seen == set(range(len(data.vocabulary))) - {unknown}
    assert unknown in data.test.tokens  # "end"
    assert set(load_documents("ag_news", folder, num_valid=1, min_count=3).vocabulary.tokens) == {"<unk>"}


def test_truncation_seed_and_counts(folder: Path) -> None:
    data = load_documents("ag_news", folder, num_valid=2, max_length=2)
    assert data.train.lengths.tolist() == [2, 2]
    assert {part: sum(counts) for part, counts in data.class_counts().items()} == {
        "train": 2,
        "valid": 2,
        "test": 2,
    }
    assert data.class_counts()["test"] == [1, 0, 0, 1]
    drawn = {tuple(load_documents("ag_news", folder, num_valid=2, seed=s).valid.y.tolist()) for s in range(9)}
    assert len(drawn) > 1
    again = load_documents("ag_news", folder, num_valid=2, max_length=2)
    assert again.train.tokens.tolist() == data.train.tokens.tolist()


def test_files_of_another_size_are_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "wlkernelnn"):
        data = load_documents("ag_news", folder, num_valid=1)
    assert data.note == (
        "ag_news/train.csv has 4 documents, the published one 120,000; "
        "ag_news/test.csv has 2 documents, the published one 7,600"
    )
    assert "may not compare with published ones" in caplog.text


def test_line_breaks_of_reviews(tmp_path: Path) -> None:
    review = '"5","Good.\\n\\nnice \\""place\\"""\n'
    (tmp_path / "train.csv").write_text(3 * review)
    (tmp_path / "test.csv").write_text(review)
    data = load_documents("yelp_full", tmp_path, num_valid=1)
    assert content(data, data.test) == [(4, 'good . nice " place "')]


@pytest.mark.parametrize("name", DOCUMENT_SETS)
def test_columns_of_every_set(tmp_path: Path, name: str) -> None:
    documents = DOCUMENT_SETS[name]
    rows = [[i + 1, *documents.texts] for i in range(len(documents.classes))]
    for part in ("train", "test"):
        with open(tmp_path / f"{part}.csv", "w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    data = load_documents(name, tmp_path, num_valid=1)
    assert data.test.y.tolist() == list(range(len(documents.classes)))
    tokens = " ".join(documents.texts).split()
    assert all(data.test.lengths == len(tokens))


# Samples


def test_sample_with_official_test(folder: Path) -> None:
    (folder / "ag_news" / "train.csv").unlink()
    (folder / "ag_news" / "train_sample.csv").write_text('"1","one text"\n"4","another"\n"4","third"\n')
    data = load_documents("ag_news", folder, num_valid=1)
    assert data.note.startswith("a sample of 3 of 120,000 training documents")
    assert (len(data.train), len(data.valid), len(data.test)) == (2, 1, 2)


def test_sample_without_test(tmp_path: Path) -> None:
    (tmp_path / "dbpedia_14k.csv").write_text("".join(f"{i % 14},text {i}\n" for i in range(28)))
    data = load_documents("dbpedia", tmp_path, num_valid=5)
    assert data.note == "a sample of 28 of 560,000 training documents, 3 of them for testing"
    assert (len(data.train), len(data.valid), len(data.test)) == (20, 5, 3)
    assert [sum(counts) for counts in zip(*data.class_counts().values(), strict=True)] == [2] * 14


def test_files_are_found_without_reading_them(folder: Path, tmp_path: Path) -> None:
    assert document_files("ag_news", folder) == (
        folder / "ag_news" / "train.csv",
        folder / "ag_news" / "test.csv.gz",
        False,
    )
    (tmp_path / "dbpedia_14k.csv").write_bytes(b"")
    assert document_files("dbpedia", tmp_path) == (tmp_path / "dbpedia_14k.csv", None, True)


def test_official_files_come_before_samples(folder: Path) -> None:
    (folder / "ag_news" / "train_sample.csv").write_text('"1","one text"\n')
    assert "sample" not in load_documents("ag_news", folder, num_valid=1).note


def test_published_numbers(data_root: Path) -> None:
    data = load_documents("ag_news", data_root, max_length=128)
    assert len(data.train) + len(data.valid) == 15_181
    assert data.class_counts()["test"] == [1_900] * 4
    assert data.train.lengths.max() == 128
    counts = data.class_counts()
    both = [a + b for a, b in zip(counts["train"], counts["valid"], strict=True)]
    assert both == [4_650, 2_825, 2_823, 4_883]


def test_dbpedia_sample(data_root: Path) -> None:
    data = load_documents("dbpedia", data_root)
    counts = data.class_counts().values()
    assert [sum(of_class) for of_class in zip(*counts, strict=True)] == [1_000] * 14
    assert len(data.test) == 1_400


# Errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"3","Title"', r"data row 5 \(line 5\) has 2 fields, expected 3"),
        ('"3","a","b","c"', r"data row 5 \(line 5\) has 4 fields, expected 3"),
        ('"0","a","b"', "line 5: expected a class from 1 to 4, got '0'"),
        ('"x","a","b"', "line 5: expected a class from 1 to 4, got 'x'"),
        ('"1","a"b,"c"', "line 5: not a readable table"),
    ],
)
def test_rows_that_are_no_documents(folder: Path, row: str, message: str) -> None:
    (folder / "ag_news" / "train.csv").write_text(f"{TRAIN}{row}\n")
    with pytest.raises(ValueError, match=rf"train\.csv: {message}"):
        load_documents("ag_news", folder, num_valid=1)


def test_quotes_that_are_never_closed(folder: Path) -> None:
    path = folder / "ag_news" / "train.csv"
    limit = csv.field_size_limit()
    path.write_text(f'{TRAIN}"1","a","{"w" * (limit + 1)}"\n')
    with pytest.raises(ValueError, match=r"train\.csv: line 5: .*field limit.*: is the quote"):
        load_documents("ag_news", folder, num_valid=1)


def test_files_and_options_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"name must be one of ag_news, .* got 'imdb'"):
        load_documents("imdb", folder)
    with pytest.raises(ValueError, match="num_valid must leave some of 4 documents, got 4"):
        load_documents("ag_news", folder, num_valid=4)
    for option in ("max_length", "min_count", "num_valid"):
        for value in (0, -3, 1.5):
            with pytest.raises(ValueError, match=f"{option} must be an integer of at least 1, got {value}"):
                load_documents("ag_news", folder, **{option: value})
    with pytest.raises(FileNotFoundError, match=r"yahoo_answers/train\.csv is not in .*yahoo_answers_csv"):
        load_documents("yahoo_answers", folder)
    (folder / "ag_news" / "test.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"ag_news/test\.csv is not in"):
        load_documents("ag_news", folder)
    (folder / "ag_news" / "test.csv").write_text(TEST)
    (folder / "ag_news" / "train.csv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"train\.csv: the file is empty"):
        load_documents("ag_news", folder)
    (folder / "ag_news" / "train.csv").write_bytes(TRAIN.encode() + b'"1","caf\xe9","a"\n')
    with pytest.raises(ValueError, match=r"train\.csv: line 5: byte 0xe9 at \d+ is not utf-8"):
        load_documents("ag_news", folder)
