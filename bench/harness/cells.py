"""What stands in the cells of a table of runs: means over seeds, counts, and what diverged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Record = dict[str, Any]
# The text of a cell, from the runs of its row.
Cell = Callable[[list[Record]], str]


def first(name: str) -> Cell:
    """The entry ``name`` of the first run."""
    return lambda runs: str(runs[0][name])


def scored(name: str, scale: float = 1, digits: int = 1) -> Cell:
    """Mean and standard deviation of an entry over the runs, see :func:`cell`."""
    return lambda runs: cell([scale * run[name] for run in survivors(runs)], runs, digits)


def thousands(name: str) -> Cell:
    """The entry ``name`` of the first run, in thousands."""
    return lambda runs: f"{runs[0][name] / 1e3:.0f}k"


def seeds(default: int) -> Cell:
    """How many runs there are, and how many the benchmark trains by default, if it has fewer."""
    return lambda runs: out_of(len(runs), default)


def number(name: str) -> Cell:
    """The entry ``name`` of the first run, a large number."""
    return lambda runs: f"{runs[0][name]:,}"


def count(runs: Sequence[Record]) -> str:
    return str(len(runs))


def epochs(whole: str) -> Cell:
    """How many epochs were trained, and the entry ``whole``, those of the recipe, if it has more."""
    return lambda runs: out_of(epochs_of(runs), runs[0][whole])


def of_networks(cell: Cell) -> Cell:
    """A cell of rows that have epochs."""
    return lambda runs: cell(runs) if runs[0]["recipe_epochs"] else "–"


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and, of several, standard deviation, with so many digits behind the point."""
    # A file has null for NaN.
    values = np.array(values, dtype=float).tolist()
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def survivors(runs: Sequence[Record]) -> list[Record]:
    """The runs that did not diverge."""
    return [run for run in runs if "diverged" not in run]


def cell(values: Sequence[float], runs: Sequence[Record], digits: int = 1) -> str:
    """Mean and standard deviation of the survivors' values, and how many of all runs diverged."""
    ended = sorted({run["diverged"] + 1 for run in runs if "diverged" in run})
    if not ended:
        return spread(values, digits)
    if not values:
        return f"diverged at epoch {', '.join(map(str, ended))}"
    return f"{spread(values, digits)} ({len(runs) - len(survivors(runs))} of {len(runs)} runs diverged)"


def epochs_of(runs: Sequence[Record]) -> int:
    """The fewest of a survivor, or, where there are none, of all."""
    return min(run["epochs"] for run in survivors(runs) or runs)


def seconds_per_epoch(runs: Sequence[Record], digits: int = 0) -> str:
    """Mean over the survivors."""
    values = [run["seconds"] / run["epochs"] for run in survivors(runs)]
    return f"{np.mean(values):.{digits}f}" if values else "–"


def out_of(count: int, whole: int) -> str:
    """A count, of seeds or epochs, and the whole number, if there are fewer."""
    return str(count) if count >= whole else f"{count} of {whole:,}"


def of_recipe(run: Record) -> str:
    """How many epochs the recipe of a run has, and what it was shortened from, if it was."""
    recipe, published = run["recipe"]["epochs"], run["published_epochs"]
    return str(recipe) if recipe == published else f"{recipe}, shortened from {published}"
