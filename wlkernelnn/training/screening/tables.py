"""Predictions for tables of SMILES of any length: read, predicted and written part by part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain, islice, tee
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import rdkit
import torch
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from wlkernelnn.datasets import Reject, smiles_column_of, write_rejects
from wlkernelnn.datasets.files.table_chunks import find_tables, read_chunks, read_schema
from wlkernelnn.datasets.molecules.from_table import OnInvalid
from wlkernelnn.training.molecules.columns import Columns, caches_of, digests, load_run
from wlkernelnn.training.molecules.ensemble import Kind
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_count

from .parts import Counts, Parts, write_table
from .workers import Predicted, Task, predict_tasks

# Rows of a part: what a kill loses.
ROWS = BATCH
# With fewer parts the start of processes (some seconds) takes longer than it saves.
PARALLEL_FROM = 3


class _Piece(NamedTuple):
    """Consecutive rows of the input.

    Attributes:
        source: Their file.
        first, first_in_source: How many rows of the input, and of the file, come before.
        column: The column of SMILES.
        table, lines: As in :class:`~wlkernelnn.datasets.files.table_chunks.Chunk`.
    """

    source: Path
    first: int
    first_in_source: int
    column: str
    table: pa.Table
    lines: Sequence[int] | None

    def place(self, row: int) -> str:
        """Name a row of the input as what it is in its file."""
        line = "" if self.lines is None else f" (line {self.lines[row - self.first]})"
        return f"data row {row - self.first + self.first_in_source + 1:,}{line}"


_Result = tuple[pa.Table, list[Reject], Counts]


class _RowsRefused(ValueError):
    """Rows give no molecule, and may not be left out."""


def predict_tables(
    inputs: Sequence[Path],
    model_path: Path,
    output: Path,
    rejects_path: Path,
    *,
    smiles_column: str | None = None,
    on_invalid: OnInvalid = "nan",
    batch_size: int = BATCH,
    num_workers: int | None = None,
    resume: bool = False,
    progress: bool = False,
    columns: Columns | Kind = "prediction",
) -> Counts:
    """Predict, or embed, every row of one or several tables, in order, in bounded memory.

    Finished parts are kept in a folder: ``output`` itself or, for a single file, one beside it that goes when
    the file is written (an input of one part needs none). A run that was killed leaves them there. How parts
    are shared out among processes and runs decides which states of colours are there already: it may change
    the rounding of a prediction.

    Args:
        inputs: CSV, TSV or Parquet files with the same columns, or folders of such.
        model_path: A run folder, see :func:`load_run`.
        output: A ``.csv`` or ``.parquet`` file, or, without a suffix, a folder of Parquet files. Like the
            next, it must not be one of the inputs.
        rejects_path: CSV file for the rows that gave no molecule.
        smiles_column: The column of SMILES; by default the one called smiles.
        on_invalid: Rows that give no molecule: ``"nan"`` keeps them with empty predictions, ``"skip"`` leaves
            them out, ``"raise"`` stops at the first part that has any.
        batch_size: Molecules that go through a network at once.
        num_workers: Processes to start; 0 works in this one. Default: one per core if the input is long.
        resume: Keep the parts that an earlier run of the same input, networks and options finished.
        progress: Show on stderr how far it is.
        columns: What every row gets, see :class:`Columns`, or only its kind: a ``"prediction"`` of each
            target (in place of a column of its name), or its ``"fingerprint"``, the vectors that the heads of
            the networks see.

    Returns:
        How many rows were read, rejected and written.

    Raises:
        FileNotFoundError: An input or the networks are not there.
        FileExistsError: There are parts of an earlier run, and ``resume`` is off, the folder for parts holds
            other files, or another process works there.
        ValueError: An input cannot be read, inputs differ in their columns or have one of the name of a new
            one that is no target, a row gives no molecule and ``on_invalid`` is ``"raise"``, or the run to
            resume was another one.
    """
    check_count("batch_size", batch_size)
    if num_workers is not None:
        check_count("num_workers", num_workers, least=0)
    columns = Columns(columns) if isinstance(columns, str) else columns
    model = load_run(model_path)
    sources = find_tables(inputs)
    schema = _schema(sources)
    names = columns.names(model)
    replaced = model.about["target_names"] if columns.kind == "prediction" else ()
    # Others may be the error of a measurement.
    if there := [name for name in schema.names if name in names and name not in replaced]:
        raise ValueError(
            f"{sources[0]}: has a column {there[0]!r}, and so has the output, which is never replaced: it "
            "may be a measurement's error, or an earlier prediction; rename or drop it"
        )

    def results(pieces: Iterator[_Piece], done: int = 0) -> Iterator[_Result]:
        """What is written for pieces, in their order, after ``done`` rows."""
        ahead = list(islice(pieces, PARALLEL_FROM))
        default = joblib.cpu_count() if len(ahead) == PARALLEL_FROM else 0
        processes = default if num_workers is None else num_workers
        pieces, sent = tee(chain(ahead, pieces))
        tasks = (Task(piece.first, piece.table[piece.column].to_pylist(), columns) for piece in sent)
        # A single piece has nothing to remember for others.
        caches = caches_of(model) if len(ahead) > 1 else None
        predicted = predict_tasks(tasks, model_path, model, batch_size, processes, caches)
        told = [TextColumn(text) for text in ("{task.description}", "{task.completed:,.0f} rows")]
        console = Console(stderr=True)
        with (
            closing(predicted),
            Progress(*told, TimeElapsedColumn(), console=console, disable=not progress) as bar,
        ):
            shown = bar.add_task("Predicting", total=None, completed=done)
            for result, piece in zip(predicted, pieces, strict=True):
                if result.rejects and on_invalid == "raise":
                    write_rejects(rejects_path, result.rejects)
                    raise _RowsRefused(_complaint(piece, result.rejects))
                table = _with_columns(piece.table, names, result)
                if on_invalid == "skip":
                    table = table.take(pa.array(result.position))
                counts = Counts(piece.table.num_rows, len(result.rejects), table.num_rows)
                yield table, result.rejects, counts
                bar.advance(shown, counts.read)

    pieces = _pieces(sources, schema, smiles_column)
    begin = list(islice(pieces, 2))
    if not begin:
        raise ValueError(f"{sources[0]}: the file has a header but no rows")
    folder = output.with_name(f"{output.name}.parts") if output.suffix else output
    if output.suffix and len(begin) == 1 and not folder.exists():
        [(table, rejects, counts)] = results(iter(begin))
        write_rejects(rejects_path, rejects)
        write_table(output, table)
        return counts

    # All that the content of a part depends on.
    origin = {
        "input": [[source.name, _sha256(source)] for source in sources],
        "networks": digests(model),
        "options": {
            "smiles_column": smiles_column,
            "on_invalid": on_invalid,
            "batch_size": batch_size,
            "columns": asdict(columns),
        },
        "versions": {"rdkit": rdkit.__version__, "torch": torch.__version__},
    }
    with Parts.alone(folder, output.suffix or ".parquet", origin, resume) as parts:
        pieces = chain(begin, pieces)
        finished = [piece.table.num_rows for piece in islice(pieces, len(parts.done))]
        if finished != [part.read for part in parts.done]:
            raise ValueError(f"{folder}: the parts of the run to resume have other sizes; delete the folder")
        try:
            for part in results(pieces, parts.counts.read):
                parts.add(*part)
        except _RowsRefused:
            parts.clear()  # of an input that is to be mended, so of no use
            raise
        parts.join_rejects(rejects_path)
        if output.suffix:
            parts.join(output)
            parts.clear()
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


def _pieces(sources: Sequence[Path], schema: pa.Schema, smiles_column: str | None) -> Iterator[_Piece]:
    """The rows of all files, with the types of the first; none of an empty file."""
    column, first = smiles_column_of(pd.DataFrame(columns=schema.names), smiles_column, str(sources[0])), 0
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if str(kind) not in ("string", "large_string", "string_view", "null"):
        raise ValueError(f"{sources[0]}: column {column!r} holds {kind}, expected text")
    for source in sources:
        in_source = 0
        for table, lines in read_chunks(source, ROWS):
            if table.num_rows:
                yield _Piece(source, first, in_source, column, table.cast(schema), lines)
            first, in_source = first + table.num_rows, in_source + table.num_rows


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name!r} ({field.type})" for field in schema)


def _with_columns(table: pa.Table, names: Sequence[str], result: Predicted) -> pa.Table:
    """The table with new columns, each in place of one of its name or behind the others."""
    for name, known in zip(names, result.values.T, strict=True):
        column = np.full(table.num_rows, np.nan, dtype=np.float32)
        column[result.position] = known
        cells = pa.array(column, from_pandas=True)  # NaN is a missing value
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, cells)
        else:
            table = table.append_column(name, cells)
    return table


def _complaint(piece: _Piece, rejects: Sequence[Reject]) -> str:
    shown = [f"{piece.place(row)}: {smiles!r}: {reason}" for row, smiles, reason in rejects[:3]]
    if len(rejects) > len(shown):
        shown.append(f"and {len(rejects) - len(shown):,} more")
    until = piece.first_in_source + piece.table.num_rows
    return (
        f"{piece.source}: {len(rejects):,} of {until:,} rows give no molecule (on_invalid='skip' leaves them "
        "out)\n  " + "\n  ".join(shown)
    )


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
