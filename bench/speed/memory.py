"""Peak memory of training, each contestant in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from wlkernelnn.bench.harness.tables import Rows
from wlkernelnn.bench.harness.timing import usage

from .contestants import BY_COLOURS, NODES_UP_TO, Contestant, contestant, names, train
from .tables import Options, Part, Records, Setting, Table, sample, settings

SIZES = (128, 1024, 8192)
BATCHES = 3

LEGEND = f"""MB by batch size: the most memory that training on {BATCHES} batches takes beyond what the
process held before, when molecules, their colours and the network were there. Batches, gradients and the
optimizer's state are in it.
"""


def peak(
    name: str,
    dataset: str,
    size: int,
    threads: int,
    readout: str = "sum",
    network: dict[str, int] | None = None,
) -> int:
    """Bytes that training takes, measured in a new process; ``network`` has arguments of ``contestant``."""
    return usage(train_some, prepared, name, dataset, size, threads, readout, network or {}).peak


def prepared(
    name: str, dataset: str, size: int, threads: int, readout: str, network: dict[str, int]
) -> tuple[Contestant, int]:
    """A contestant that knows molecules for its batches, and the settings of the process."""
    torch.set_num_threads(threads)
    return contestant(name, sample(dataset, BATCHES * size), readout, **network), size


def train_some(who: Contestant, size: int) -> None:
    with who.operations():
        train(who.training_step(), who.loader(BATCHES * size, size, True))


def measure(options: Options) -> Iterator[tuple[Setting, Records]]:
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


def table_cells(table: Table) -> Rows:
    """A row for each contestant: its peaks by batch size."""
    sizes = sorted({record["size"] for record in table.records})
    rows = [("MB", *map(str, sizes))]
    for name in dict.fromkeys(record["contestant"] for record in table.records):
        peaks = {record["size"]: record["peak"] for record in table.records if record["contestant"] == name}
        rows.append((name, *(f"{peaks[size] / 1e6:,.0f}" if size in peaks else "–" for size in sizes)))
    return rows


PART = Part(LEGEND, measure, table_cells)
