"""The first sheet of an Excel workbook as a table of texts."""

from __future__ import annotations

import datetime
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

logger = logging.getLogger("wlkernelnn")


def workbook_rows(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The rows of the first visible sheet: the row of the sheet of each, and its cells; first the header.

    Numbers have as many digits as the file has, dates are written as 2026-11-26, formulas are the values that
    Excel saved. Rows without any value are left out.

    Raises:
        ImportError: openpyxl is not installed.
        ValueError: The file is not a workbook, its sheet is empty, or a row goes beyond the header.
    """
    with closing(_opened(path)) as book:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
        if len(sheets) > 1:
            _tell(path, tuple(sheet.title for sheet in sheets))
        sheet = sheets[0]
        sheet.reset_dimensions()  # some programs write wrong ones
        width, number = 0, 0
        for line, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = _texts(values)
            if not cells:
                continue
            if len(cells) > width > 0:
                row = f"data row {number + 1} (row {line} of the sheet)"
                raise ValueError(f"{path}: {row} has {len(cells)} cells, expected {width}")
            width, number = width or len(cells), number + 1 if width else 0
            yield line, (*cells, *[""] * (width - len(cells)))
        if not width:
            raise ValueError(f"{path}: the sheet {sheet.title!r} is empty")


def _opened(path: Path) -> Any:
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{path}: Excel needs openpyxl: pip install 'wlkernelnn[excel]', or save the sheet as CSV"
        ) from error
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is not read
            return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{path}: not an Excel workbook, or one with a password ({error}); save the sheet as CSV"
        ) from error


@cache
def _tell(path: Path, titles: Sequence[str]) -> None:
    """Say once which sheet is read."""
    logger.warning(f"{path}: reads the first of {len(titles)} sheets, {titles[0]!r}; not {titles[1:]}")


def _texts(values: Sequence[object]) -> list[str]:
    """Cells as texts, without blank ones at the end."""
    cells = [_text(value) for value in values]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
