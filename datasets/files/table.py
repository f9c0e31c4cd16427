"""Tables of any kind, and their columns by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rdkit import Chem, rdBase

from .table_chunks import (
    check_file,
    close_name,
    parquet_chunks,
    require_columns,
    separator,
    text_pieces,
)


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a table: one row per data row of the file, whose name says what it is.

    ====================================  ===================================================================
    ``.csv``, ``.tsv`` (also ``.gz``)      cells stay the strings they are, blank cells are ``""``
    ``.parquet``                          keeps its types
    ``.sdf`` (also ``.gz``)               columns ``smiles`` (canonical, with the stereochemistry of the
                                          structure), ``name`` (the first line), and all properties; where
                                          RDKit reads no structure, ``smiles`` holds an object with the reason
    ``.smi``, ``.smiles`` (also ``.gz``)   columns ``smiles`` and ``name``, or those that the first line names
    ``.xlsx``                             the first sheet, as strings (needs the extra ``excel``)
    ====================================  ===================================================================

    But for Parquet the index is called ``line`` and holds the line of the file (or the row of the sheet) on
    which a row ends, so that a message can say where to look.

    Args:
        path: The file; its suffix says what it is.
        columns: The columns wanted, in this order; default all.

    Raises:
        FileNotFoundError: The file does not exist.
        ImportError: The package that reads Excel is missing.
        ValueError: The file is empty, is not what its name says, has undecodable bytes, a row with too many
            or too few fields, a repeated column name, or lacks a column.
    """
    path = Path(path)
    check_file(path)
    if path.suffix.lower() == ".parquet":
        (chunk,) = parquet_chunks(path, None, columns)
        frame = _of_arrow(chunk.table)
    else:
        ((names, cells, lines),) = text_pieces(path, columns)
        index = pd.Index(lines, name="line", dtype=np.int64)
        frame = pd.DataFrame(cells, columns=names, index=index, dtype=object)
    if not len(frame):
        raise ValueError(f"{path}: the file has a header but no rows")
    return frame


def frame_of(table: object) -> pd.DataFrame | None:
    """A table of pandas, Polars, Arrow or any other package with Arrow's stream interface, as pandas has it.

    ``None`` for all else, such as a single column.
    """
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__") and (hasattr(table, "columns") or hasattr(table, "schema")):
        return _of_arrow(pa.table(table))
    return None


def _of_arrow(table: pa.Table) -> pd.DataFrame:
    """As pandas has it, with whole numbers beside nulls as objects where a float64 would round them."""
    frame = table.to_pandas(ignore_metadata=True)
    for position, column in enumerate(table.columns):
        if pa.types.is_integer(column.type) and column.null_count:
            ends = [end for end in pc.min_max(column).as_py().values() if end is not None]
            if any(abs(end) > 2**53 for end in ends):
                frame.isetitem(position, column.to_pandas(integer_object_nulls=True).to_numpy())
    return frame


def items_of(column: object) -> list[object]:
    """The items of a list, array, Series or column of Arrow."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)  # type: ignore[call-overload]


def place(frame: pd.DataFrame, position: int) -> str:
    """Name a row for people: ``"data row 7 (line 8)"``; rows count from 1, the header is not one."""
    line = f" (line {frame.index[position]})" if frame.index.name == "line" else ""
    return f"data row {position + 1}{line}"


def column_called(available: Sequence[object], name: str | None, called: str, where: str) -> str:
    """The column given, else the one that is ``called`` so, in any case, else the only one.

    Raises:
        ValueError: The column is missing or there twice.
    """
    if name is None:
        named = [str(column) for column in available if str(column).lower() == called.lower()]
        if len(named) > 1 and called not in named:
            raise ValueError(f"{where}: columns {', '.join(named)}: say which one is meant")
        name = named[0] if len(named) == 1 else called
        if not named and len(available) == 1:
            name = str(available[0])
    require_columns([name], available, where)
    return name


def smiles_column_of(frame: pd.DataFrame, name: str | None, where: str) -> str:
    """The column of SMILES: the one given, else the one called smiles, in any case, else the only one.

    Raises:
        ValueError: The column is missing or there twice, several columns may be meant, or the only column
            shows a misread file.
    """
    columns = list(frame.columns)
    if name is None and "smiles" not in columns and len(columns) > 1:
        alike = [column for column in map(str, columns) if "smiles" in column.lower()]
        if [column.lower() for column in alike].count("smiles") != 1:
            if len(alike) > 1:
                raise ValueError(
                    f"{where}: columns {', '.join(alike)}: say which one is meant by smiles_column "
                    "(--smiles-columns)"
                )
            shown, hint = ", ".join(map(repr, columns)), close_name("smiles", map(str, columns))
            hint = f"; did you mean {alike[0]!r}?" if alike else hint
            raise ValueError(
                f"{where}: no column 'smiles'{hint} (columns: {shown}): name that of the SMILES by "
                "smiles_column (--smiles-columns)"
            )
    found = column_called(columns, name, "smiles", where)
    if name is None and found.lower() != "smiles":
        _check_header(found, where)
    return found


def _check_header(name: str, where: str) -> None:
    """Refuse the only column of a table if its name says that the table was misread."""
    problem = ""
    for sign in (";", "\t" if separator(where) == "," else ",", "|"):
        if sign in name:
            problem = f": is {sign!r} its separator? Expected ',' (in files called .tsv tabs)"
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(name)
    if not problem and molecule is not None and molecule.GetNumAtoms():
        problem = ", which is a SMILES: expected a first line with the names of the columns"
    if problem:
        raise ValueError(f"{where}: the only column is called {name!r}{problem}")
