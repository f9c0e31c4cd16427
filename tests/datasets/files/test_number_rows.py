from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.datasets.files.number_rows import check_lines, check_range, read_integers, read_numbers


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_numbers(tmp_path: Path, name: str) -> None:
    content = b"1, -2.5\n3e2,4\r\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_numbers(path).tolist() == [[1, -2.5], [300, 4]]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\n")
    assert read_numbers(tmp_path / "x.csv").shape == (0, 0)
    assert read_integers(tmp_path / "x.csv", 3).shape == (0, 3)


@pytest.mark.parametrize("content", ["1,,3\n,,\n,5,nan\n", "1, ,3\n , , \n,5, nan\n"])
def test_missing_numbers(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    expected = [[1, np.nan, 3], [np.nan] * 3, [np.nan, 5, np.nan]]
    assert np.array_equal(read_numbers(tmp_path / "x.csv", missing=True), expected, equal_nan=True)
    with pytest.raises(ValueError, match=r"x\.csv, line 1: expected numbers with commas between them"):
        read_numbers(tmp_path / "x.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_are_missing_numbers(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(end.join(["", "1", "", "2", "", "", ""]).encode())
    values = read_numbers(path, missing=True)
    assert np.array_equal(values, [[np.nan], [1], [np.nan], [2], [np.nan], [np.nan]], equal_nan=True)
    path.write_bytes(3 * end.encode())
    assert np.array_equal(read_numbers(path, missing=True), np.full((3, 1), np.nan), equal_nan=True)
    path.write_bytes(b"")
    assert read_numbers(path, missing=True).shape == (0, 0)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2\n3\n", "line 2: expected 2 values as in line 1, got 1"),
        ("1,2\n3,4,5\n", "line 2: expected 2 values as in line 1, got 3"),
        ("1,2\n3,four\n", "line 2: expected numbers with commas between them, got '3,four'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: str, message: str, missing: bool) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(ValueError, match=rf"x\.csv, {message}"):
        read_numbers(tmp_path / "x.csv", missing)


def test_integers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3,4.5\n")
    with pytest.raises(ValueError, match=r"line 2: expected an integer, got 4\.5"):
        read_integers(path)
    with pytest.raises(ValueError, match=r"line 1: expected 3 value\(s\) on a line, got 2"):
        read_integers(path, 3)
    path.write_text("1,2\n3,4\n")
    values = read_integers(path, 2)
    assert values.dtype == np.int64
    check_lines(path, values, 2, "edges")
    check_range(path, values, 1, 4, "a node")
    with pytest.raises(ValueError, match="has 2 lines, expected 3, the number of edges"):
        check_lines(path, values, 3, "edges")
    with pytest.raises(ValueError, match="line 2: expected a node, from 1 to 3, got 4"):
        check_range(path, values, 1, 3, "a node")
