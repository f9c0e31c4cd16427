"""The runs of a table of networks that are trained, and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from rich.console import Console

from .cells import Cell, Record
from .provenance import PACKAGES
from .tables import Rows, full_table, items, markdown, printed, write_page

# What is one and the same for all runs of a row.
MADE_WITH = ("revision", "device", *PACKAGES)
# The row of a run, and which one of the row it is; tables are sorted by it.
Place = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Table:
    """How runs are shown."""

    title: str
    columns: Sequence[tuple[str, Cell]]  # headers, and the cells below, each made of all runs of a row
    row: Callable[[Record], tuple[Any, ...]]  # the row of a run; rows are sorted by it
    notes: str | Callable[[list[Record]], str] = ""  # below the table
    which: Callable[[Record], tuple[Any, ...]] = lambda run: (run.get("seed", 0),)  # a run among its row's
    counted: Callable[[list[Record]], list[Record]] = list  # the runs of a row that its cells are made of

    def place(self, run: Record) -> Place:
        """Where a run stands: an ensemble behind its row."""
        return (*self.row(run), "members" in run), self.which(run)

    def rows(self, runs: Iterable[Record]) -> Rows:
        """The table, its header first."""
        of_row: dict[Any, list[Record]] = {}
        for run in runs:
            of_row.setdefault(self.row(run), []).append(run)
        header = tuple(name for name, _ in self.columns)
        counted = map(self.counted, of_row.values())
        return [header, *(tuple(cell(own) for _, cell in self.columns) for own in counted)]

    def write(self, stem: Path, known: Record, runs: list[Record]) -> Rows:
        """Write ``stem.md``, and ``stem.json``, all that is known; the rows."""
        rows = self.rows(runs)
        notes = self.notes if isinstance(self.notes, str) else self.notes(runs)
        notes += items({name: _of_runs(name, value, runs) for name, value in known.items()})
        write_page(stem, f"{self.title} ({known['mode']})", f"{markdown(rows)}\n{notes}", known, runs=runs)
        return rows


def fill(
    stem: Path,
    table: Table,
    known: Record,
    runs: Iterable[Record],
    same_data: Callable[[Record], bool] = lambda run: True,
    completed: Callable[[list[Record]], list[Record]] = list,
) -> list[Record]:
    """Write runs one by one into the files of a table, beside those that are there, and print the table.

    A table that took days is not lost to a call for one row more, or on other data, and several calls may
    fill it at a time. Rows may be of several revisions, a row is of one: where a new run has another
    revision, version of a package, precision, length or split (except random ones, drawn by every seed), the
    other runs of its row go. A quick table begins anew, but never in the place of a full one.

    Args:
        stem: Of the files.
        table: What they look like.
        known: What is known of this call.
        runs: Those of this call.
        same_data: Whether a run of the file is of the same data.
        completed: Adds to the runs what follows from them, such as ensembles.

    Returns:
        All runs, or none if this call has none.

    Raises:
        ValueError: The file has a run of a row that no longer exists or of other data, or holds a full table
            in a quick call.
    """
    full = known["mode"] == "full"
    kept = _of_file(stem, table, same_data) if full else {}
    found: list[Record] = []
    rows: Rows = []
    for run in runs:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(stem.with_name(f".{stem.name}.lock")):
            if full:  # another command may have filled the table
                kept = _of_file(stem, table, same_data)
            place = table.place(run)
            kept = {
                (row, which): other
                for (row, which), other in kept.items()
                if row != place[0] or _made_by(other) == _made_by(run)
            } | {place: run}
            found = completed([kept[place] for place in sorted(kept)])
            rows = table.write(stem, known, found)
    if rows:
        Console().print(printed(rows, f"{table.title} ({known['mode']})"))
    return found


def _of_file(stem: Path, table: Table, same_data: Callable[[Record], bool]) -> dict[Place, Record]:
    """The runs of the file, which are on the same data."""
    path = stem.with_suffix(".json")
    runs: list[Record] = full_table(path).get("runs", [])
    what_helps = "move the table away, or name another --output-dir"
    try:
        placed = {table.place(run): run for run in runs}
        others = dict.fromkeys(run["model"] for run in runs if not same_data(run))
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: has a run that this command does not know ({error}): {what_helps}"
        ) from error
    if others:
        raise ValueError(f"{path}: holds rows of other data ({', '.join(others)}): {what_helps}")
    return placed


def _made_by(run: Record) -> tuple[Any, ...]:
    """What is one and the same in a row."""
    recipe: Record = run.get("training") or run.get("recipe") or {}
    # Only random splits are drawn anew by every seed.
    split = None if run.get("split") == "random" else run.get("split_sha256")
    return recipe.get("matmul_precision"), recipe.get("epochs"), split, made_with(run)


def made_with(run: Record) -> tuple[Any, ...]:
    """Which source, device and packages a run is of."""
    return tuple(run.get(name) for name in MADE_WITH)


def on_same_data(part: str, contents: Mapping[str, str]) -> Callable[[Record], bool]:
    """Whether a run is on the data of this call, or on others, see :func:`fill`.

    The entry ``part`` of a run names its data, and ``contents`` has its ``content`` by that name.
    """

    def same_data(run: Record) -> bool:
        here = contents.get(run.get(part, ""))
        return here is None or run.get("content", here) == here

    return same_data


def _of_runs(name: str, value: Any, runs: Sequence[Record]) -> str:
    """What is known of the runs of a table: once, or, where they differ, with the rows that it is of."""
    if name in ("mode", "time") or not any(run.get(name) for run in runs):  # those of the table
        return str(value)
    rows_of: dict[str, dict[str, None]] = {}
    several = len({run.get("split") for run in runs}) > 1
    for run in runs:
        if "members" in run and not run.get(name):
            continue  # made with what its members were
        row = f"{run['split']} {run['model']}" if several else run["model"]
        rows_of.setdefault(str(run.get(name) or "not recorded"), {})[row] = None
    if len(rows_of) == 1:
        return next(iter(rows_of))
    found = "; ".join(f"{of_rows} ({', '.join(models)})" for of_rows, models in rows_of.items())
    # A recipe may have changed since.
    return f"{found}; what is said above is of {value}" if name == "revision" else found
