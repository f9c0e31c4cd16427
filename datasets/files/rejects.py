"""The file of the rows that gave no molecule."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wlkernelnn.utils.files import csv_text, write_text


def is_missing(value: object) -> bool:
    """Whether a cell is empty: not one with the word nan."""
    return not isinstance(value, str) and str(value) in ("None", "nan", "<NA>", "NaT")


class Reject(NamedTuple):
    """An input row that was left out: its number (from 0), the SMILES or text that stood there, and why."""

    row: int
    smiles: object
    reason: str


def write_rejects(
    path: str | os.PathLike[str], rejects: Sequence[Reject], header: bool = True, column: str = "smiles"
) -> None:
    """Write rejected rows as CSV with the columns ``row``, ``smiles`` (or ``column``) and ``reason``.

    ``row`` is the data row, counted from 1 as in all messages. Without rejects the file is only the header.
    """
    rows = [(row + 1, "" if is_missing(cell) else cell, reason) for row, cell, reason in rejects]
    write_text(path, csv_text([("row", column, "reason"), *rows] if header else rows))


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def listed(head: str, rejects: Sequence[Reject], place: Callable[[int], str]) -> str:
    """``head``, and the first rejected rows, each on a line; ``place`` names a row."""
    shown = [f"{place(row)}: {_short(repr(cell))}: {reason}" for row, cell, reason in rejects[:3]]
    if len(rejects) > len(shown):
        shown.append(f"and {len(rejects) - len(shown):,} more")
    return "\n  ".join([head, *shown])
