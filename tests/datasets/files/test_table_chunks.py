from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wlkernelnn.datasets import read_table
from wlkernelnn.datasets.files import lines, table_chunks
from wlkernelnn.datasets.files.table_chunks import find_tables, read_chunks, read_schema

ROWS = [[f"C{i}", f'a "{i}",\r\nü'] for i in range(10)]
TEXT = "smiles,note\n" + "".join('{},"{}"\n'.format(a, b.replace('"', '""')) for a, b in ROWS)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_pieces_of_a_text_table_are_the_table(tmp_path: Path, name: str) -> None:
    raw = ("\ufeff" + TEXT + "\n\r\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    chunks = list(read_chunks(tmp_path / name, 4))
    assert [chunk.table.num_rows for chunk in chunks] == [4, 4, 2]
    whole = pa.concat_tables([chunk.table for chunk in chunks])
    assert [list(row.values()) for row in whole.to_pylist()] == ROWS
    assert [line for chunk in chunks for line in chunk.lines or ()] == list(range(3, 22, 2))
    assert read_table(tmp_path / name).to_numpy().tolist() == ROWS


def test_a_whole_number_of_pieces_has_no_empty_one_behind(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TEXT)
    assert [chunk.table.num_rows for chunk in read_chunks(tmp_path / "t.csv", 5)] == [5, 5]


def test_parquet_comes_in_pieces_of_its_own_types(tmp_path: Path) -> None:
    # An integer column with a hole, of which pandas would make floats; row groups that are no pieces.
    table = pa.table({"smiles": [None, *"CNOFS"], "n": pa.array([1, 2, None, 4, 5, 6], pa.int16())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    chunks = [chunk.table for chunk in read_chunks(tmp_path / "t.parquet", 4)]
    assert [chunk.num_rows for chunk in chunks] == [4, 2]
    assert pa.concat_tables(chunks) == table


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_an_empty_table_is_one_empty_piece(tmp_path: Path, name: str) -> None:
    if name == "t.csv":
        (tmp_path / name).write_text("a,b\n")
    else:
        pd.DataFrame({"a": [], "b": []}).to_parquet(tmp_path / name)
    (chunk,) = read_chunks(tmp_path / name, 4)
    assert chunk.table.num_rows == 0
    assert chunk.table.column_names == ["a", "b"]


def test_rows_before_a_mistake_still_come(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a\n" + b"1\n" * 9000 + b"caf\xe9\n")
    chunks = read_chunks(tmp_path / "t.csv", 4)
    assert next(chunks).table.num_rows == 4
    with pytest.raises(ValueError, match=r"line 9002: byte 0xe9 at .* is not utf-8"):
        list(chunks)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,2\n" * 20 + b"1\n")
    with pytest.raises(ValueError, match=r"data row 21 \(line 22\) has 1 fields"):
        list(read_chunks(tmp_path / "t.csv", 4))
    (tmp_path / "t.csv").write_bytes(b"a\n" + b"1\n" * 20_000 + b"\x00")
    with pytest.raises(ValueError, match=r"line 20002: not a text table: binary data"):
        list(read_chunks(tmp_path / "t.csv", 4))


def test_folders_are_their_tables_by_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.parquet", "_c.csv", ".d.csv", "notes.txt"):
        (tmp_path / name).write_text("a\n1\n")
    assert find_tables([tmp_path]) == [tmp_path / "a.parquet", tmp_path / "b.csv"]
    assert find_tables([tmp_path / "b.csv", tmp_path / "a.parquet"])[0].name == "b.csv"
    os.mkfifo(tmp_path / "pipe.csv")
    for pipe in (tmp_path / "pipe.csv", "-"):
        with pytest.raises(ValueError, match="a pipe cannot be read"):
            find_tables([pipe])
    with pytest.raises(FileNotFoundError, match=r"x\.csv: no such file"):
        find_tables([tmp_path / "x.csv"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="the folder holds no file"):
        find_tables([tmp_path / "empty"])


def test_the_schema_is_that_of_the_pieces(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('smiles,"a,b"\nCC,1\n')
    pq.write_table(pa.table({"smiles": ["CC"], "y": [1.0]}), tmp_path / "t.parquet")
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        (chunk,) = read_chunks(path, 5)
        assert read_schema(path) == chunk.table.schema
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"bad\.parquet: not a whole Parquet file"):
        read_schema(tmp_path / "bad.parquet")
    (tmp_path / "bad.csv").write_text('"smiles\n')
    with pytest.raises(ValueError, match=r"bad\.csv: line 1: not a readable table"):
        read_schema(tmp_path / "bad.csv")


def test_cells_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'a,b\n1,"{"x" * 200_000}"\n')
    (chunk,) = read_chunks(tmp_path / "t.csv", 4)
    assert len(chunk.table["b"][0].as_py()) == 200_000


def test_a_line_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.csv"
    path.write_text("smiles\nCCO\n" + 20 * "C" + "\n")
    monkeypatch.setattr(lines, "_LONGEST", 20)
    with pytest.raises(ValueError, match=r"long.csv: line 3 is longer than 20 characters"):
        list(table_chunks.text_rows(path))
    monkeypatch.setattr(lines, "_LONGEST", 21)
    assert len(list(table_chunks.text_rows(path))) == 3


def test_parquet_pages_with_checksums_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = np.random.default_rng(0).random(1000)
    pq.write_table(
        pa.table({"y": values}), path, write_page_checksum=True, use_dictionary=False, compression="none"
    )
    content = path.read_bytes()
    place = content.index(values[500].tobytes())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match=r"t\.parquet: not a whole Parquet file .*(CRC|checksum)"):
        [*read_chunks(path, 300)]
