"""Tables of networks that are trained: their options, runs that are never repeated, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from wlkernelnn.datasets.download import require_file
from wlkernelnn.files import write_text

from .about import revision

Record = dict[str, Any]


@dataclass
class TrainedOptions:
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all of the table.
        epochs: Stop after so many epochs; by default the whole recipe. A later run with more goes on.
        seeds: Seeds 0, 1, … of every model.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        run_dir: Folder of checkpoints. Runs that are finished are not repeated, and one that was interrupted
            goes on.
        output_dir: Folder of the table, as Markdown and JSON.
        accelerator: Lightning's: "auto", "cpu", "gpu", …
        matmul_precision: float32 matrix products: "highest", "high" or "medium".
        quick: One epoch of little data: only to see that everything works.
    """

    models: list[str] | None = None
    epochs: int | None = None
    seeds: int = 1
    root: str | None = None
    run_dir: Path = Path("runs")
    output_dir: Path = Path("bench/results")
    accelerator: str = "auto"
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    quick: bool = False

    def limit(self, recipe: int) -> int:
        """Epochs to train, of those of a recipe."""
        return 1 if self.quick else min(self.epochs or recipe, recipe)

    def folder(self, *names: str) -> Path:
        """Where a run lies."""
        return self.run_dir.joinpath("quick" if self.quick else "full", *names)


def glove_file(root: str | None) -> Path:
    """The word vectors that are taken where no others are given."""
    return require_file("glove/glove.6B.100d.subset.txt", root, "GloVe 6B, or give another file with --glove")


def chosen(option: str, wanted: Collection[str] | None, there: Collection[str]) -> list[str]:
    """Names that were asked for; by default all.

    Raises:
        ValueError: There is no such name.
    """
    names = list(there if wanted is None else wanted)
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"--{option}: expected any of {', '.join(there)}, got {', '.join(unknown)}")
    return names


def kept(folder: Path, epochs: int, train: Callable[[], Record]) -> Record:
    """The record of a run, from its file if it was trained for so many epochs (or to its recipe's end).

    A record has ``epochs``, those that were trained, and ``stopped``, whether the recipe ended there.

    Raises:
        ValueError: The folder holds a run, finished or not, of another revision of the source.
    """
    path, begun = folder / "result.json", folder / "revision.txt"
    record: Record | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    here = revision()
    there = (
        begun.read_text(encoding="utf-8").strip() if begun.is_file() else (record or {}).get("revision", here)
    )
    if there != here:
        raise ValueError(
            f"{folder}: holds a run of revision {there}, and this is {here}: delete it, or name another "
            "--run-dir, since a table is of one revision"
        )
    if record is not None and (record["epochs"] >= epochs or record["stopped"]):
        return record
    write_text(begun, here + "\n")
    record = train()
    write_text(path, json.dumps(record, indent=1) + "\n")
    return record


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and, of several, standard deviation, with so many digits behind the point."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def of_recipe(record: Record) -> str:
    """How many epochs the recipe of a run has, and what it was shortened from, if it was."""
    recipe, published = record["recipe"]["epochs"], record["published_epochs"]
    return str(recipe) if recipe == published else f"{recipe}, shortened from {published}"


Rows = Sequence[tuple[str, ...]]


def write_results(
    stem: Path, title: str, rows: Rows, notes: str, known: Record, runs: Sequence[Record]
) -> None:
    """Write ``stem.md``, the table, whose header is the first row, and ``stem.json``, all that is known."""
    header, *body = rows
    lines = [header, ("---", *["---:"] * (len(header) - 1)), *body]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    of_run = "".join(f"* {key}: {value}\n" for key, value in known.items())
    write_text(stem.with_suffix(".md"), f"# {title} ({known['mode']})\n\n{table}\n\n{notes}{of_run}")
    write_text(stem.with_suffix(".json"), json.dumps({**known, "runs": runs}, indent=1) + "\n")


def print_table(title: str, rows: Rows, known: Record) -> None:
    """Show the table on the terminal."""
    header, *body = rows
    table = Table(*header, title=f"{title} ({known['mode']})", box=SIMPLE_HEAD, show_edge=False)
    for cells in body:
        table.add_row(*cells)
    Console().print(table)
