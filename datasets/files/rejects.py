"""The file of the rows that gave no molecule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from wlkernelnn.utils.files import csv_text, write_text


def is_missing(value: object) -> bool:
    """Whether a cell is empty: not one with the word nan."""
    return not isinstance(value, str) and str(value) in ("None", "nan", "<NA>", "NaT")


class Reject(NamedTuple):
    """An input row that gave no graph: its number (from 0), what stood there, and why it was left out."""

    row: int
    smiles: object
    reason: str


def write_rejects(path: str | os.PathLike[str], rejects: Sequence[Reject], header: bool = True) -> None:
    """Write rejected rows as CSV with the columns ``row``, ``smiles`` and ``reason``.

    ``row`` is the data row, counted from 1 as in all messages. Without rejects the file is only the header.
    """
    rows = [(row + 1, "" if is_missing(smiles) else smiles, reason) for row, smiles, reason in rejects]
    write_text(path, csv_text([Reject._fields, *rows] if header else rows))
