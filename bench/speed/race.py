"""Training steps, epochs and inference: ours beside plain PyG, GINE and chemprop, all in one race."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from wlkernelnn.bench.baselines.chemprop import DEFAULT_BATCH
from wlkernelnn.bench.harness.tables import Rows
from wlkernelnn.bench.harness.timing import race, torch_settings
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.training.allocator import freed_memory_kept

from .contestants import GINES, NODES_UP_TO, SIZES, Contestant, contestants, train
from .tables import Options, Part, Records, Setting, Table, pivot, rounded, sample, settings, shown

# Goals for the data set CEP, two threads, precision "highest" and readout "sum": how many times as fast as
# whom, each at its best batch size or at a given one; for another data set half as many.
Opponent = tuple[str, int | None]
OPPONENTS: tuple[Opponent, ...] = (
    ("plain PyG", None),
    *((gine, None) for gine in GINES),
    ("chemprop", None),
    ("chemprop", DEFAULT_BATCH),
)
GOALS: dict[tuple[str, str], dict[Opponent, float]] = {
    ("step", "colours"): {("plain PyG", None): 6.0},
    ("step", "colours, fused"): {("plain PyG", None): 14.0, ("GINE×4", None): 2.5},
    ("epoch", "colours, fused"): {("chemprop", DEFAULT_BATCH): 9.0},
    ("inference", "colours, fused"): {("plain PyG", None): 50.0},
}

EPOCH = 8192
# All of CEP at once.
WHOLE = 32_768

LEGEND = f"""Molecules per second by batch size: medians over rounds in which all contestants, at all their
batch sizes, take turns, with half the range from least to greatest in per cent of it. "× X": how many times
as fast as X, round by round, each at its best batch size ("× chemprop, {DEFAULT_BATCH}": at that one), and
the goal where there is one (CEP, 2 threads, precision "highest", readout "sum"; half of it elsewhere; none of
fewer molecules).
"""

# A call, and how many molecules it takes.
Work = tuple[Callable[[], object], int]


@dataclass(frozen=True)
class Kind:
    """A measurement of a contestant."""

    says: str  # for the legend
    work: Callable[[Contestant, int], Work]  # of a contestant and a batch size
    sizes: tuple[int, ...] = SIZES


def _step(contestant: Contestant, size: int) -> Work:
    # Small batches would stay in the caches: many of them take turns.
    there = contestant.molecules
    molecules = min(max(1, min(NODES_UP_TO, there) // size) * size, there)
    batches = list(contestant.loader(molecules, size, False))
    return partial(train, contestant.training_step(), batches), molecules


def _epoch(contestant: Contestant, size: int) -> Work:
    molecules = min(EPOCH, contestant.molecules)
    return partial(train, contestant.training_step(), contestant.loader(molecules, size, True)), molecules


def _inference(contestant: Contestant, size: int) -> Work:
    weights = contestant.net.state_dict()

    def call() -> None:
        contestant.net.load_state_dict(weights)  # as new: nothing is known of an earlier library
        contestant.predict(contestant.molecules, size)

    return call, contestant.molecules


KINDS = {
    "step": Kind("step: forward, backward and optimizer on batches that are there.", _step),
    "epoch": Kind(
        f"epoch: steps on at most {EPOCH:,} molecules in shuffled batches as they come from a loader. Ours: "
        "from the packed store with the quotient made on the way (colours once before); PyG's DataLoader of "
        "a list of Data; chemprop's of its own data set.",
        _epoch,
    ),
    "inference": Kind(
        "inference: from the molecules in memory to numbers. Ours: `wlkernelnn.training.predict`, with "
        "weights that were set just before (colours once before): by colours the whole store goes at once, "
        "whatever the batch size. The others: forward passes.",
        _inference,
        (*SIZES, WHOLE),
    ),
}


def measure(kind: str, options: Options) -> Iterator[tuple[Setting, Records]]:
    """For each setting, the rates of all contestants at all their batch sizes."""
    sizes = options.sizes(KINDS[kind].sizes)
    for setting in settings(options, "dataset", "readout", "precision", "threads"):
        data = sample(setting["dataset"], options.molecules)
        with torch_settings(setting["threads"], setting["precision"]), freed_memory_kept():
            turns = options.turns(0.3)
            records = race_of(kind, data, setting["readout"], sizes, options.device, **turns)
        yield setting | options.shortening(len(data)), records


def race_of(
    kind: str, data: PackedGraphs, readout: str, sizes: tuple[int, ...], device: str = "cpu", **turns: Any
) -> Records:
    """Let all contestants take turns."""
    all_of_them = contestants(data, readout, device)
    entries = [(contestant, size) for contestant in all_of_them for size in contestant.sizes(sizes)]
    calls, molecules = zip(*(_entry(kind, *entry) for entry in entries), strict=True)
    return [
        {"contestant": contestant.name, "size": size, "rates": rounded(own)}
        for (contestant, size), own in zip(entries, race(calls, molecules, **turns), strict=True)
    ]


def _entry(kind: str, contestant: Contestant, size: int) -> Work:
    work, molecules = KINDS[kind].work(contestant, size)

    def call() -> None:
        with contestant.operations():
            work()

    return call, molecules


def best(records: Records, name: str, size: int | None = None) -> np.ndarray:
    """A contestant's rates, round by round, at its best batch size or at ``size``."""
    rates = [
        np.array(record["rates"])
        for record in records
        if record["contestant"] == name and size in (None, record["size"])
    ]
    return max(rates, key=np.median)


def table_cells(table: Table) -> Rows:
    """A row for each contestant: its rates by batch size, and its best beside the opponents' best."""
    records = table.records
    sizes = sorted({record["size"] for record in records})
    cells = pivot(records, "contestant", "size", sizes, lambda record: shown(record["rates"]))
    opponents = [opponent for opponent in OPPONENTS if opponent[0] in cells]
    against = [f"× {name}" + ("" if size is None else f", {size}") for name, size in opponents]
    rows = [("molecules/s", *map(str, sizes), *against)]
    for name, own in cells.items():
        goals = _goals(table, name)
        ratios = [
            _ratio(best(records, name) / best(records, *opponent), goals.get(opponent))
            for opponent in opponents
        ]
        rows.append((name, *own, *ratios))
    return rows


def _goals(table: Table, name: str) -> dict[Opponent, float]:
    setting = table.setting
    known = setting["threads"], setting["precision"], setting["readout"], table.run["mode"]
    if known != (2, "highest", "sum", "full") or "molecules" in setting:
        return {}
    goals = GOALS.get((table.part, name), {})
    return {who: goal if setting["dataset"] == "cep" else goal / 2 for who, goal in goals.items()}


def _ratio(ratios: np.ndarray, goal: float | None) -> str:
    text = shown(ratios, ".3g")
    return text if goal is None else f"{text}, goal {goal:g}: {'yes' if np.median(ratios) >= goal else 'no'}"


PARTS = {
    name: Part(f"{LEGEND}\n{kind.says}\n", partial(measure, name), table_cells)
    for name, kind in KINDS.items()
}
