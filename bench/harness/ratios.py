"""Tables of what is faster or smaller: rows, printed and as files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from wlkernelnn.utils.files import json_text, write_text

from .tables import items, markdown, printed
from .timing import Comparison

# compare() with the number of rounds filled in.
Timer = Callable[..., Comparison]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what, against: Our side and theirs.
        ours, theirs: Medians: work per second, or bytes.
        ratio, low, high: How many times better ours is: median, least and greatest over the rounds.
        goal: What is wanted, for people; ``""`` for nothing.
        met: Whether it was reached; ``None`` without a goal.
    """

    what: str
    against: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    goal: str = ""
    met: bool | None = None


def compared(what: str, against: str, result: Comparison, goal: float | None = None) -> Row:
    """The row of a comparison, with the least ratio that is wanted."""
    ratios = result.ratios
    ratio = float(np.median(ratios))
    return Row(
        what,
        against,
        float(np.median(result.ours)),
        float(np.median(result.theirs)),
        ratio,
        float(ratios.min()),
        float(ratios.max()),
        "" if goal is None else f"≥ {goal:g}",
        None if goal is None else ratio >= goal,
    )


COLUMNS = ("what", "against", "ours", "theirs", "ratio", "goal")


def cells(row: Row) -> tuple[str, ...]:
    """What stands in a row of the table, under ``COLUMNS``."""

    def number(value: float) -> str:
        for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= unit:
                return f"{value / unit:.3g}{name}"
        return f"{value:.3g}"

    ratio = f"{row.ratio:.3g}" if row.low == row.high else f"{row.ratio:.3g} ({row.low:.3g}–{row.high:.3g})"
    goal = row.goal if row.met is None else f"{row.goal}: {'yes' if row.met else 'no'}"
    return row.what, row.against, number(row.ours), number(row.theirs), ratio, goal


def report(
    title: str, rows: Iterable[Row], legend: str, known: dict[str, str | int], stem: Path, console: Console
) -> None:
    """Collect rows while saying which, print them, and write them as ``stem.md`` and ``stem.json``.

    Args:
        rows: May measure as they are asked for.
        known: What is to be known of the run, as of :func:`~.about.about`; read when all rows are there.
    """
    collected: list[Row] = []
    with console.status("Measuring") as status:
        for row in rows:
            collected.append(row)
            status.update(f"Measured: {row.what} against {row.against}")
    title = f"{title} ({known['mode']})"
    table = [COLUMNS, *map(cells, collected)]
    record = {**known, "rows": [asdict(row) for row in collected]}
    write_text(stem.with_suffix(".md"), f"# {title}\n\n{markdown(table, left=2)}\n{legend}\n{items(known)}")
    write_text(stem.with_suffix(".json"), json_text(record, indent=2))
    console.print(printed(table, title, left=2))
    console.print(f"Written to {stem.with_suffix('.md')} and {stem.name}.json.")
