"""Text files of numbers, one row on a line, with errors that name file and line."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from .download import opened
from .targets import beyond_float32, lost_in_float32

#: A file, or one inside a zip file.
Place = Path | zipfile.Path


def fail(path: Place, line: int, problem: str) -> NoReturn:
    """Raise a ``ValueError`` that names file and line (``line`` counts from 0, the message from 1)."""
    raise ValueError(f"{path}, line {line + 1}: {problem}")


def read_numbers(path: Place, missing: bool = False) -> np.ndarray:
    """The numbers of a file, with commas between those of a line: float64 ``[lines, columns]``.

    Args:
        path: The file; one whose name ends in ``.gz`` is decompressed (not inside a zip file).
        missing: A number may be missing (NaN): nothing stands there, or NaN. A blank line counts then.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line holds something else, or not as many values as the first.
    """
    if isinstance(path, zipfile.Path) and path.is_file():
        text = path.read_bytes()
    else:
        with opened(str(path)) as file:
            text = file.read()
    # Where a number may be missing, a blank line at the end is one too.
    text = text if missing else text.rstrip()
    if not text:
        return np.zeros((0, 0))
    try:
        table = pd.read_csv(
            io.BytesIO(text),
            header=None,
            dtype=np.float64,
            skipinitialspace=True,
            skip_blank_lines=False,
            quoting=csv.QUOTE_NONE,
        ).to_numpy()
    except ValueError:
        return _line_by_line(path, text, missing)
    # A value that is not there is read as NaN, and so is the end of a line that is too short.
    whole = text.count(b",") == len(table) * (table.shape[1] - 1) if missing else not np.isnan(table).any()
    return table if whole else _line_by_line(path, text, missing)


def read_integers(
    path: Place, columns: int | None = None, rows: int | None = None, of: str = "rows"
) -> np.ndarray:
    """int64 ``[lines, columns]``, like :func:`read_numbers`, with as many ``columns`` and lines as given.

    There must be as many lines as ``rows``, which is the number ``of`` something, named in the error.
    """
    values = read_numbers(path)
    if not len(values):
        values = np.zeros((0, columns or 1))
    if columns not in (None, values.shape[1]):
        fail(path, 0, f"expected {columns} value(s) on a line, got {values.shape[1]}")
    # Comparisons with NaN are false.
    if not (right := (values == np.floor(values)) & (np.abs(values) < 2**53)).all():
        line, column = np.argwhere(~right)[0]
        fail(path, line, f"expected an integer, got {values[line, column]:g}")
    if rows is not None:
        check_lines(path, values, rows, of)
    return values.astype(np.int64)


def check_range(path: Place, values: np.ndarray, least: int, most: int | None, what: str) -> None:
    """Raise a ``ValueError`` unless all values of a file are from ``least`` to ``most``."""
    outside = (values < least) | (values > (np.inf if most is None else most))
    if outside.any():
        line = np.argwhere(outside)[0][0]
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        fail(path, line, f"expected {what}, {limits}, got {values[line][outside[line]].flat[0]}")


def check_targets(path: Place, values: np.ndarray) -> None:
    """Raise a ``ValueError`` unless a float32 holds all values of a file, NaN for missing ones too."""
    if (wrong := np.argwhere(lost_in_float32(values))).size:
        line, column = wrong[0]
        expected = "a finite number of 32 bits, or NaN for a missing value"
        fail(path, line, f"expected {expected}, got {values[line, column]:g}")


def check_float32(path: Place, values: np.ndarray) -> None:
    """Raise a ``ValueError`` unless all values of a file are finite in a float32."""
    if (wrong := np.argwhere(np.isnan(values) | beyond_float32(values))).size:
        line, column = wrong[0]
        fail(path, line, f"expected a finite number of 32 bits, got {values[line, column]:g}")


def check_lines(path: Place, values: np.ndarray, expected: int, what: str) -> None:
    """Raise a ``ValueError`` unless a file has so many lines."""
    if len(values) != expected:
        raise ValueError(f"{path}: has {len(values)} lines, expected {expected}, the number of {what}")


def _line_by_line(path: Place, text: bytes, missing: bool) -> np.ndarray:
    """The same, slowly, to say which line is wrong, if one is."""
    rows: list[list[float]] = []
    for line, content in enumerate(text.splitlines()):
        values = content.split(b",")
        try:
            rows.append([float(value.strip() or b"nan") if missing else float(value) for value in values])
        except ValueError:
            shown = content.decode(errors="replace")
            fail(path, line, f"expected numbers with commas between them, got {shown[:60]!r}")
        if len(rows[-1]) != len(rows[0]):
            fail(path, line, f"expected {len(rows[0])} values as in line 1, got {len(rows[-1])}")
    return np.array(rows)
