"""Seconds of training until an error is reached: our networks, GINE and chemprop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from wlkernelnn.bench.baselines.accuracy_runs import (
    BY_NODES,
    CONTESTANTS,
    DROPOUT,
    MEMORY,
    PARAMETERS,
    WARM_UP,
    Contestant,
    Training,
    speeds,
    taking_part,
    titles_and_sizes,
)
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.options import TableOptions, parsed
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.harness.provenance import about
from wlkernelnn.bench.harness.tables import Rows, check_rows, items, markdown, printed, write_page
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.bench.harness.trained import begin
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import load_molecules, random_split
from wlkernelnn.utils.files import atomic_path

QUICK_MOLECULES = 300
#: By how many times ours are to be faster, to each level.
GOALS = {"GINE by nodes": 4.0, "chemprop": 8.0}
WITH_GOALS = ("WL kernel network", "GINE by colours")


@dataclass(frozen=True)
class Task:
    """A data set and what is to be reached."""

    metric: str
    unit: str
    levels: tuple[float, ...]  # of the error on the validation part, falling
    features: str


TASKS = {
    "cep": Task("rmse", "%", (1.1, 1.0, 0.95), "duvenaud"),
    "organic_ri": Task("mae", "bohr³", (3.0, 1.6), "ogb"),
}


@dataclass
class Options(TableOptions):
    """Who takes part, how long, and where results go.

    Args:
        dataset: The molecules: cep, power conversion efficiencies, or organic_ri, polarizabilities.
        contestants: wl, stack, gine, chemprop; by default all, chemprop if it is installed.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        run_dir: Folder of trainings: what is there is not repeated, and goes on.
        turn: Seconds of a processor for each learning rate; the better half goes on for as many,
            three times as many for chemprop.
        cap: Most seconds of a processor for a training; seven times as many for chemprop.
        rounds: Turns in which speeds are measured.
    """

    dataset: Literal["cep", "organic_ri"] = "cep"
    contestants: list[str] | None = None
    root: str | None = None
    run_dir: Path = Path("runs/time_to_accuracy")
    turn: PositiveInt = 20
    cap: PositiveInt = 600
    rounds: PositiveInt = 5


@dataclass(frozen=True)
class Curve:
    """A network that was trained in batches of one size with its best learning rate."""

    title: str
    batch_size: int
    lr: float
    parameters: int
    tried: list[tuple[float, int, float]]  # learning rates: molecules and error, as compared
    checks: list[tuple[int, float, float]]  # molecules, seconds as they were, error on the validation part
    test: float  # error on the test part at the end
    rates: list[float]  # molecules per second of a processor, turn by turn

    @property
    def rate(self) -> float:
        return float(np.median(self.rates))

    def seconds(self, level: float) -> tuple[float, bool]:
        """Seconds until the level was reached, and whether it was: else those of the whole training."""
        at = next((molecules for molecules, _, error in self.checks if error <= level), None)
        return (self.checks[-1][0] if at is None else at) / self.rate, at is not None


def curves(options: Options, task: Task, split: Split, known: Record) -> Iterator[Curve]:
    """Train all, and measure how fast each trains."""
    trained: list[tuple[str, Contestant, Training, list[tuple[float, int, float]]]] = []
    for name in taking_part(options.contestants):
        who = CONTESTANTS[name]
        for size in who.rates:
            own, tried = best_of(name, who, size, options, task, split, known)
            trained.append((who.title, who, own, tried))
            if name == "gine":
                trained.append((BY_NODES.title, BY_NODES, own, tried))
    # Speeds are of trainings that begin anew.
    fresh = [Training(who, split, task.metric, own.batch_size, own.lr) for _, who, own, _ in trained]
    rounds, seconds = (2, 0.05) if options.quick else (options.rounds, 2.0)
    for (title, _, own, tried), rates in zip(trained, speeds(fresh, rounds, seconds), strict=True):
        size, test = count_parameters(own.net), own.error("test")
        yield Curve(title, own.batch_size, own.lr, size, tried, own.checks, test, rates)


def best_of(
    name: str,
    who: Contestant,
    size: int,
    options: Options,
    task: Task,
    split: Split,
    known: Record,
) -> tuple[Training, list[tuple[float, int, float]]]:
    """Halve the learning rates until one is left; it trains to the last level, or until its time is up."""
    every = max(len(split.index["train"]) // 2, 1)
    turn, cap = (0.1, 0.2) if options.quick else (options.turn, options.cap)
    folder = options.run_dir / ("quick" if options.quick else "full") / options.dataset / name
    begin(folder, known)
    trainings = [
        Training(who, split, task.metric, size, lr, folder / f"{size}_{lr:g}.pt") for lr in who.rates[size]
    ]
    tried: dict[float, tuple[float, int, float]] = {}
    kept, seconds = trainings, turn * who.turn
    while len(kept) > 1:
        for one in kept:
            one.advance(partial(_has_had, seconds), every)
        # All are compared after as many molecules as all have seen.
        common = min(len(one.checks) for one in kept) - 1
        tried |= {one.lr: (one.lr, one.checks[common][0], one.checks[common][2]) for one in kept}
        kept = sorted(kept, key=lambda one: tried[one.lr][2])[: (len(kept) + 1) // 2]
        seconds *= 2
    best = kept[0]
    last = task.levels[-1]
    best.advance(lambda one: one.seconds >= cap * who.cap or one.reached(last) is not None, every)
    return best, list(tried.values())


def _has_had(seconds: float, training: Training) -> bool:
    return training.seconds >= seconds


def legend(options: Options, task: Task, split: Split, rows: Sequence[Curve]) -> str:
    """What is said below the table."""
    sizes = " / ".join(f"{len(split.index[part]):,}" for part in ("train", "valid", "test"))
    tried = "; ".join(
        f"{row.title}, {row.batch_size:,}: " + " ".join(f"{lr:g} ({error:.3g})" for lr, _, error in row.tried)
        for row in rows
        if not row.title.endswith("by nodes")
    )
    longest = "; ".join(
        f"{row.title}, {row.batch_size:,}: {row.checks[-1][1]:.0f}"
        for row in rows
        if not row.title.endswith("by nodes")
    )
    return f"""* Seconds of one processor, one thread, until the error on the validation part is at most the
  level: the molecules that training took, divided by molecules per second. Speeds were measured with all
  networks in turns, loaders included, {options.rounds} rounds; the median counts. Validation is not in it.
  ">": not reached in so many seconds.
* GINE by nodes and by colours compute the same outputs and gradients, so they take the same steps: these were
  trained once, by colours, and timed both ways.
* The error is looked at after every half epoch. The validation part chooses the learning rate and says when
  a level is reached: these are seconds, not scores. "test" is the error on the test part at the end of a
  training, computed once.
* About {PARAMETERS:,} parameters, 4 iterations or layers, {DROPOUT} of the head's inputs dropped; chemprop
  has its default depth and no dropout. Features: {task.features}; chemprop has its own, made before.
* Adam, a constant learning rate after {WARM_UP:,} molecules of warm-up, squared errors of scaled targets;
  errors are of the mean of the weights over about {MEMORY:,} molecules.
* Learning rates, with the errors on the validation part by which half of them were left out: {tried}.
  Each got {options.turn} seconds, those of chemprop {CONTESTANTS["chemprop"].turn:g} times as many, the
  better half twice as many, until one was left. That went on until the last level or for so many seconds,
  as they were on a busy machine: {longest}.
* "× X": seconds of the best row of X, divided by this row's; ">": no row of X got there in so many.
* {options.dataset}, random split with seed 0, one seed of the networks, {sizes} molecules.
"""


def shown(found: dict[str, Any]) -> Rows:
    """The table of all curves, its header first."""
    rows, levels = [Curve(**row) for row in found["rows"]], found["levels"]
    name = found["metric"].upper()
    header = ["network", "batch", "learning rate", "molecules/s", f"epochs to {name} {levels[-1]}"]
    for level in levels:
        header += [f"seconds to {level}", *(f"× {other}" for other in GOALS)]
    table = [[*header, f"test {name}"]]
    for row in rows:
        at = next((molecules for molecules, _, error in row.checks if error <= levels[-1]), None)
        epochs = "–" if at is None else f"{at / found['molecules']:.1f}"
        cells = [row.title, f"{row.batch_size:,}", f"{row.lr:g}", f"{row.rate:,.0f}", epochs]
        for level in levels:
            seconds, reached = row.seconds(level)
            cells += [f"{'' if reached else '> '}{seconds:,.0f}"]
            cells += [ratio(row, other, level, rows) for other in GOALS]
        table.append([*cells, f"{row.test:.3f}"])
    return table


def best(title: str, level: float, rows: Sequence[Curve]) -> Curve | None:
    """The row of a network that reaches a level first, or, if none does, has the least error."""

    def place(row: Curve) -> tuple[bool, float]:
        seconds, reached = row.seconds(level)
        return not reached, seconds if reached else min(error for *_, error in row.checks)

    return min((row for row in rows if row.title == title), key=place, default=None)


def ratio(row: Curve, other: str, level: float, rows: Sequence[Curve]) -> str:
    """How many times faster than another's best row, with the goal if this is its network's best."""
    theirs = [one.seconds(level) for one in rows if one.title == other]
    seconds, reached = row.seconds(level)
    if not theirs or not reached:
        return "–"
    they_did = [of_theirs for of_theirs, did in theirs if did]
    # If none did, the first that ended might have reached it next.
    times = min(they_did or [of_theirs for of_theirs, _ in theirs]) / seconds
    text = f"{'' if they_did else '> '}{times:.2g}"
    if row.title not in WITH_GOALS or row is not best(row.title, level, rows):
        return text
    return f"{text}, goal {GOALS[other]:g}: {'yes' if times >= GOALS[other] else 'no'}"


def draw(found: dict[str, Any], path: Path) -> None:
    """Write a PNG with errors over seconds: of each network in its best batches to the last level reached."""
    rows = [Curve(**row) for row in found["rows"]]
    reached = [level for level in found["levels"] if any(row.seconds(level)[1] for row in rows)]
    last = min(reached, default=found["levels"][-1])
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for title in dict.fromkeys(row.title for row in rows):
        row = best(title, last, rows)
        assert row is not None
        seconds = [molecules / row.rate for molecules, *_ in row.checks]
        label = f"{title}, batches of {row.batch_size:,}"
        axes.plot(seconds, [error for *_, error in row.checks], ".-", linewidth=1, label=label)
    for level in found["levels"]:
        axes.axhline(level, color="gray", linewidth=0.6, linestyle="--")
    highest = max(error for row in rows for *_, error in row.checks[1:] or row.checks)
    axes.set(xscale="log", ylim=(0.95 * found["levels"][-1], min(highest, 2 * found["levels"][0])))
    axes.set(xlabel="seconds of one processor", ylabel=f"validation {found['metric'].upper()}")
    axes.legend(fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def load(options: Options, task: Task) -> Split:
    """The molecules and their split; of a quick run few."""
    data = load_molecules(options.dataset, options.root, features=task.features)
    if options.quick:
        data = data[: len(data) : max(1, len(data) // QUICK_MOLECULES)]
    return Split(data, "random", random_split(len(data), seed=0))


def main(argv: list[str] | None = None) -> None:
    """Train, print the table, and write it as Markdown and JSON, with a picture.

    Raises:
        ValueError: A full table that is there has rows of others than take part.
    """
    options = parsed("time-to-accuracy", __doc__, Options, argv)
    task, known = TASKS[options.dataset], about("time-to-accuracy", argv, options.quick, ("chemprop",))
    stem = options.output_dir / f"time_to_accuracy_{options.dataset}"
    check_rows(stem, known, "rows", titles_and_sizes(taking_part(options.contestants)))
    split = load(options, task)
    with torch_settings(1):
        rows = list(curves(options, task, split, known))
    found = {
        "metric": task.metric,
        "levels": list(task.levels),
        "molecules": len(split.index["train"]),
        "rows": [asdict(row) for row in rows],
    }
    table = shown(found)
    title = f"Seconds until an error is reached, {options.dataset} ({known['mode']})"
    picture = f"![Errors over seconds]({stem.name}.png)\n"
    words = f"{picture}\n{legend(options, task, split, rows)}{items(known)}"
    write_page(stem, title, f"{markdown(table)}\n{words}", known, **found)
    draw(found, stem.with_suffix(".png"))
    Console().print(printed(table, title))
