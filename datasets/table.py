"""Reading tables (CSV, TSV, Parquet) of SMILES and targets, with errors that name the place."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
# First bytes of files that carry a table's name but hold something else.
_MAGIC = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x1f\x8b": "gzip-compressed: add .gz to its name",
    b"PK\x03\x04": "a zip archive or an Excel workbook: save the table as CSV",
}


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name of ``path`` ends like a table that :func:`read_table` reads."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a ``.csv``, ``.tsv`` (each also ``.gz``) or ``.parquet`` table.

    Cells of text tables stay the strings they are, blank cells are ``""``; Parquet keeps its types. The
    index of a text table is called ``line`` and holds the line of the file on which a row ends, so that a
    message can say where to look.

    Args:
        path: The file; its suffix says what it is.
        columns: The columns wanted, in this order; default all.

    Returns:
        One row per data row of the file, in order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, is not what its name says, has undecodable bytes, a row with too many
            or too few fields, a repeated column name, or lacks a column.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if not is_table(path):
        raise ValueError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")
    frame = _read_parquet(path, columns) if path.suffix.lower() == ".parquet" else _read_text(path, columns)
    if not len(frame):
        raise ValueError(f"{path}: the file has a header but no rows")
    return frame


def require_columns(wanted: Iterable[object], available: Sequence[object], source: object) -> None:
    """Raise a ``ValueError`` unless every wanted column is there exactly once."""
    counts = Counter(available)
    for name in wanted:
        if counts[name] > 1:
            raise ValueError(f"{source}: {counts[name]} columns are called {name!r}; rename all but one")
        if not counts[name]:
            close = difflib.get_close_matches(str(name), [str(other) for other in available], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{source}: no column {name!r}{hint} (columns: {', '.join(map(repr, available))})"
            )


def place(frame: pd.DataFrame, position: int) -> str:
    """Name a row for people: ``"data row 7 (line 8)"``; rows count from 1, the header is not one."""
    line = f" (line {frame.index[position]})" if frame.index.name == "line" else ""
    return f"data row {position + 1}{line}"


def numeric_targets(frame: pd.DataFrame, columns: Sequence[str], source: object) -> np.ndarray:
    """Columns of numbers as one array.

    Blank cells, NaN, and the words nan, na, n/a, null and none (any case) are missing values.

    Args:
        frame: The table.
        columns: Names of T columns.
        source: What the table is called in errors, such as its path.

    Returns:
        float64 ``[len(frame), T]``, NaN where missing.

    Raises:
        ValueError: A column is missing, or a cell holds something that is not a finite float32 number.
    """
    require_columns(columns, list(frame.columns), source)
    result = np.empty((len(frame), len(columns)))
    for j, name in enumerate(columns):
        cells = frame[name]
        missing = cells.isna().to_numpy(dtype=bool)
        if not pd.api.types.is_numeric_dtype(cells.dtype):
            text = cells.astype(str).str.strip()
            missing = missing | text.str.lower().isin(MISSING).to_numpy(dtype=bool)
            cells = pd.to_numeric(text, errors="coerce")
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = ~missing & ~(np.abs(values) <= np.finfo(np.float32).max)
        _refuse(frame, name, wrong, source, "a finite number, or nothing for a missing value")
        result[:, j] = values
    return result


def binary_targets(frame: pd.DataFrame, columns: Sequence[str], source: object) -> np.ndarray:
    """Like :func:`numeric_targets`, for classification: every value is 0, 1 or missing."""
    values = numeric_targets(frame, columns, source)
    for j, name in enumerate(columns):
        wrong = ~np.isnan(values[:, j]) & ~np.isin(values[:, j], (0, 1))
        _refuse(frame, name, wrong, source, "0 or 1, or nothing for a missing label")
    return values


def _refuse(frame: pd.DataFrame, name: str, wrong: np.ndarray, source: object, expected: str) -> None:
    positions = np.flatnonzero(wrong)
    if len(positions):
        cell = frame[name].iloc[positions[0]]
        more = f" (and {len(positions) - 1:,} more in this column)" if len(positions) > 1 else ""
        raise ValueError(
            f"{source}: {place(frame, int(positions[0]))}, column {name!r}: expected {expected}, "
            f"got {repr(cell) if isinstance(cell, str) else cell}{more}"
        )


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    try:
        with pq.ParquetFile(path) as file:
            available = file.schema_arrow.names
            wanted = available if columns is None else list(columns)
            require_columns(wanted, available, path)
            return file.read(columns=wanted).to_pandas(ignore_metadata=True)[wanted]
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from error


def _read_text(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    text = _decode(path)
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    # Line ends at the end of a file hold no rows; between rows they do where a row is a single cell.
    reader = csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = next((fields for fields in reader if fields), [])
        wanted = header if columns is None else list(columns)
        require_columns(wanted, header, path)
        where = [header.index(name) for name in wanted]
        for fields in reader:
            if not fields:
                if len(header) > 1:
                    continue
                fields = [""]
            if len(fields) != len(header):
                raise ValueError(
                    f"{path}: data row {len(rows) + 1} (line {reader.line_num}) has {len(fields)} fields, "
                    f"the header has {len(header)}"
                )
            rows.append([fields[i] for i in where])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num}: not a readable table ({error})") from error
    return pd.DataFrame(
        rows, columns=wanted, index=pd.Index(lines, name="line", dtype=np.int64), dtype=object
    )


def _decode(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a whole gzip file ({error})") from error
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            raise ValueError(f"{path}: not a text table but {what}")
    if b"\0" in content:
        raise ValueError(f"{path}: not a text table: binary data (a zero byte at {content.index(0):,})")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8; save the table as UTF-8"
        ) from error
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    return text
