"""Peak memory of training, each contestant in a process of its own; how time and memory of ours grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from wlkernelnn.bench.harness.tables import Rows
from wlkernelnn.bench.harness.timing import race, torch_settings, usage
from wlkernelnn.datasets import PackedGraphs, PackedLoader, featurize
from wlkernelnn.training.allocator import freed_memory_kept

from .contestants import BY_COLOURS, CHANNELS, ITERATIONS, NODES_UP_TO, Contestant, contestant, names, train
from .data import exhaust
from .tables import Options, Part, Records, Setting, Table, pivot, rounded, sample, settings, shown

SIZES = (128, 1024, 8192)
BATCHES = 3

MEMORY_LEGEND = f"""MB by batch size: the most memory that training on {BATCHES} batches takes beyond what the
process held before, when molecules, their colours and the network were there. Batches, gradients and the
optimizer's state are in it.
"""


def peak(name: str, dataset: str, size: int, threads: int, readout: str = "sum", **network: int) -> int:
    """Bytes that training takes, measured in a new process; ``network`` has arguments of ``contestant``."""
    return usage(train_some, prepared, name, dataset, size, threads, readout, network).peak


def prepared(
    name: str, dataset: str, size: int, threads: int, readout: str, network: dict[str, int]
) -> tuple[Contestant, int]:
    """A contestant that knows molecules for its batches, and the settings of the process."""
    torch.set_num_threads(threads)
    return contestant(name, sample(dataset, BATCHES * size), readout, **network), size


def train_some(who: Contestant, size: int) -> None:
    with who.operations():
        train(who.training_step(), who.loader(BATCHES * size, size, True))


def measure_memory(options: Options) -> Iterator[tuple[Setting, Records]]:
    """For each setting, the peaks of all contestants at all their batch sizes."""
    sizes = options.sizes(SIZES)[-1:] if options.quick else SIZES
    for setting in settings(options, "dataset", "readout", "threads"):
        records = [
            {"contestant": name, "size": size, "peak": peak(name, size=size, **setting)}
            for name in names()
            for size in sizes
            if size <= NODES_UP_TO or name in BY_COLOURS
        ]
        yield setting, records


def memory_cells(table: Table) -> Rows:
    """A row for each contestant: its peaks by batch size."""
    sizes = sorted({record["size"] for record in table.records})
    cells = pivot(table.records, "contestant", "size", sizes, lambda record: f"{record['peak'] / 1e6:,.0f}")
    return [("MB", *map(str, sizes)), *((name, *own) for name, own in cells.items())]


MEMORY = Part(MEMORY_LEGEND, measure_memory, memory_cells)


NAME = "colours, fused"
BATCH = 1024
AXES: dict[str, tuple[int, ...]] = {
    "batch": (20, 128, 1024, 8192),
    "channels": (64, 128, 176, 256, 512),
    "iterations": (1, 2, 4, 6, 8),
    "molecules": (1000, 3000, 10_000, 30_000),
}
QUICK_AXES: dict[str, tuple[int, ...]] = {"channels": (16, 32), "molecules": (50, 100)}

GROWTH_LEGEND = f"""\
Molecules per second of our network by colours, fused (medians, all rows of a table in one race, with half
the range in per cent), and the most memory that training takes, as in the part "memory", or by number of
molecules, making their colours. What does not vary is a batch of {BATCH:,}, {CHANNELS} channels, {ITERATIONS}
iterations and readout "sum".

* step: a training step on batches that are there.
* colours: the Weisfeiler-Lehman colours of the whole store. loader: an epoch of shuffled batches with their
  quotients. epoch: with training.
"""


def measure_growth(options: Options) -> Iterator[tuple[Setting, Records]]:
    """For each data set and number of threads, a table per axis."""
    for setting in settings(options, "dataset", "threads"):
        data = sample(setting["dataset"], options.molecules)
        for axis, values in (QUICK_AXES if options.quick else AXES).items():
            by_value = _by_size if axis == "molecules" else partial(_steps, axis)
            if axis == "molecules":
                values = tuple(dict.fromkeys(min(value, len(data)) for value in values))
            with torch_settings(setting["threads"]), freed_memory_kept():
                works = [(value, *work) for value in values for work in by_value(data, value)]
                of_works, whats, calls, molecules = zip(*works, strict=True)
                rates = race(calls, molecules, **options.turns(0.3))
            records: Records = [
                {"value": value, "what": what, "rates": rounded(own)}
                for value, what, own in zip(of_works, whats, rates, strict=True)
            ]
            for record in records:
                if record["what"] in ("step", "colours"):
                    record["peak"] = _peak(axis, record["value"], setting)
            yield setting | {"by": axis} | options.shortening(len(data)), records


def _peak(axis: str, value: int, setting: Setting) -> int:
    if axis == "molecules":
        return usage(colour, prepared_store, setting["dataset"], value).peak
    size, network = _arguments(axis, value)
    return peak(NAME, size=size, **setting, **network)


def _arguments(axis: str, value: int) -> tuple[int, dict[str, Any]]:
    """Batch size, and arguments of the contestant."""
    return (value, {}) if axis == "batch" else (BATCH, {axis: value})


Work = tuple[str, Callable[[], object], int]


def _steps(axis: str, data: PackedGraphs, value: int) -> list[Work]:
    size, network = _arguments(axis, value)
    who = contestant(NAME, data[: max(size, BATCH)], "sum", **network)
    molecules = min(max(size, BATCH // size * size), len(data))
    batches = list(who.loader(molecules, size, False))
    return [("step", partial(train, who.training_step(), batches), molecules)]


def store_of(data: PackedGraphs) -> PackedGraphs:
    """A store of its own for a view, whose colours are not known yet."""
    return featurize(data.smiles, num_workers=0)[0].with_targets(data.y)


def prepared_store(dataset: str, molecules: int) -> tuple[PackedGraphs]:
    return (store_of(sample(dataset, molecules)),)


def colour(store: PackedGraphs) -> None:
    store.colours(ITERATIONS)


def _by_size(data: PackedGraphs, value: int) -> list[Work]:
    store = store_of(data[:value])
    who = contestant(NAME, store)
    loader = PackedLoader(store, BATCH, shuffle=True, quotient=ITERATIONS)
    return [
        ("colours", lambda: PackedGraphs(store.arrays, store.description).colours(ITERATIONS), len(store)),
        ("loader", partial(exhaust, loader), len(store)),
        ("epoch", partial(train, who.training_step(), who.loader(len(store), BATCH, True)), len(store)),
    ]


def growth_cells(table: Table) -> Rows:
    """A row for each value of the axis."""
    records = table.records
    whats = list(dict.fromkeys(record["what"] for record in records))
    cells = pivot(records, "value", "what", whats, lambda record: shown(record["rates"]))
    peaks = {record["value"]: f"{record['peak'] / 1e6:,.0f}" for record in records if "peak" in record}
    header = (table.setting["by"], *(f"{what}, molecules/s" for what in whats), "peak MB")
    return [header, *((f"{value:,}", *own, peaks[value]) for value, own in cells.items())]


GROWTH = Part(GROWTH_LEGEND, measure_growth, growth_cells)
