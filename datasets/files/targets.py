"""Columns of targets: numbers, bounds and classes; what float32 keeps of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .table import place
from .table_chunks import require_columns

logger = logging.getLogger("wlkernelnn")

MISSING = frozenset({"", "nan", "na", "<na>", "n/a", "#n/a", "null", "none"})
# Such as >10 or <= 0.1, of what was not measured beyond.
_CENSORED = re.compile(r"\s*(<|>|≤|≥|~|=<|=>)=?\s*[-+.\d]")
_BOUND = re.compile(r"^\s*=?([<>≤≥])=?\s*([-+.\d].*)$")
BOOLEAN = {"true": "1", "false": "0"}


def numeric_targets(frame: pd.DataFrame, columns: Sequence[str], source: object) -> np.ndarray:
    """Columns of numbers as one array.

    Blank cells, NaN, and the words nan, na, n/a, null and none (any case) are missing values; true and
    false (any case), such as columns of booleans hold, are 1 and 0.

    Args:
        frame: The table.
        columns: Names of T columns.
        source: What the table is called in errors, such as its path.

    Returns:
        float64 ``[len(frame), T]``, NaN where missing.

    Raises:
        ValueError: A column is missing, a cell holds something that is not a finite number within the range
            of float32, or the numbers of a column have more digits in common than float64 has.
    """
    return _targets(frame, columns, source, "a finite number of 32 bits, or nothing for a missing value")


def binary_targets(frame: pd.DataFrame, columns: Sequence[str], source: object) -> np.ndarray:
    """Like :func:`numeric_targets`, for classification: every value is 0, 1 or missing."""
    return _targets(
        frame, columns, source, "0 or 1 (or false or true), or nothing for a missing label", binary=True
    )


def without_bounds(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with the numbers of bounds such as ``>10`` and ``<= 0.1``, and which cells are bounds.

    Returns:
        The table; and int8 ``[len(frame), T]``: 1 of a value that is at least the number, −1 of one that is
        at most it, 0 of measured values.
    """
    sides = np.zeros((len(frame), len(columns)), np.int8)
    frame = frame.copy()
    for j, name in enumerate(columns):
        if name in frame and not pd.api.types.is_numeric_dtype(frame[name].dtype):
            found = frame[name].astype(str).str.extract(_BOUND)
            there = found[0].notna().to_numpy()
            sides[:, j] = np.where(found[0].isin(("<", "≤")), -1, 1) * there
            frame[name] = frame[name].astype(object).where(~there, found[1])
    return frame, sides


def class_targets(
    frame: pd.DataFrame, column: str, source: object, classes: Sequence[str] | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """A column of classes by name.

    Names are texts or whole numbers, which are sorted as numbers. Missing values are those of
    :func:`numeric_targets`, unless they are among the ``classes``; such words are counted in a warning.

    Args:
        frame: The table.
        column: Name of the column.
        source: What the table is called in errors.
        classes: The names, where they are known; default those in the column, sorted.

    Returns:
        float64 ``[len(frame), 1]``, the class of each row, counted from 0, NaN where missing; and the names.

    Raises:
        ValueError: The column is missing, a cell is none of the ``classes``, or, without them, there are
            less than two or more than a class for every two rows, or numbers that are not whole.
    """
    require_columns([column], list(frame.columns), source)
    where, cells = f"{source}: column {column!r}", frame[column]
    names = cells.astype(str).str.strip()
    known = set(classes or ())
    missing = (cells.isna() | (names.str.lower().isin(MISSING) & ~names.isin(known))).to_numpy(dtype=bool)
    words = names[missing & cells.notna().to_numpy() & (names != "").to_numpy()]
    if len(words):
        logger.warning(
            f"{where}: {len(words):,} cells such as {words.iloc[0]!r} are read as missing values; a class "
            "needs another name"
        )
    if classes is None:
        names[~missing], classes = _found(names[~missing], where)
    else:
        values = [_value(name) for name in classes]
        of_value = {
            value: name for value, name in zip(values, classes, strict=True) if values.count(value) == 1
        }
        names = names.map({cell: _named(cell, known, of_value) for cell in names.unique()})
    numbered = names.map({name: float(number) for number, name in enumerate(classes)})
    code = np.where(missing, np.nan, numbered.to_numpy(np.float64))
    if len(unknown := np.flatnonzero(np.isnan(code) & ~missing)):
        shown, row = ", ".join(map(str, classes)), int(unknown[0])
        raise ValueError(
            f"{where}: {place(frame, row)}: {str(cells.iloc[row]).strip()!r} is none of the classes {shown}"
            + (f" (and {len(unknown) - 1:,} more rows)" if len(unknown) > 1 else "")
        )
    return code[:, None], tuple(classes)


def _found(names: pd.Series, where: str) -> tuple[np.ndarray, list[str]]:
    """The classes of cells, and all there are, sorted: numbers as numbers."""
    numbers = pd.to_numeric(names, errors="coerce")
    if len(numbers) and numbers.notna().all():
        if len(broken := numbers[numbers % 1 != 0]):
            raise ValueError(
                f"{where}: expected classes, names or whole numbers, got {broken.iloc[0]:g}: a regression?"
            )
        written = [f"{number:.0f}" for number in numbers]
        given = names.str.replace(r"\.0*$", "", regex=True)
        if given.nunique() != len({*written}):
            written = given.tolist()  # 01 is not 1, and 64 bits do not tell long numbers apart
        names = pd.Series(written, dtype=object)
        found = sorted({*written}, key=lambda name: (float(name), name))
    else:
        found = sorted(set(names))
    if len(found) < 2 or 2 * len(found) > max(4, len(names)):
        few = "at least two" if len(found) < 2 else "at most one for every two rows"
        raise ValueError(f"{where}: expected classes, {few}, got {len(found):,} in {len(names):,} rows")
    return names.to_numpy(object), found


def _named(cell: str, known: Collection[str], of_value: Mapping[Decimal | None, str]) -> str:
    """The class of a cell: as it is written, without ``.0``, or by value; the cell itself if of none."""
    if cell in known or (value := _value(cell)) is None:
        return cell
    if (plain := re.sub(r"\.0*$", "", cell)) in known:
        return plain
    if value != value.to_integral_value() and value not in of_value:
        value = Decimal(f"{float(value):g}")  # a float32 of 0.1 has other digits in 64 bits
    return of_value.get(value, cell)


def _value(name: str) -> Decimal | None:
    """The number that a name says, if it says one."""
    try:
        value = Decimal(name)
    except ArithmeticError:
        return None
    return value if value.is_finite() else None


def beyond_float32(values: np.ndarray) -> np.ndarray:
    """Mark values that would be infinite in a float32; NaN stands for a missing value and is not marked."""
    return np.abs(values) > np.finfo(np.float32).max


def lost_in_float32(values: np.ndarray) -> np.ndarray:
    """Which values would be infinite in a float32, or 0 or short of digits, though they are not 0."""
    return beyond_float32(values) | ((values != 0) & (np.abs(values) < np.finfo(np.float32).tiny))


def float32_resolves(largest: ArrayLike, deviation: ArrayLike) -> np.ndarray:
    """Whether float32 rounds values up to the ``largest`` by at most 1/10,000 of their standard deviation."""
    return _resolves(np.float32, largest, deviation)


def _resolves(kind: type[np.floating], largest: ArrayLike, deviation: ArrayLike) -> np.ndarray:
    half_step = np.spacing(np.abs(largest).astype(kind)).astype(np.float64) / 2
    return np.asarray((half_step <= 1e-4 * np.asarray(deviation)) | (np.asarray(deviation) == 0))


def kept_by_float32(values: np.ndarray) -> np.ndarray:
    """Which columns of numbers ``[n, T]``, NaN where missing, float32 keeps apart, ``[T]``.

    See :func:`float32_resolves`. Total energies, for example, differ by less than float32 can tell.
    """
    return np.array(
        [bool(float32_resolves(*_largest_and_deviation(column))) for column in values.T], dtype=bool
    )


def _largest_and_deviation(column: np.ndarray) -> tuple[float, float]:
    known = column[~np.isnan(column)].astype(np.float64)
    if not known.size or not np.ptp(known):
        return 0.0, 0.0
    return float(np.abs(known).max()), float(known.std())


def _lost_digits(text: pd.Series, values: np.ndarray) -> int | None:
    """The position of a number that float64 alters by much of the column's deviation, if there is one."""
    largest, deviation = _largest_and_deviation(values)
    digits = text.str.len().to_numpy() > 15
    if not digits.any() or (deviation and _resolves(np.float64, largest, deviation)):
        return None
    for row in np.flatnonzero(digits & np.isfinite(values)).tolist():
        if Decimal(text.iloc[row]) != Decimal(repr(float(values[row]))):
            return int(row)
    return None


def _targets(
    frame: pd.DataFrame, columns: Sequence[str], source: object, expected: str, binary: bool = False
) -> np.ndarray:
    require_columns(columns, list(frame.columns), source)
    result = np.empty((len(frame), len(columns)))
    for j, name in enumerate(columns):
        cells, vanished = frame[name], np.zeros(len(frame), dtype=bool)
        missing = cells.isna().to_numpy(dtype=bool)
        if pd.api.types.is_complex_dtype(cells.dtype):
            raise ValueError(f"{source}: column {name!r}: expected real numbers, got {cells.dtype}")
        if not pd.api.types.is_numeric_dtype(cells.dtype):
            text = cells.astype(str).str.strip().str.lower()
            missing = missing | text.isin(MISSING).to_numpy(dtype=bool)
            numbers = text.replace(BOOLEAN)
            is_number = pd.to_numeric(numbers, errors="coerce").notna()
            # Python reads what stands there to the last bit; pandas 2 does not.
            cells = numbers.where(is_number).map(float, na_action="ignore").astype(np.float64)
            # Such as 1e-400, which a float64 cannot hold either.
            vanished = (cells == 0).to_numpy() & text.str.contains("^[^e]*[1-9]").to_numpy()
        elif pd.api.types.is_integer_dtype(cells.dtype):
            text = cells.astype(str)
        else:
            text = pd.Series(dtype=str)
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        lost = ~np.isin(values, (0, 1)) if binary else lost_in_float32(values)
        if len(wrong := np.flatnonzero((np.isnan(values) | lost | vanished) & ~missing)):
            cell = frame[name].iloc[wrong[0]]
            shown = repr(cell) if isinstance(cell, str) else cell
            more = f" (and {len(wrong) - 1:,} more in this column)" if len(wrong) > 1 else ""
            bounds = [row for row in wrong.tolist() if _CENSORED.match(str(frame[name].iloc[row]))]
            if bounds and not binary:
                rows = ", ".join(place(frame, row) for row in bounds[:5]) + (", …" if len(bounds) > 5 else "")
                first = str(frame[name].iloc[bounds[0]])
                learned = ", or have networks learn from bounds (censored)" if _BOUND.match(first) else ""
                raise ValueError(
                    f"{source}: column {name!r}: {len(bounds):,} cells are bounds and not values, such as "
                    f"{first!r}: {rows}; leave these rows out or their cells blank, or give values for "
                    f"them{learned}"
                )
            where = f"{source}: {place(frame, int(wrong[0]))}, column {name!r}"
            words = not binary and np.isnan(values).all()
            hint = " (task classification takes names of classes)" if words else ""
            raise ValueError(f"{where}: expected {expected}, got {shown}{more}{hint}")
        if len(text) and not binary and (row := _lost_digits(text, values)) is not None:
            where = f"{source}: {place(frame, row)}, column {name!r}"
            raise ValueError(
                f"{where}: 64 bits cannot tell the values of this column apart, such as {text.iloc[row]}: "
                "subtract a constant from all of them"
            )
        result[:, j] = values
    return result
