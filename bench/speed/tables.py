"""The tables of the speed benchmark: each knows its setting and its run, and can be measured again alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.tables import Rows, items, markdown
from wlkernelnn.bench.harness.trained import chosen
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import MOLECULE_SETS, PackedGraphs, load_molecules
from wlkernelnn.utils.files import json_text, read_json, write_text

Setting = dict[str, Any]
Records = list[dict[str, Any]]


@dataclass
class Options(TableOptions):
    """What to measure, and where results go.

    Args:
        quick: Few molecules, sizes and rounds, and one setting: only to see that everything works.
        parts: Parts of the benchmark; default all.
        datasets: Names of published data sets.
        threads: Numbers of threads of torch; default all cores, and 1.
        precisions: Of float32 matrix products: "highest", "high", "medium".
        readouts: Of our network: "sum" walks in every iteration (the paper), "last" in the last one only.
        rounds: Turns of each contestant.
        molecules: Take so many molecules of a data set at most.
        device: "cpu", or "cuda": then the tables are those of a file "speed_gpu", by default of the parts
            "step", "epoch", "inference" and "data"; in "data" only the sums are timed.

    Raises:
        ValueError: There is no such data set, precision or readout.
    """

    parts: list[str] | None = None
    datasets: list[str] = field(default_factory=lambda: ["cep", "hiv"])
    threads: list[PositiveInt] | None = None
    precisions: list[str] = field(default_factory=lambda: ["highest", "medium"])
    readouts: list[str] = field(default_factory=lambda: ["sum"])
    rounds: PositiveInt = 5
    molecules: PositiveInt = 32_768
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.datasets = chosen("datasets", self.datasets, MOLECULE_SETS)
        self.precisions = chosen("precisions", self.precisions, ("highest", "high", "medium"))
        self.readouts = chosen("readouts", self.readouts, ("sum", "last"))

    def sizes(self, full: tuple[int, ...]) -> tuple[int, ...]:
        """Batch sizes."""
        return (16, 64) if self.quick else full

    def turns(self, min_seconds: float) -> dict[str, Any]:
        """The arguments of a race; a quick run has its own."""
        rounds, min_seconds = (2, 0.02) if self.quick else (self.rounds, min_seconds)
        return {"rounds": rounds, "min_seconds": min_seconds}

    def shortening(self, taken: int | None = None) -> Setting:
        """A part of the setting that keeps a table by few molecules or rounds, or of a GPU, apart.

        Args:
            taken: How many molecules there were; ``None`` where the setting has them anyway.
        """
        molecules: Setting = {} if self.device == "cpu" else {"device": torch.cuda.get_device_name()}
        if taken is not None and self.molecules != Options.molecules:
            molecules["molecules"] = taken
        rounds = {} if self.quick or self.rounds == Options.rounds else {"rounds": self.rounds}
        return molecules | rounds


def settings(options: Options, *names: str) -> Iterator[Setting]:
    """All combinations of these: ``"dataset"``, ``"threads"``, ``"precision"``, ``"readout"``."""
    values: dict[str, Sequence[str | int]] = {
        "dataset": options.datasets,
        "threads": options.threads or sorted({os.cpu_count() or 1, 1}, reverse=True),
        "precision": options.precisions,
        "readout": options.readouts,
    }
    choices = [values[name][:1] if options.quick else values[name] for name in names]
    return (dict(zip(names, values, strict=True)) for values in product(*choices))


def sample(dataset: str, molecules: int) -> PackedGraphs:
    """So many molecules of a published data set at most, in random order, the same every time."""
    whole = load_molecules(dataset)
    return whole[np.random.default_rng(0).permutation(len(whole))[:molecules]]


@dataclass(frozen=True)
class Table:
    """The measurements in one setting."""

    part: str  # of the benchmark
    setting: Setting
    records: Records  # in the form of the part
    run: dict[str, str | int]  # that it comes from, see `about` of the harness

    @property
    def title(self) -> str:
        return ", ".join([self.part, *(f"{name} {value}" for name, value in self.setting.items())])


@dataclass(frozen=True)
class Part:
    """One part of the benchmark."""

    legend: str
    measure: Callable[[Options], Iterator[tuple[Setting, Records]]]
    cells: Callable[[Table], Rows]  # of a table, the header first


def pivot(
    records: Records, row: str, column: str, columns: Iterable[Any], cell: Callable[[Any], str]
) -> dict[Any, list[str]]:
    """For each value of the entry ``row`` its cells, one for each value of the entry ``column``."""
    found = {(record[row], record[column]): record for record in records}
    return {
        name: [cell(found[name, value]) if (name, value) in found else "–" for value in columns]
        for name in dict.fromkeys(record[row] for record in records)
    }


def rounded(rates: np.ndarray) -> list[float]:
    """Rates of all rounds for a record."""
    return [float(f"{rate:.5g}") for rate in rates]


def shown(rates: Sequence[float] | np.ndarray, number: str = ",.0f") -> str:
    """Median of the rounds' rates, with half the range in per cent of it."""
    median = float(np.median(rates))
    return f"{median:{number}} ±{50 * (max(rates) - min(rates)) / median:.0f} %"


def read_tables(path: Path) -> list[Table]:
    """Tables of an earlier run; none if there was none."""
    return [Table(**table) for table in read_json(path)["tables"]] if path.exists() else []


def merged(old: Iterable[Table], new: Iterable[Table], order: Sequence[str]) -> list[Table]:
    """All tables, new ones in the place of old ones of the same part and setting, by the order of parts."""
    tables = {table.title: table for table in (*old, *new)}
    return sorted(tables.values(), key=lambda table: order.index(table.part))


def write_tables(tables: Sequence[Table], parts: Mapping[str, Part], about: str, stem: Path) -> None:
    """Write ``stem.json`` and ``stem.md``, which begins with what it is ``about``."""
    write_text(stem.with_suffix(".json"), json_text({"tables": [asdict(one) for one in tables]}, indent=1))
    runs: list[dict[str, str | int]] = []
    for table in tables:
        if table.run not in runs:
            runs.append(table.run)
    mode = "quick" if any(run["mode"] == "quick" for run in runs) else "full"
    text = [f"# Speed and memory ({mode})", "", about]
    for name in dict.fromkeys(table.part for table in tables):
        text += [f"## {name}", "", parts[name].legend]
        for table in tables:
            if table.part == name:
                text += [f"### {table.title} (run {runs.index(table.run) + 1})", ""]
                text += [markdown(parts[name].cells(table))]
    for number, run in enumerate(runs, 1):
        text += [f"## run {number}", "", items(run)]
    write_text(stem.with_suffix(".md"), "\n".join(text))
