"""Tables (CSV, TSV, Parquet) read piece by piece, however long they are, with errors that name the place."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .download import opened

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# First bytes of files that carry a table's name but hold something else.
_MAGIC = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x1f\x8b": "gzip-compressed: add .gz to its name",
    b"PK\x03\x04": "a zip archive or an Excel workbook: save the table as CSV",
}
# Bytes read at once.
_BLOCK = 2**20


class Chunk(NamedTuple):
    """Some rows of a table, in order.

    Attributes:
        table: All columns; those of text tables are strings, those of Parquet have the types of the file.
        lines: Of a text table, the line of the file on which each row ends.
    """

    table: pa.Table
    lines: Sequence[int] | None


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name of ``path`` ends like a table that can be read."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def is_parquet(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(".parquet")


def find_tables(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Files as they are given, and the tables of folders in the order of their names.

    Raises:
        FileNotFoundError: A path is neither.
        ValueError: A folder holds no table, or a name does not end like that of a table.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            hidden = (".", "_")
            tables = [p for p in path.iterdir() if p.is_file() and is_table(p) and p.name[0] not in hidden]
            if not tables:
                raise ValueError(f"{path}: the folder holds no file that ends in {', '.join(SUFFIXES)}")
            found += sorted(tables)
        else:
            check_file(path)
            found.append(path)
    return found


def check_file(path: Path) -> None:
    """Raise an error unless there is a file that is not empty and has the name of a table."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if not is_table(path):
        raise ValueError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")


def require_columns(wanted: Iterable[object], available: Sequence[object], source: object) -> None:
    """Raise a ``ValueError`` unless every wanted column is there exactly once."""
    counts = Counter(available)
    for name in wanted:
        if counts[name] > 1:
            alike = f"are called {name!r}; rename all but one"
            if name == "":
                alike = "have no name, as where rows end in separators; delete them, or give them names"
            raise ValueError(f"{source}: {counts[name]} columns {alike}")
        if not counts[name]:
            close = difflib.get_close_matches(str(name), [str(other) for other in available], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{source}: no column {name!r}{hint} (columns: {', '.join(map(repr, available))})"
            )


def read_schema(path: str | os.PathLike[str]) -> pa.Schema:
    """Names and types of a table's columns, those of a text table all strings, without its rows.

    Args:
        path: As of :func:`read_chunks`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, or its head is not that of a table.
    """
    path = Path(path)
    check_file(path)
    if is_parquet(path):
        try:
            return pq.read_schema(path).remove_metadata()
        except (pa.ArrowException, OSError) as error:
            raise not_parquet(path, error) from error
    reader = csv.reader(chain.from_iterable(_lines(path)), **_dialect(path))
    try:
        return pa.schema([(name, pa.string()) for name in _header(reader)])
    except csv.Error as error:
        raise _not_text(path, reader.line_num, error) from error


def read_chunks(path: str | os.PathLike[str], rows: int) -> Iterator[Chunk]:
    """Read a table in pieces: only so much of it is in memory at a time.

    Args:
        path: A ``.csv``, ``.tsv`` (each also ``.gz``) or ``.parquet`` file.
        rows: Rows of a piece; the last may have fewer. There is at least one piece, empty if the table is.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: One of the reasons of :func:`~wlkernelnn.datasets.read_table`, when that place is reached.
    """
    path = Path(path)
    check_file(path)
    if is_parquet(path):
        yield from _parquet_chunks(path, rows)
        return
    for header, cells, lines in text_pieces(path, rows=rows):
        columns = zip(*cells, strict=True) if cells else [()] * len(header)
        arrays = [pa.array(column, pa.string()) for column in columns]
        yield Chunk(pa.Table.from_arrays(arrays, names=header), lines)


def _parquet_chunks(path: Path, rows: int) -> Iterator[Chunk]:
    try:
        # Without pre_buffer a row group is not read whole before its first rows come.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            require_columns(file.schema_arrow.names, file.schema_arrow.names, path)
            # What pandas notes about its index would no longer hold.
            rest = file.schema_arrow.remove_metadata().empty_table()
            first = True
            for batch in file.iter_batches(batch_size=rows):
                table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
                # Batches end where row groups do.
                rest = pa.concat_tables([rest, table])
                if rest.num_rows >= rows:
                    yield Chunk(rest.slice(0, rows), None)
                    rest, first = rest.slice(rows), False
            if first or rest.num_rows:
                yield Chunk(rest, None)
    except (pa.ArrowException, OSError) as error:
        raise not_parquet(path, error) from error


def text_pieces(
    path: Path, columns: Sequence[str] | None = None, rows: int | None = None
) -> Iterator[tuple[list[str], list[tuple[str, ...]], Sequence[int]]]:
    """The rows of a text table: names of the columns, cells, and the line on which each row ends.

    Args:
        path: The file.
        columns: The columns wanted, in this order; default all.
        rows: Rows of a piece, default all. There is at least one piece, empty if the table is.
    """
    dialect = _dialect(path)
    size = rows or sys.maxsize
    source = chain.from_iterable(_lines(path))
    before = line = 0  # the rows and lines of what was read so far
    reader = csv.reader(source, **dialect)
    try:
        header = _header(reader)
        wanted = header if columns is None else list(columns)
        require_columns(wanted, header, path)
        where = [header.index(name) for name in wanted]
        line = reader.line_num
        ahead = list(islice(source, size))
        while ahead or not before:
            cells = _one_line_rows(ahead, len(header), dialect)
            if cells is not None:
                lines: Sequence[int] = range(line + 1, line + 1 + len(ahead))
                line, ahead = line + len(ahead), []
            else:
                unread = iter(ahead)
                reader = csv.reader(chain(unread, source), **dialect)
                cells, lines = _any_rows(reader, header, size, path, before, line)
                line, ahead = line + reader.line_num, list(unread)
            if cells or not before:
                yield wanted, [tuple([row[i] for i in where]) for row in cells] if columns else cells, lines
            before += len(cells)
            ahead += islice(source, size - len(ahead))
            if not before and not ahead:
                return
    except csv.Error as error:
        raise _not_text(path, line + reader.line_num, error) from error


def separator(name: str) -> str:
    """What is between the cells of a table in a text file of that name."""
    return "\t" if name.lower().endswith((".tsv", ".tsv.gz")) else ","


def _dialect(path: Path) -> dict[str, Any]:
    return {"delimiter": separator(path.name), "strict": True}


# Python's own limit is 131,072 characters, and texts of molecules may be longer. What follows a quote that is
# never closed is one cell: no limit at all would read the rest of the file.
csv.field_size_limit(max(csv.field_size_limit(), 2**24))


def _header(reader: Iterator[list[str]]) -> list[str]:
    return next((fields for fields in reader if fields), [])


def _not_text(path: Path, line: int, error: Exception) -> ValueError:
    return ValueError(f"{path}: line {line}: not a readable table ({error})")


def not_parquet(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path}: not a whole Parquet file ({error})")


def _one_line_rows(lines: list[str], width: int, dialect: dict[str, Any]) -> list[tuple[str, ...]] | None:
    """The rows of lines, if each is one of so many cells, without a look at every single one."""
    if '"' in "".join(lines):
        return None
    try:
        # Not lists: of so many, the garbage collector's rounds would take longer than the reading.
        rows = list(map(tuple, csv.reader(lines, **dialect)))
    except csv.Error:
        return None
    return rows if set(map(len, rows)) <= {width} else None


def _any_rows(
    reader: Any, header: Sequence[str], size: int, path: Path, before: int, line: int
) -> tuple[list[tuple[str, ...]], list[int]]:
    """Up to ``size`` rows, and the line on which each ends."""
    cells: list[tuple[str, ...]] = []
    lines: list[int] = []
    for fields in reader:
        if not fields:
            if len(header) > 1:
                continue
            fields = [""]
        if len(fields) != len(header):
            raise ValueError(
                f"{path}: data row {before + len(cells) + 1} (line {line + reader.line_num}) has "
                f"{len(fields)} fields, the header has {len(header)}"
            )
        cells.append(tuple(fields))
        lines.append(line + reader.line_num)
        if len(cells) == size:
            break
    return cells, lines


def _lines(path: Path) -> Iterator[list[str]]:
    """Lines with their ends, block by block, but for the line ends at the end of the file.

    Those hold no rows; between rows they do where a row is a single cell.
    """
    blank: list[str] = []
    for lines in _all_lines(path):
        end = len(lines)
        while end and not lines[end - 1].strip("\r\n"):
            end -= 1
        if end:
            yield blank + lines[:end]
            blank = []
        blank += lines[end:]


def _all_lines(path: Path) -> Iterator[list[str]]:
    rest = ""
    for text in _decoded(path):
        lines = list(io.StringIO(rest + text, newline=""))
        rest = lines.pop() if lines else ""  # its end, or the second half of that, may be in the next block
        yield lines
    if rest:
        yield [rest]


def _decoded(path: Path) -> Iterator[str]:
    """The text of a file block by block."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    done = newlines = 0
    for block in _blocks(path):
        if done == 0:
            for magic, what in _MAGIC.items():
                if block.startswith(magic):
                    raise ValueError(f"{path}: not a text table but {what}")
        if b"\0" in block:
            raise ValueError(
                f"{path}: not a text table: binary data (a zero byte at {done + block.index(0):,})"
            )
        last = len(block) < _BLOCK
        try:
            text = decoder.decode(block, final=last)
        except UnicodeDecodeError as error:
            # What came before this block and was not decoded yet is part of one character: no line end.
            line = newlines + error.object.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{path}: line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8; "
                "save the table as UTF-8"
            ) from error
        if done == 0 and last and not text.strip():
            raise ValueError(f"{path}: the file is empty")
        done += len(block)
        newlines += block.count(b"\n")
        yield text


def _blocks(path: Path) -> Iterator[bytes]:
    """The content, decompressed: full blocks, and at the end one that is not full."""
    with opened(path) as file:
        while True:
            # A buffered file reads all that is asked for, if there is as much.
            block = file.read(_BLOCK)
            yield block
            if len(block) < _BLOCK:
                return
