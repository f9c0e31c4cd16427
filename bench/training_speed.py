"""Training steps and inference: ours by nodes, by colours and fused, beside plain PyG and GINE."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import matplotlib
import numpy as np
import torch
from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data

from wlkernelnn.datasets import PackedGraphs, PackedLoader, load_molecules
from wlkernelnn.files import atomic_path, write_text
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.ops.edge_sum import fused

from .baselines import GINENetwork
from .naive_wl import naive_network
from .report import about
from .timing import race, torch_settings

CHANNELS, ITERATIONS = 176, 4
SIZES = (20, 128, 1024, 8192)
# By nodes everybody is past the best long before, and a step would take up to half a minute.
NODES_UP_TO = 1024
OURS = ("by nodes", "colours", "colours, fused")
THEIRS = ("plain PyG", "GINE×4")
GOALS = {("step", "colours, fused"): (14.0, 2.5), ("step", "colours"): (6.0, None)}

LEGEND = f"""Molecules per second: medians over rounds in which all contestants of a column take turns. A
column is a batch size; "best" compares each at its own best batch size, as medians.

* The gated Weisfeiler-Lehman network of {CHANNELS} channels and {ITERATIONS} iterations; readout "sum" walks
  in every iteration (the paper), "last" in the last one only (the authors' release, the default).
* plain PyG: the same network with messages written out and Linears at edges. It and our network by nodes
  get batches of {NODES_UP_TO:,} at most.
* GINE×4: four GINE convolutions of {CHANNELS} channels with the same encoder, pooling and head.
* by nodes: our layers with stock torch operations, every node computed. colours: every Weisfeiler-Lehman
  colour of a batch once, stock torch operations. colours, fused: with the compiled sums over edges of the
  extra "fast". All three give the same numbers.
* step: forward, backward and optimizer on batches that are there. inference: forward alone.
"""


@dataclass(frozen=True)
class Measured:
    """One contestant at one batch size.

    Attributes:
        what: ``"step"`` or ``"inference"``.
        dataset, readout, precision: Of the run.
        threads: Of torch.
        size: Molecules in a batch.
        contestant: Who.
        rate: Molecules per second, the median.
        low, high: Least and greatest.
    """

    what: str
    dataset: str
    readout: str
    precision: str
    threads: int
    size: int
    contestant: str
    rate: float
    low: float
    high: float


def stock_operations() -> AbstractContextManager[object]:
    """Without the compiled sums, as if numba were not installed."""
    return patch.object(fused, "kernels", lambda: None)


def contestants(data: PackedGraphs, readout: str) -> dict[str, GraphKernelNetwork]:
    """The networks, ours sharing all weights."""
    torch.manual_seed(0)
    make = partial(
        GraphKernelNetwork.from_data,
        data,
        hidden_channels=CHANNELS,
        num_iterations=ITERATIONS,
        readout=readout,
    )
    by_nodes = make(quotient=False)
    return {
        "plain PyG": naive_network(by_nodes),
        "GINE×4": GINENetwork.from_data(data, hidden_channels=CHANNELS, num_layers=4),
        "by nodes": by_nodes,
        "colours": make(quotient=True),
        "colours, fused": make(quotient=True),
    }


def plain(batch: Data) -> Data:
    """The batch as plain PyG knows it."""
    clone = batch.clone()
    clone.edge_index = batch.edge_index.as_tensor().clone()
    return clone


def training_step(net: GraphKernelNetwork) -> Callable[[Data], None]:
    """A function that trains ``net`` on a batch by one step."""
    optimizer = torch.optim.AdamW(net.parameters())

    def step(batch: Data) -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(batch), batch.y).backward()
        optimizer.step()

    return step


def _on(name: str, work: Callable[[], None]) -> Callable[[], None]:
    """Work with the operations that the contestant stands for."""

    def call() -> None:
        with nullcontext() if name.endswith("fused") else stock_operations():
            work()

    return call


def _work(
    what: str, name: str, net: GraphKernelNetwork, data: PackedGraphs, size: int
) -> tuple[Callable[[], None], int]:
    """A contestant's work, and how many molecules that is."""
    loader = PackedLoader(data, size, shuffle=True, drop_last=True, quotient=net.quotient_depth)
    step = training_step(net)

    def forward(batch: Data) -> None:
        with torch.no_grad():
            net(batch)

    do = forward if what == "inference" else step
    # A few different batches: what they share must not be in the caches by chance.
    batches = [batch for batch, _ in zip(loader, range(max(1, 1024 // size)), strict=False)]
    batches = [plain(batch) for batch in batches] if name in THEIRS else batches

    def work() -> None:
        for batch in batches:
            do(batch)

    return _on(name, work), len(batches) * size


def measure(
    what: str,
    data: PackedGraphs,
    readout: str,
    size: int,
    *,
    precision: str,
    threads: int,
    rounds: int,
    min_seconds: float,
) -> Iterator[Measured]:
    """Let all contestants take turns."""
    with torch_settings(threads, precision):
        nets = contestants(data, readout)
        if size > NODES_UP_TO:
            del nets["plain PyG"], nets["by nodes"]
        works, counts = zip(*(_work(what, name, net, data, size) for name, net in nets.items()), strict=True)
        rates = race(works, rounds=rounds, work=counts[0], min_seconds=min_seconds)
    for name, rate in zip(nets, rates, strict=True):
        spread = float(np.median(rate)), float(rate.min()), float(rate.max())
        yield Measured(what, data.description.name, readout, precision, threads, size, name, *spread)


def best(measured: list[Measured], name: str) -> float:
    """A contestant's best median over batch sizes."""
    return max(m.rate for m in measured if m.contestant == name)


def tables(measured: list[Measured]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """For each setting its title, and rows of cells with the header first."""
    keys = list(dict.fromkeys((m.what, m.dataset, m.readout, m.precision, m.threads) for m in measured))
    for key in keys:
        part = [m for m in measured if (m.what, m.dataset, m.readout, m.precision, m.threads) == key]
        sizes = sorted({m.size for m in part})
        title = f'{key[0]}, {key[1]}, readout "{key[2]}", precision "{key[3]}", {key[4]} thread(s)'
        rows: list[tuple[str, ...]] = [("", *map(str, sizes), "best / plain PyG", "best / GINE×4")]
        for name in dict.fromkeys(m.contestant for m in part):
            rates = {m.size: m for m in part if m.contestant == name}
            cells = [f"{rates[size].rate:,.0f}" if size in rates else "–" for size in sizes]
            ratios = [best(part, name) / best(part, theirs) for theirs in THEIRS]
            goals = GOALS.get((key[0], name), (None, None)) if key[2] == "sum" else (None, None)
            shown = [
                f"{ratio:.3g}" + ("" if goal is None else f" (goal {goal:g})")
                for ratio, goal in zip(ratios, goals, strict=True)
            ]
            rows.append((name, *cells, *shown))
        yield title, rows


def _plot(measured: list[Measured], path: Path) -> None:
    """Rate against batch size, a panel for each setting."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    keys = list(dict.fromkeys((m.what, m.dataset, m.readout, m.precision, m.threads) for m in measured))
    columns = min(4, len(keys))
    rows = -(-len(keys) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    for axis in axes.flat[len(keys) :]:
        axis.set_visible(False)
    for key, axis in zip(keys, axes.flat, strict=False):
        for name in (*THEIRS, *OURS):
            points = [
                m
                for m in measured
                if m.contestant == name and (m.what, m.dataset, m.readout, m.precision, m.threads) == key
            ]
            axis.plot([m.size for m in points], [m.rate for m in points], marker="o", label=name)
        axis.set(
            xscale="log", yscale="log", title=", ".join(map(str, key)), xlabel="batch", ylabel="molecules/s"
        )
        axis.title.set_fontsize(8)
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    pyplot.close(figure)


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write ``training_speed.md``, ``.json`` and ``.png``.

    Args:
        argv: Arguments; default the command line's.
    """
    parser = ArgumentParser(prog="wlkernelnn benchmark training-speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Few molecules, sizes and rounds: a minute.")
    parser.add_argument("--datasets", type=list[str], default=["cep", "hiv"], help="Published data sets.")
    parser.add_argument("--threads", type=list[PositiveInt], default=[2, 1], help="Numbers of threads.")
    parser.add_argument("--rounds", type=PositiveInt, default=3, help="Turns of each contestant.")
    parser.add_argument("--output-dir", default="bench/results", help="Folder of the results.")
    options = parser.parse_args(argv)
    quick = options.quick
    sizes = (16, 64) if quick else SIZES
    rounds, min_seconds = (2, 0.02) if quick else (options.rounds, 0.3)
    if fused.kernels() is None:
        raise ImportError("this benchmark compares with the compiled sums: pip install wlkernelnn[fast]")
    console = Console()
    measured: list[Measured] = []
    with console.status("Measuring") as status:
        for i, name in enumerate(options.datasets[:1] if quick else options.datasets):
            whole = load_molecules(name)
            order = np.random.default_rng(0).permutation(len(whole))
            data = whole[order[: 64 if quick else 16384]]
            for j, threads in enumerate(options.threads[:1] if quick else options.threads):
                # All of them for the first data set and number of threads, the paper's step for the others.
                settings = SETTINGS if (i, j) == (0, 0) and not quick else SETTINGS[:1]
                for what, readout, precision in settings:
                    for size in sizes:
                        status.update(f"{name}, {what}, {readout}, {precision}, {threads} threads, {size}")
                        measured += measure(
                            what,
                            data,
                            readout,
                            size,
                            precision=precision,
                            threads=threads,
                            rounds=rounds,
                            min_seconds=min_seconds,
                        )
    known = about("training-speed", argv, quick, ("numba", "scikit-learn"))
    text = [f"# Training speed ({known['mode']})", ""]
    for title, rows in tables(measured):
        text += [
            f"## {title}",
            "",
            "| " + " | ".join(rows[0]) + " |",
            "| --- |" + " ---: |" * (len(rows[0]) - 1),
        ]
        text += ["| " + " | ".join(row) + " |" for row in rows[1:]] + [""]
        table = Table(*rows[0], title=title, box=SIMPLE_HEAD, show_edge=False)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    text += [LEGEND, *(f"* {key}: {value}" for key, value in known.items()), ""]
    stem = Path(options.output_dir) / "training_speed"
    write_text(stem.with_suffix(".md"), "\n".join(text))
    record = {**known, "measured": [asdict(m) for m in measured]}
    write_text(stem.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    _plot(measured, stem.with_suffix(".png"))
    console.print(f"Written to {stem}.md, .json and .png.")


# What is measured at every batch size, for every data set and number of threads.
SETTINGS = [
    ("step", "sum", "highest"),
    ("step", "sum", "medium"),
    ("step", "last", "highest"),
    ("inference", "sum", "highest"),
]
