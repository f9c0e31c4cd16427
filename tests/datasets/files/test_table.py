"""Tests."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wlkernelnn.datasets import load_molecules, molecules_from
from wlkernelnn.datasets.files.table import (
    frame_of,
    read_table,
)
from wlkernelnn.datasets.files.targets import (
    binary_targets,
    class_targets,
    numeric_targets,
)

NAN = float("nan")
TEXT = 'smiles,y,name\nCCO,1.5,ethanol\nC[N+](C)C,,\n1,2e-1,"a, b"\n'


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", TEXT),
        ("t.csv.gz", TEXT),
        ("t.csv", TEXT.replace("\n", "\r\n")),
        ("t.csv", "\ufeff" + TEXT),
        ("t.csv", TEXT.rstrip("\n")),
        ("t.tsv", TEXT.replace(",", "\t").replace('"a\t b"', "a, b")),
        ("t.tsv_old.csv", TEXT),
        ("t.tsv.gz", TEXT.replace(",", "\t").replace('"a\t b"', "a, b")),
    ],
    ids=["csv", "gzip", "crlf", "bom", "no-last-newline", "tsv", "csv-after-all", "tsv-gzip"],
)
def test_text_cells_stay_as_they_are(tmp_path: Path, name: str, content: str) -> None:
    frame = read_table(write(tmp_path, name, content))
    assert frame.columns.tolist() == ["smiles", "y", "name"]
    assert frame.to_numpy().tolist() == [
        ["CCO", "1.5", "ethanol"],
        ["C[N+](C)C", "", ""],
        ["1", "2e-1", "a, b"],
    ]
    assert frame.index.name == "line"
    assert frame.index.tolist() == [2, 3, 4]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": ["CCO", None], "y": [1.5, np.nan], "n": [1, 2]}, index=[7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", ["n", "smiles"])
    assert read.columns.tolist() == ["n", "smiles"]
    assert read["n"].tolist() == [1, 2]
    assert read["smiles"].iloc[0] == "CCO"
    assert read["smiles"].isna().tolist() == [False, True]
    assert read.index.tolist() == [0, 1]


def test_whole_numbers_beside_nulls_keep_their_digits(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([2**53 + 1, None, 2**53]), "few": pa.array([1, None, 2])})
    pq.write_table(table, tmp_path / "t.parquet")
    for read in (read_table(tmp_path / "t.parquet"), frame_of(table)):
        assert read is not None
        assert read["id"].tolist() == [2**53 + 1, None, 2**53]
        assert read["few"].dtype == np.float64
    pq.write_table(pa.table({"c": pa.array([2**53 + 1, 2**53, None] * 3)}), tmp_path / "t.parquet")
    classes = class_targets(read_table(tmp_path / "t.parquet"), "c", "t.parquet")[1]
    assert classes == (f"{2**53}", f"{2**53 + 1}")


def test_only_the_columns_asked_for_and_in_that_order(tmp_path: Path) -> None:
    # The repeated name is in nobody's way as long as nobody asks for it.
    path = write(tmp_path, "t.csv", "a,x,b,x\n1,2,3,4\n")
    assert read_table(path, ["b", "a"]).to_dict("list") == {"b": ["3"], "a": ["1"]}


def test_lines_of_the_file_survive_blank_lines_and_line_breaks_in_cells(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, "t.csv", 'a,b\n\n1,"x\ny"\n\n2,z\n\n\n'))
    assert frame["a"].tolist() == ["1", "2"]
    assert frame.index.tolist() == [4, 6]


def test_a_blank_line_of_a_one_column_table_is_a_row(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, "t.csv", "smiles\nC\n\nCC\n\n"))
    assert frame["smiles"].tolist() == ["C", "", "CC"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "the file is empty"),
        ("t.csv", "\n\n", "the file is empty"),
        ("t.csv", "a,b\n", "has a header but no rows"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", r"data row 2 \(line 3\) has 3 fields, expected 2"),
        ("t.csv", "a,b\n1,2\n\n1\n", r"data row 2 \(line 4\) has 1 fields, expected 2"),
        ("t.csv", 'a,b\n1,"2\n3,4\n', "line 3: not a readable table"),
        ("t.csv", b"PAR1\0\0", "but a Parquet file"),
        ("t.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "add .gz to its name"),
        ("t.csv", b"PK\x03\x04\0\0", "an Excel workbook"),
        ("t.csv", b"a,b\n1,\0\n", "binary data"),
        ("t.csv", b"a,b\n1,caf\xe9\n", "line 2: byte 0xe9 at 9 is not utf-8"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16")[:-1], "line 2: byte 0x0a at .* is not utf-16"),
        ("t.csv", b'"ID";"Smiles"\n"1";"CC"\n', "line 1: .*: is ';' its separator\\? Expected ','"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0), "compressed twice: decompress it once"),
        ("t.csv.gz", b"", "the file is empty"),
        ("t.csv", "a,b,a\n1,2,3\n", "2 columns are called 'a'"),
        ("t.csv", "a,b,,\n1,2,,\n", "2 columns have no name"),
        ("t.parquet", b"a,b\n1,2\n", "not a whole Parquet file"),
        ("t.txt", "a,b\n1,2\n", "expected a name that ends in .csv"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=message) as error:
        read_table(path)
    assert str(path) in str(error.value)


def test_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv: no such file"):
        read_table(tmp_path / "nothing.csv")
    path = write(tmp_path, "t.csv.gz", TEXT * 50)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"t\.csv\.gz: not a whole gzip file"):
        read_table(path)
    path.write_text(TEXT)
    with pytest.raises(ValueError, match=r"t\.csv\.gz: not a whole gzip file"):
        read_table(path)
    pd.DataFrame({"a": range(1000)}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"t\.parquet: not a whole Parquet file"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_missing_column_is_named_with_a_close_one(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"smiles": ["C"], "logP": [1.0]})
    if name.endswith("csv"):
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    with pytest.raises(ValueError, match=r"no column 'logp'; did you mean 'logP'\? .*'smiles', 'logP'"):
        read_table(tmp_path / name, ["smiles", "logp"])


def test_numeric_targets(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "s,a,b\nC,1.5, 2 \nC,,NaN\nC,-3e2,n/a\nC,None,0\n")
    values = numeric_targets(read_table(path), ["b", "a"], path)
    expected = [[2, 1.5], [np.nan, np.nan], [np.nan, -300], [0, np.nan]]
    np.testing.assert_array_equal(values, expected)
    frame = pd.DataFrame({"i": [1, 2], "b": [True, False], "f": [0.5, None], "o": [None, "7"]})
    frame["n"] = pd.array([1, None], dtype="Int64")
    np.testing.assert_array_equal(
        numeric_targets(frame, list("ibfon"), "frame"), [[1, 1, 0.5, np.nan, 1], [2, 0, np.nan, 7, np.nan]]
    )
    assert numeric_targets(frame, [], "frame").shape == (2, 0)


def test_true_and_false_are_1_and_0(tmp_path: Path) -> None:
    """A column of booleans is one of objects as soon as one is missing."""
    frame = pd.DataFrame(
        {"o": [True, None, False], "t": ["True", "", " false "], "m": ["TRUE", "0.5", "nan"]}
    )
    expected = [[1, 1, 1], [np.nan, np.nan, 0.5], [0, 0, np.nan]]
    np.testing.assert_array_equal(numeric_targets(frame, list("otm"), "frame"), expected)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(numeric_targets(table, list("otm"), name), expected)
        np.testing.assert_array_equal(binary_targets(table, ["o"], name)[:, 0], [1, np.nan, 0])


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="frame: column 'y': expected real numbers, got complex128"):
        numeric_targets(pd.DataFrame({"y": [1 + 2j, 1]}), ["y"], "frame")


@pytest.mark.parametrize("cell", ["abc", "-inf", "1e39", "-0.5e-400", "0x10"])
def test_what_is_no_number_is_refused_with_its_place(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, "t.csv", f'smiles,y\nC,1\nC,"{cell}"\nC,2\nC,x\n')
    message = rf"t\.csv: data row 2 \(line 3\), column 'y': expected a finite number.* got '{cell}'"
    if cell == "abc":
        message += r" \(and 1 more in this column\)"
    with pytest.raises(ValueError, match=message):
        numeric_targets(read_table(path), ["y"], path)


def test_zeros_are_no_numbers_that_are_too_small() -> None:
    cells = ["0", "-0.00", "0e5", "0E-400", "+.0", "0.0e10"]
    assert (numeric_targets(pd.DataFrame({"y": cells}), ["y"], "frame") == 0).all()


def test_binary_targets(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["0", "1", "", "1.0"], "b": [0, 1, 0, 2]})
    np.testing.assert_array_equal(binary_targets(frame, ["a"], "f")[:, 0], [0, 1, np.nan, 1])
    with pytest.raises(ValueError, match=r"f: data row 4, column 'b': expected 0 or 1.* got 2"):
        binary_targets(frame, ["a", "b"], "f")
    message = r"f: data row 2, column 'a': expected 0 or 1 \(or .* got 'active' \(and 1 more in this column\)"
    with pytest.raises(ValueError, match=message):
        binary_targets(pd.DataFrame({"a": ["1", "active", "", "2"]}), ["a"], "f")


def test_the_smiles_column(tmp_path: Path) -> None:
    assert len(molecules_from(pd.DataFrame({"structure": ["C", "CC"]}))) == 2
    assert molecules_from(pd.DataFrame({"id": ["C"], "Smiles": ["CC"]})).smiles == ["CC"]
    assert molecules_from(pd.DataFrame({"a": ["C"], "b": ["CC"]}), smiles_column="b").smiles == ["CC"]
    with pytest.raises(ValueError, match=r"the data frame: no column 'smiles' \(columns: 'a', 'b'\)"):
        molecules_from(pd.DataFrame({"a": ["C"], "b": ["CC"]}))
    with pytest.raises(
        ValueError, match=r"did you mean 'Parent SMILES'\? .* smiles_column \(--smiles-columns"
    ):
        molecules_from(pd.DataFrame({"Parent SMILES": ["C"], "b": ["CC"]}))
    (tmp_path / "t.csv").write_text("smile,y\nC,1\n")
    with pytest.raises(ValueError, match=r"t\.csv: no column 'smiles'; did you mean 'smile'\?"):
        load_molecules(str(tmp_path / "t.csv"))


def test_several_columns_called_smiles() -> None:
    frame = pd.DataFrame({"SMILES": ["C"], "smiles": ["CC"], "Smiles": ["CCC"]})
    assert molecules_from(frame).smiles == ["CC"]
    with pytest.raises(ValueError, match="columns SMILES, Smiles: say which one is meant"):
        molecules_from(frame.drop(columns="smiles"))
    assert molecules_from(frame, smiles_column="Smiles").smiles == ["CCC"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "CCO\nCCN\n",
            "the only column is called 'CCO', which is a SMILES: expected a first line with",
        ),
        (
            "a.csv",
            "smiles;name\nCCO;ethanol\n",
            "the only column is called 'smiles;name': is ';' its separator",
        ),
        (
            "a.tsv",
            "smiles,name\nCCO,ethanol\n",
            "the only column is called 'smiles,name': is ',' its separator",
        ),
        ("a.csv", "smiles\tname\nCCO\tethanol\n", r"is '\\t' its separator\? Expected ',' \(in files called"),
    ],
)
def test_tables_that_are_misread(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        load_molecules(tmp_path / name, cache=False)


def test_the_only_column_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "quoted.csv").write_text('"structure, as drawn"\nCCO\n')
    assert load_molecules(tmp_path / "quoted.csv", cache=False).smiles == ["CCO"]
    (tmp_path / "table.csv").write_text("structure\nCCO\nCCN\n")
    assert load_molecules(tmp_path / "table.csv", cache=False).smiles == ["CCO", "CCN"]


@pytest.mark.parametrize(
    "cells",
    [
        ["12345678901234567.25", "12345678901234567.75", "12345678901234568.5"],
        [2**60 + 1, 2**60 + 2, 2**60 + 3],
        pd.array([2**60 + 1, None, 2**60 + 3], dtype="Int64"),
    ],
)
def test_numbers_that_float64_cannot_tell_apart(cells: Any) -> None:
    frame = pd.DataFrame({"y": cells})
    with pytest.raises(ValueError, match=r"t.csv: data row 1, column 'y': 64 bits cannot tell .* subtract a"):
        numeric_targets(frame, ["y"], "t.csv")


@pytest.mark.parametrize(
    "cells",
    [
        ["0.30000000000000004", "0.3", "0.3"],  # as Python writes them
        ["0.1234567890123456789", "0.2", "0.3"],
        ["-135123456.75000000", "-135123456.5", ""],
        [2**60, 2**61, 2**61 + 1],
    ],
)
def test_numbers_of_many_digits_that_float64_tells_apart(cells: list[Any]) -> None:
    values = numeric_targets(pd.DataFrame({"y": cells}), ["y"], "t.csv")
    assert values[:, 0].tolist()[:2] == [float(cell) for cell in cells[:2]]


def test_utf_16(tmp_path: Path) -> None:
    """As spreadsheets save "Unicode text"."""
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        mark = "" if encoding == "utf-16" else "\ufeff"
        path = write(tmp_path, "t.csv.gz", (mark + TEXT.replace("ethanol", "Äthanol")).encode(encoding))
        assert read_table(path)["name"].tolist() == ["Äthanol", "", "a, b"]


def test_bounds_in_place_of_values_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "smiles,pX\nC,5.1\nCC,>10\nCCC,x\nCCCC,<= 0.1\n")
    with pytest.raises(
        ValueError, match=r"column 'pX': 2 cells are bounds .* '>10': data row 2 \(line 3\), "
    ):
        numeric_targets(read_table(path), ["pX"], path)
    for cell, learned in (
        (">10", "r give values for them, or have networks learn"),
        ("~5", "or give values for them$"),
    ):
        with pytest.raises(ValueError, match=learned):
            numeric_targets(pd.DataFrame({"pX": [cell]}), ["pX"], "table")
