from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wlkernelnn.datasets import texts_from, tokens_of


def write(path: Path, **columns: Any) -> Path:
    frame = pd.DataFrame(columns)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def test_tokens() -> None:
    assert tokens_of("It's 3.5, isn't it?") == ["it", "'s", "3", ".", "5", ",", "is", "n't", "it", "?"]
    assert tokens_of("It's", max_length=1) == ["it"]
    assert tokens_of("a B\n", "characters") == ["a", " ", "B", "\n"]
    assert tokens_of("a B\n", "characters", 2) == ["a", " "]


@pytest.mark.parametrize("name", ["set.csv", "set.tsv", "set.parquet"])
def test_a_table(name: str, tmp_path: Path) -> None:
    table = {"Text": ["one", "two", "three"], "y": ["b", " a ", "b"], "part": ["train", "test", "val"]}
    path = tmp_path / name
    frame = pd.DataFrame(table)
    if name.endswith("tsv"):
        frame.to_csv(path, sep="\t", index=False)
    else:
        write(path, **table)
    texts = texts_from(path, label_column="y", split_column="part")
    assert texts.texts == ["one", "two", "three"]
    assert texts.tokens == [["one"], ["two"], ["three"]]
    assert texts.labels == ["b", "a", "b"]
    assert texts.split_idx is not None
    assert {part: rows.tolist() for part, rows in texts.split_idx.items()} == {
        "train": [0],
        "valid": [2],
        "test": [1],
    }


def test_numbers_are_names_of_classes(tmp_path: Path) -> None:
    for name in ("set.csv", "set.parquet"):
        path = write(tmp_path / name, text=["a", "b", "c"], y=[1, 10, 2])
        assert texts_from(path, label_column="y").labels == ["1", "10", "2"]
    path = write(tmp_path / "floats.parquet", text=["a", "b", "c"], y=[1.0, None, 2.0])
    texts = texts_from(path, label_column="y", on_invalid="skip")
    assert texts.labels == ["1", "2"]
    assert [reject.row for reject in texts.rejects] == [1]
    gaps = write(tmp_path / "gaps.csv", text=["a", "b", "c", "d"], y=["1.0", "", "-2.0", "v1.0"])
    assert texts_from(gaps, label_column="y", on_invalid="skip").labels == ["1", "-2", "v1.0"]


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (["1.0", "2.0"], ["1.0", "2.0", "1.0"]),
        (["1 ", "2"], ["1 ", "2", "1 "]),
        (["1", "1.0", "2"], ["1", "2", "1"]),
    ],
)
def test_labels_are_called_as_classes_are(classes: list[str], labels: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "set.csv", text=["a", "b", "c"], y=["1.0", "2.0", "1"])
    assert texts_from(path, label_column="y", classes=classes).labels == labels


def test_rows_that_are_left_out_keep_their_numbers(tmp_path: Path) -> None:
    table = {
        "text": ["", "a", "b", None, "c"],
        "y": ["x", "", "x", "x", "z"],
        "part": ["train"] * 4 + ["test"],
    }
    path = write(tmp_path / "set.csv", **table)
    options: dict[str, Any] = {"label_column": "y", "split_column": "part", "classes": ["x", "y"]}
    with pytest.raises(ValueError, match="4 of 5 rows cannot be used") as error:
        texts_from(path, **options)
    assert "data row 2 (line 3): 'a': no label" in str(error.value)
    texts = texts_from(path, **options, on_invalid="skip", rejects_path=tmp_path / "rejects.csv")
    assert texts.row.tolist() == [2]
    assert texts.split_idx is not None
    assert texts.split_idx["train"].tolist() == [0]
    rejects = pd.read_csv(tmp_path / "rejects.csv", keep_default_na=False)
    assert rejects["row"].tolist() == [1, 2, 4, 5]
    assert rejects["reason"].iloc[-1] == "label 'z' is none of the classes x, y"


def test_a_table_without_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "set.csv", text=[" ", "\t"], y=["a", "b"])
    with pytest.raises(ValueError, match="2 of 2 rows cannot be used\n"):
        texts_from(path, label_column="y", on_invalid="skip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_column": "z"}, "no column 'z'"),
        ({"text_column": "body"}, "no column 'body'"),
        ({"label_column": "text"}, "texts, labels and split need columns of their own, got text, text"),
        ({"level": "lines"}, "level must be one of words, characters"),
        ({"on_invalid": "nan"}, "on_invalid must be one of raise, skip"),
        ({"split_column": "y"}, "column 'y': data row 1: expected a split label"),
        (
            {"label_column": "score"},
            r"data row 1 \(line 2\), column 'score': expected the name of a class, got 0.5",
        ),
    ],
    ids=str,
)
def test_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "set.csv", text=["a", "b"], y=["a", "b"], score=[0.5, 2])
    with pytest.raises(ValueError, match=message):
        texts_from(path, **options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '"3","Fears for pensions after talks with the stricken firm"\n"4","a"\n',
            "the first line must name the columns, such as text,label, got 'Fears for pensions",
        ),
        ("a text of more than eight words in one line\nand one\n", "the first line must name the columns"),
        ("text;label\na;b\n", "the only column is called 'text;label': is ';' its separator"),
        ("review,label\na,b\n", r"no column 'text' \(columns: 'review', 'label'\)"),
    ],
)
def test_first_lines_that_name_no_text(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        texts_from(tmp_path / "set.csv")


TEXTS, NAMES = ["one", "two"], ["a", "b"]


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (pa.array([["one"], ["two"]]), pa.array(NAMES), "column 'text' holds list<.*>, expected text"),
        (pa.array([b"one", b"two"]), pa.array(NAMES), "column 'text' holds binary, expected text"),
        (pa.array(TEXTS), pa.array([["a"], ["b"]]), "column 'y' holds list<.*>, expected names of classes"),
        (pa.array(TEXTS), pa.array([b"a", b"b"]), "column 'y' holds binary, expected names of classes"),
    ],
    ids=["lists", "bytes", "lists of labels", "labels of bytes"],
)
def test_columns_that_hold_something_else(
    text: pa.Array, label: pa.Array, message: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"text": text, "y": label}), tmp_path / "set.parquet")
    with pytest.raises(ValueError, match=message):
        texts_from(tmp_path / "set.parquet", label_column="y")


def test_labels_of_a_dictionary_and_booleans(tmp_path: Path) -> None:
    for label, names in ((pa.array(NAMES).dictionary_encode(), NAMES), ([True, False], ["True", "False"])):
        texts = pa.array(TEXTS).dictionary_encode()
        pq.write_table(pa.table({"text": texts, "y": label}), tmp_path / "set.parquet")
        assert texts_from(tmp_path / "set.parquet", label_column="y").labels == names


def test_a_column_of_other_values_than_classes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, times in ((40, 1), (80, 1)):
        values = {"text": [f"word {i}" for i in range(number)], "y": [i % 40 for i in range(number)]}
        texts_from(write(tmp_path / f"{number}.csv", **values), label_column="y")
        assert caplog.text.count("has 40 classes ('0', '1', '10', …) in 40 rows: it may be another") == times
        assert caplog.text.count("it may be another column") == times


def test_a_class_that_is_called_like_a_missing_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "set.csv", text=["one", "two", "three"], y=["a", "NA", "NA"])
    assert texts_from(path, label_column="y").labels == ["a", "NA", "NA"]
    assert "column 'y': 'NA' is a class of its own, in 2 rows" in caplog.text
    caplog.clear()
    texts_from(path, label_column="y", classes=["a", "NA"])  # which are known
    assert "of its own" not in caplog.text
