"""Further columns for tables of any length: read, filled and written part by part."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from wlkernelnn.datasets import Reject, write_rejects
from wlkernelnn.datasets.files.rejects import Unreadable, listed
from wlkernelnn.datasets.files.table_chunks import check_text_column, find_tables, read_chunks, read_schema
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import repeated

from .parts import Counts, Parts, digest_and_size, write_table

# Rows of a part: what a kill loses.
ROWS = BATCH


class Piece(NamedTuple):
    """Consecutive rows of the input.

    Attributes:
        source: Their file.
        first, first_in_source: How many rows of the input, and of the file, come before.
        read: The columns that are read.
        table, lines, unreadable: As in :class:`~wlkernelnn.datasets.files.table_chunks.Chunk`.
    """

    source: Path
    first: int
    first_in_source: int
    read: Sequence[str]
    table: pa.Table
    lines: Sequence[int] | None
    unreadable: Mapping[int, Unreadable]

    @property
    def cells(self) -> dict[str, list[object]]:
        """What stands in the columns that are read, by their names."""
        cells = {column: self.table[column].to_pylist() for column in self.read}
        first = cells.get(self.table.column_names[0], [])
        for row, cell in self.unreadable.items() if first else ():
            first[row] = cell
        return cells

    def place(self, row: int) -> str:
        """Name a row of the input as what it is in its file."""
        line = "" if self.lines is None else f" (line {self.lines[row - self.first]})"
        return f"data row {row - self.first + self.first_in_source + 1:,}{line}"


class Filled(Protocol):
    """What came of a piece.

    Attributes:
        position: int64 ``[B]``: positions in the piece that have values, ascending.
        columns: The new columns, ``[B]`` each, floats or texts.
        rejects: The other positions, with their rows in the input and reasons.
    """

    @property
    def position(self) -> np.ndarray: ...
    @property
    def columns(self) -> Sequence[np.ndarray]: ...
    @property
    def rejects(self) -> list[Reject]: ...


@dataclass(frozen=True)
class Filling:
    """What fills tables.

    Attributes:
        names: The new columns.
        measured: Those of them that end in ``_pred`` where the input has a column of their name, which may
            hold measurements.
        origin: All that their content depends on beside the input, as JSON has it.
        what: What a row should hold, such as "molecule".
        columns_of: Finds the columns that are read, of the names of columns; the second argument is what
            messages call the table.
        fill: The values of pieces, in their order.
        reject_column: What files of rejected rows call the column that is read.
    """

    names: Sequence[str]
    measured: Collection[str]
    origin: Mapping[str, Any]
    what: str
    columns_of: Callable[[Sequence[str], str], Sequence[str]]
    fill: Callable[[Iterator[Piece]], Generator[Filled, None, None]]
    reject_column: str


_Result = tuple[pa.Table, list[Reject], Counts]


class _RowsRefused(ValueError):
    """Rows cannot be used, and may not be left out."""


def fill_tables(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    rejects_path: str | os.PathLike[str],
    filling: Filling,
    *,
    on_invalid: str,
    resume: bool,
    progress: bool,
) -> Counts:
    """Give every row of one or several tables further columns, in order, in bounded memory.

    Arguments, result and errors are those of :func:`predict_tables`.
    """
    output, rejects_path = Path(output), Path(rejects_path)
    several = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    sources = find_tables([Path(path) for path in several])
    schema = _schema(sources)
    measured = {*filling.measured} & {*schema.names}
    names = [f"{name}_pred" if name in measured else name for name in filling.names]
    if there := [name for name in schema.names if name in names]:
        raise ValueError(
            f"{sources[0]}: has a column {there[0]!r}, and so has the output, which is never replaced: it "
            "may be a measurement's error, or an earlier prediction; rename or drop it"
        )
    if twice := repeated(names):
        raise ValueError(f"{sources[0]}: the output would have two columns {twice[0]!r}; rename the input's")
    rejected = partial(write_rejects, column=filling.reject_column)

    def results(pieces: Iterator[Piece], done: int = 0) -> Iterator[_Result]:
        """What is written for pieces, in their order, after ``done`` rows."""
        pieces, sent = tee(pieces)
        told = [TextColumn(text) for text in ("{task.description}", "{task.completed:,.0f} rows")]
        console = Console(stderr=True)
        with (
            closing(filling.fill(sent)) as filled,
            Progress(*told, TimeElapsedColumn(), console=console, disable=not progress) as bar,
        ):
            shown = bar.add_task("Predicting", total=None, completed=done)
            for result, piece in zip(filled, pieces, strict=True):
                if result.rejects and on_invalid == "raise":
                    rejected(rejects_path, result.rejects)
                    raise _RowsRefused(_complaint(piece, result.rejects, filling.what))
                table = _with_columns(piece.table, names, result)
                if on_invalid == "skip":
                    table = table.take(pa.array(result.position))
                counts = Counts(piece.table.num_rows, len(result.rejects), table.num_rows)
                yield table, result.rejects, counts
                bar.advance(shown, counts.read)

    pieces = _pieces(sources, schema, filling.columns_of(schema.names, str(sources[0])))
    begin = list(islice(pieces, 2))
    if not begin:
        raise ValueError(f"{sources[0]}: the file has a header but no rows")
    folder = output.with_name(f"{output.name}.parts") if output.suffix else output
    if output.suffix and len(begin) == 1 and not folder.exists():
        [(table, rejects, counts)] = results(iter(begin))
        rejected(rejects_path, rejects)
        write_table(output, table)
        return counts

    # All that the content of a part depends on.
    origin = {"input": [[source.name, digest_and_size(source)[0]] for source in sources], **filling.origin}
    suffix = output.suffix or ".parquet"
    with Parts.alone(folder, suffix, origin, resume, filling.reject_column) as parts:
        if parts.is_joined(output):  # an earlier run was killed when all was done
            try:
                parts.join_rejects(rejects_path)
            except FileNotFoundError as error:  # it had begun to tidy up
                if not rejects_path.is_file():
                    raise FileNotFoundError(
                        f"{rejects_path}: the rejected rows are no longer all in {folder}; delete that "
                        "folder to predict again"
                    ) from error
            parts.clear()
            return parts.counts
        pieces = chain(begin, pieces)
        finished = [piece.table.num_rows for piece in islice(pieces, len(parts.done))]
        if finished != [part.counts.read for part in parts.done]:
            raise ValueError(f"{folder}: the parts of the run to resume have other sizes; delete the folder")
        try:
            for part in results(pieces, parts.counts.read):
                parts.add(*part)
            parts.check()
            parts.join_rejects(rejects_path)
            if output.suffix:
                parts.join(output)
                parts.clear()
        except _RowsRefused:
            parts.clear()  # of an input that is to be mended, so of no use
            raise
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"{error} (parts are kept in {folder}: resume goes on)".lstrip()
            ) from None
    return parts.counts


def _schema(sources: Sequence[Path]) -> pa.Schema:
    """The columns of the first file; before hours go by, those of the others are seen to be the same."""
    first = read_schema(sources[0])
    for source in sources[1:]:
        schema = read_schema(source)
        if _short(schema, like=first) != _short(first):
            raise ValueError(f"{source}: columns {_columns(schema)}, but {_columns(first)} in {sources[0]}")
    return first


def _short(schema: pa.Schema, like: pa.Schema | None = None) -> list[tuple[str, pa.DataType]]:
    """Names and types; text is text, however many bytes count its length.

    A column without any value may be typed as null: it has the type that ``like`` has for its name.
    """
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    if like is not None:
        empty = {f.name for f in schema if pa.types.is_null(f.type)} & {*like.names}
        schema = pa.schema([like.field(f.name) if f.name in empty else f for f in schema])
    return [(field.name, short.get(field.type, field.type)) for field in schema]


def _pieces(sources: Sequence[Path], schema: pa.Schema, read: Sequence[str]) -> Iterator[Piece]:
    """The rows of all files, with the types of the first; none of an empty file."""
    first = 0
    for column in read:
        check_text_column(schema, column, sources[0])
    for source in sources:
        in_source = 0
        for table, lines, unreadable in read_chunks(source, ROWS):
            if table.num_rows:
                yield Piece(source, first, in_source, read, table.cast(schema), lines, unreadable)
            first, in_source = first + table.num_rows, in_source + table.num_rows


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name!r} ({field.type})" for field in schema)


def _with_columns(table: pa.Table, names: Sequence[str], result: Filled) -> pa.Table:
    """The table with new columns behind the others."""
    for name, known in zip(names, result.columns, strict=True):
        if known.dtype == object:
            column = np.full(table.num_rows, None, dtype=object)
        else:
            column = np.full(table.num_rows, np.nan, dtype=known.dtype)
        column[result.position] = known
        # NaN is a missing value; texts may all be.
        cells = pa.array(column, pa.string() if known.dtype == object else None, from_pandas=True)
        table = table.append_column(name, cells)
    return table


def _complaint(piece: Piece, rejects: Sequence[Reject], what: str) -> str:
    until = piece.first_in_source + piece.table.num_rows
    head = (
        f"{piece.source}: {len(rejects):,} of {until:,} rows give no {what} (on_invalid='skip' leaves them "
        "out)"
    )
    return listed(head, rejects, piece.place)
