"""Benchmarks that measure row by row, above all how many times faster or smaller ours is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.console import Console

from wlkernelnn.cli.options import PositiveInt

from .options import TableOptions, parsed
from .provenance import about
from .tables import Rows, check_rows, items, markdown, printed, write_page
from .timing import race, torch_settings

Known = dict[str, str | int]

COLUMNS = ("what", "against", "ours", "theirs", "ratio", "goal")
TURNS = """Both sides take turns. Figures are medians over the rounds; of the ratio, taken round by round, the
least and greatest stand in brackets.

"""


@dataclass(frozen=True)
class Ratio:
    """A row of a table of ratios: how many times better our side is than theirs."""

    what: str
    against: str
    # Medians: work per second, or bytes.
    ours: float
    theirs: float
    # Median, least and greatest over the rounds.
    ratio: float
    low: float
    high: float
    goal: str = ""
    met: bool | None = None  # None without a goal

    @property
    def cells(self) -> tuple[str, ...]:
        """The row under ``COLUMNS``."""
        ratio = f"{self.ratio:.3g}"
        if self.low != self.high:
            ratio += f" ({self.low:.3g}–{self.high:.3g})"
        goal = self.goal if self.met is None else f"{self.goal}: {'yes' if self.met else 'no'}"
        return self.what, self.against, _number(self.ours), _number(self.theirs), ratio, goal


def _number(value: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def compared(
    what: str, against: str, ours: np.ndarray, theirs: np.ndarray, goal: float | None = None
) -> Ratio:
    """The row of two sides' rates in every round, with the least ratio that is wanted.

    Rates of one round are neighbours in time, so that load hits both.
    """
    ratios = ours / theirs
    rates = float(np.median(ours)), float(np.median(theirs))
    ratio = float(np.median(ratios))
    row = Ratio(what, against, *rates, ratio, float(ratios.min()), float(ratios.max()))
    return row if goal is None else replace(row, goal=f"≥ {goal:g}", met=ratio >= goal)


def raced(
    what: str,
    against: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    work: float,
    goal: float | None = None,
    their_work: float | None = None,
    **turns: Any,
) -> Ratio:
    """The row of two calls that do the same work, or each its own."""
    rates = race([ours, theirs], [work, their_work or work], **turns)
    return compared(what, against, rates[0], rates[1], goal)


# raced() with the turns filled in.
RaceOf = Callable[..., Ratio]


@dataclass
class RaceOptions(TableOptions):
    """How contestants take turns, and where results go.

    Args:
        threads: Threads of torch.
        rounds: Turns of each contestant; of a quick run always 2.
    """

    threads: PositiveInt = 2
    rounds: PositiveInt = 5

    def race(self, min_seconds: float) -> RaceOf:
        """:func:`raced` with these rounds and turns of (about) so long; of a quick run, less of both."""
        rounds, min_seconds = (2, 0.02) if self.quick else (self.rounds, min_seconds)
        return partial(raced, rounds=rounds, min_seconds=min_seconds)


def ratios(rows: Sequence[Ratio]) -> Rows:
    """The table of ratios, its header first."""
    return [COLUMNS, *(row.cells for row in rows)]


@dataclass(frozen=True)
class Race:
    """A benchmark that measures one row after the other, with torch's seed 0 and its option ``threads``."""

    name: str  # as `wlkernelnn benchmark` knows it
    about: str | None  # for --help
    options: type[TableOptions]
    title: str
    legend: str  # below the table
    measure: Callable[[Any, Known], Iterator[Any]]  # yields the rows; may add to what is known of the run
    packages: tuple[str, ...] = ()  # that the figures depend on, beside those of every benchmark
    show: Callable[[list[Any]], Rows] = ratios  # the table of all rows, its header first
    entry: str = "rows"  # name of the rows in the JSON file

    def main(self, argv: list[str] | None = None) -> None:
        """Measure, print the table, and write it as Markdown and JSON.

        Raises:
            ValueError: A full table that is there has rows that were not measured now.
        """
        options = parsed(self.name, self.about, self.options, argv)
        known = about(self.name, argv, options.quick, self.packages)
        threads = getattr(options, "threads", None)
        if threads is not None:
            known["threads"] = threads
        on_gpu = getattr(options, "device", "cpu") != "cpu"
        if on_gpu:
            known["device"] = torch.cuda.get_device_name()
        console, rows = Console(), []
        with console.status("Measuring") as status, torch_settings(threads or torch.get_num_threads()):
            torch.manual_seed(0)
            for row in self.measure(options, known):
                rows.append(row)
                status.update(f"Measured: {', '.join(map(str, list(asdict(row).values())[:2]))}")
        title, table = f"{self.title} ({known['mode']})", self.show(rows)
        stem = options.output_dir / (self.name.replace("-", "_") + "_gpu" * on_gpu)
        turns = TURNS if self.show is ratios else ""
        body = f"{markdown(table, left=2)}\n{turns}{self.legend}\n{items(known)}"
        console.print(printed(table, title, left=2))
        entries = [asdict(row) for row in rows]
        check_rows(stem, known, self.entry, [tuple(entry.values())[:2] for entry in entries])
        write_page(stem, title, body, known, **{self.entry: entries})
        console.print(f"Written to {stem}.md and {stem.name}.json.")
