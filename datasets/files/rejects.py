"""The files of the rows that gave no molecule, and of those that standardisation changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wlkernelnn.utils.files import csv_text, write_text


def is_missing(value: object) -> bool:
    """Whether a cell is empty: not one with the word nan."""
    return not isinstance(value, str) and str(value) in ("None", "nan", "<NA>", "NaT")


@dataclass(frozen=True)
class Unreadable:
    """What stands in the place of a SMILES where a molecule in another form gives none.

    Attributes:
        text: Its name, if it has one.
        reason: Why.
    """

    text: str
    reason: str


def as_text(cell: object) -> object:
    """A cell as lists of rejected rows show it."""
    return cell.text if isinstance(cell, Unreadable) else cell


class Reject(NamedTuple):
    """An input row that was left out: its number (from 0), the SMILES or text that stood there, and why."""

    row: int
    smiles: object
    reason: str


#: The file of a run folder that lists molecules which standardisation changed.
CHANGES = "standardized.csv"


class Change(NamedTuple):
    """A molecule that standardisation changed: its row (from 0), SMILES before and after, and the steps."""

    row: int
    before: str
    after: str
    steps: tuple[str, ...]


def counted(changes: Sequence[Change], number: int) -> str:
    """How many of so many molecules were changed, and by which steps."""
    steps = Counter(step for change in changes for step in change.steps)
    each = ", ".join(f"{step} {count:,}" for step, count in sorted(steps.items()))
    return f"standardized: {len(changes):,} of {number:,} molecules changed{each and f' ({each})'}"


def write_changes(path: str | os.PathLike[str], changes: Sequence[Change]) -> None:
    """Write standardized molecules as CSV: ``row``, counted from 1, ``before``, ``after``, ``steps``."""
    rows = [(row + 1, before, after, " ".join(steps)) for row, before, after, steps in changes]
    write_text(path, csv_text([Change._fields, *rows]))


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
