"""Tables read piece by piece, however long they are, with errors that name the place.

This is the one entrance for files: the name says whether it is CSV, TSV, Parquet, SDF, SMILES or Excel.
"""

from __future__ import annotations

import csv
import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .lines import lines_of
from .molecule_files import sdf_rows, smi_rows
from .rejects import Unreadable
from .workbook import workbook_rows

#: Files of molecules.
MOLECULE_SUFFIXES = (".smi", ".smi.gz", ".smiles", ".smiles.gz", ".sdf", ".sdf.gz")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx", *MOLECULE_SUFFIXES)


class Chunk(NamedTuple):
    """Some rows of a table, in order.

    Attributes:
        table: All columns; those of text tables are strings, those of Parquet have the types of the file.
        lines: But for Parquet, the line of the file, or the row of the sheet, on which each row ends.
        unreadable: Of an SDF, what stands in the first column of rows that RDKit does not read; the table has
            nothing there.
    """

    table: pa.Table
    lines: Sequence[int] | None
    unreadable: Mapping[int, Unreadable]


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name of ``path`` ends like a table that can be read."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def find_tables(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Files as they are given, and the tables of folders in the order of their names."""
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
    if str(path) == "-" or path.is_fifo():
        raise ValueError(f"{path}: a pipe cannot be read: tables are read twice, give a file")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if not is_table(path):
        raise ValueError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")


def close_name(name: str, known: Iterable[str]) -> str:
    """A hint at a known name that is almost this one, if there is one."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require_columns(wanted: Iterable[object], available: Sequence[object], source: object) -> None:
    """Raise a ``ValueError`` unless every wanted column is there exactly once."""
    counts = Counter(available)
    for name in wanted:
        if counts[name] > 1:
            nameless = "have no name, as where rows end in separators; delete them, or give them names"
            alike = f"are called {name!r}; rename all but one" if name != "" else nameless
            raise ValueError(f"{source}: {counts[name]} columns {alike}")
        if not counts[name]:
            hint = close_name(str(name), map(str, available))
            raise ValueError(
                f"{source}: no column {name!r}{hint} (columns: {', '.join(map(repr, available))})"
            )


def read_schema(path: str | os.PathLike[str]) -> pa.Schema:
    """Names and types of a table's columns, those of a text table all strings, without its rows."""
    path = Path(path)
    check_file(path)
    if path.suffix.lower() == ".parquet":
        with _named_errors(path):
            return pq.read_schema(path).remove_metadata()
    _, header = next(rows_of(path))
    return pa.schema([(name, pa.string()) for name in header])


def kind_of(schema: pa.Schema, column: str) -> pa.DataType:
    """The type of the values of a column; where a dictionary holds them, theirs."""
    kind = schema.field(column).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def check_text_column(schema: pa.Schema, column: str, where: object) -> None:
    """A ValueError if a column holds anything but texts."""
    if str(kind := kind_of(schema, column)) not in ("string", "large_string", "string_view", "null"):
        raise ValueError(f"{where}: column {column!r} holds {kind}, expected text")


def read_chunks(path: str | os.PathLike[str], rows: int) -> Iterator[Chunk]:
    """Read a table in pieces of so many ``rows``: only so much of it is in memory at a time.

    The last piece may have fewer rows. There is at least one, empty if the table is. Errors are those of
    :func:`~wlkernelnn.datasets.read_table`, when that place is reached.
    """
    path = Path(path)
    check_file(path)
    if path.suffix.lower() == ".parquet":
        yield from parquet_chunks(path, rows)
        return
    for header, cells, lines in text_pieces(path, rows=rows):
        columns: list[tuple[Any, ...]] = [*zip(*cells, strict=True)] if cells else [()] * len(header)
        unreadable = {i: cell for i, cell in enumerate(columns[0]) if isinstance(cell, Unreadable)}
        if unreadable:
            columns[0] = tuple(None if i in unreadable else cell for i, cell in enumerate(columns[0]))
        arrays = [pa.array(column, pa.string()) for column in columns]
        yield Chunk(pa.Table.from_arrays(arrays, names=header), lines, unreadable)


def parquet_chunks(path: Path, rows: int | None, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
    """As :func:`read_chunks`, of some columns of a Parquet file; without ``rows`` in one piece."""
    # Without pre_buffer a row group is not read whole before its first rows come.
    with _named_errors(path), pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        # What pandas notes about its index would no longer hold.
        schema = file.schema_arrow.remove_metadata()
        wanted = schema.names if columns is None else list(columns)
        require_columns(wanted, schema.names, path)
        rows = rows or file.metadata.num_rows or 1
        rest = schema.empty_table().select(wanted)
        first = True
        for batch in file.iter_batches(batch_size=rows, columns=wanted):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(None).select(wanted)
            # Batches end where row groups do.
            rest = pa.concat_tables([rest, table])
            if rest.num_rows >= rows:
                yield Chunk(rest.slice(0, rows), None, {})
                rest, first = rest.slice(rows), False
        if first or rest.num_rows:
            yield Chunk(rest, None, {})


def text_pieces(
    path: Path, columns: Sequence[str] | None = None, rows: int | None = None
) -> Iterator[tuple[list[str], list[tuple[Any, ...]], list[int]]]:
    """Pieces of any table but Parquet: names of the columns, cells, and the line on which each row ends.

    By default one piece has all columns and ``rows``. There is at least one, empty if the table is.
    """
    numbered = rows_of(path)
    header = list(next(numbered)[1])
    wanted = header if columns is None else list(columns)
    require_columns(wanted, header, path)
    where = [header.index(name) for name in wanted]
    first = True
    while (piece := list(islice(numbered, rows))) or first:
        cells = [tuple([row[i] for i in where]) if columns else row for _, row in piece]
        yield wanted, cells, [line for line, _ in piece]
        first = False


def rows_of(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows of any table but Parquet, as :func:`text_rows` has them: cells are texts.

    Of an SDF, the first may be :class:`~wlkernelnn.datasets.files.rejects.Unreadable`.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    readers = {".smi": smi_rows, ".smiles": smi_rows, ".sdf": sdf_rows, ".xlsx": workbook_rows}
    return readers.get(kind, text_rows)(path)


def separator(name: str) -> str:
    """What is between the cells of a table in a text file of that name."""
    return "\t" if name.lower().endswith((".tsv", ".tsv.gz")) else ","


# Python's own limit is 131,072 characters, and texts of molecules may be longer. What follows a quote that is
# never closed is one cell: no limit at all would read the rest of the file.
csv.field_size_limit(max(csv.field_size_limit(), 2**24))


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from error


def text_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The rows of a text table: the line on which each ends, and its cells; first those of the header.

    With ``columns`` the table has no header. Blank lines are rows only of a single column.

    Raises:
        ValueError: See :func:`~wlkernelnn.datasets.read_table`; says where.
    """
    reader, number = csv.reader(lines_of(path), delimiter=separator(path.name), strict=True), 0
    try:
        if columns is None:
            columns = next(filter(None, reader), [])
            yield reader.line_num, tuple(columns)
        for fields in reader:
            if not fields:
                if len(columns) > 1:
                    continue
                fields = [""]
            number += 1
            if len(fields) != len(columns):
                row = f"data row {number} (line {reader.line_num})"
                raise ValueError(f"{path}: {row} has {len(fields)} fields, expected {len(columns)}")
            # Not lists: of so many, the garbage collector's rounds would take longer than the reading.
            yield reader.line_num, tuple(fields)
    except csv.Error as error:
        hint = _hint(path, str(error))
        raise ValueError(f"{path}: line {reader.line_num}: not a readable table ({error}){hint}") from error


def _hint(path: Path, problem: str) -> str:
    """What may be wrong with a table that the reader of CSV refuses."""
    if "field limit" in problem:
        return ": is the quote behind a long text missing?"
    first = next(lines_of(path), "")
    for sign in (";", "\t", "|"):
        if f'"{sign}"' in first and sign != separator(path.name):
            return f": is {sign!r} its separator? Expected {separator(path.name)!r}"
    return ""
