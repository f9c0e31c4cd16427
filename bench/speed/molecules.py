"""Speed and memory beside the usual tools: loader, featurizer, steps, epochs, inference, memory, growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.provenance import about
from wlkernelnn.bench.harness.tables import printed
from wlkernelnn.bench.harness.trained import chosen
from wlkernelnn.ops.graph import fused
from wlkernelnn.utils.files import atomic_path

from . import contestants, data, growth, race
from .tables import Options, Part, Table, merged, read_tables, write_tables

PARTS: dict[str, Part] = {"data": data.PART, **race.PARTS, "memory": growth.MEMORY, "growth": growth.GROWTH}
ON_GPU = ("data", *race.PARTS)
QUICK_MOLECULES = 200
# Side by side in the plot.
PANELS = 4


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write ``speed.json``, ``.md`` and ``.png`` (quick: ``speed_quick.…``).

    On a GPU these are ``speed_gpu.…``.

    Tables of earlier runs stay, except for those that are measured again.
    """
    options = parsed("speed", __doc__, Options, argv)
    on_gpu = options.device != "cpu"
    parts = chosen("parts", options.parts or (ON_GPU if on_gpu else None), PARTS)
    if fused.numba_loops() is None:
        raise ImportError("this benchmark compares with the compiled sums: pip install -e '.[fast]'")
    console = Console()
    if options.quick:
        options = replace(options, molecules=min(QUICK_MOLECULES, options.molecules))
        console.print("Quick: few molecules, sizes and rounds. The figures say little.")
    if not chemprop.installed():
        console.print("chemprop is not installed (wlkernelnn\\[chem]): it takes no part.")
    run = about("speed", argv, options.quick, ("chemprop",))
    stem = options.output_dir / ("speed" + "_gpu" * on_gpu + "_quick" * options.quick)
    for name in parts:
        with console.status(f"Measuring: {name}"):
            for setting, records in PARTS[name].measure(options):
                table = Table(name, setting, records, run)
                # At once: what is measured is safe if the rest is not.
                tables = merged(read_tables(stem.with_suffix(".json")), [table], list(PARTS))
                write_tables(tables, PARTS, contestants.LEGEND, stem)
                title = f"{table.title} (quick)" if options.quick else table.title
                console.print(printed(PARTS[name].cells(table), title))
    plot(read_tables(stem.with_suffix(".json")), stem.with_suffix(".png"))
    console.print(f"Written to {stem}.json, .md and .png.")


def plot(tables: Sequence[Table], path: Path) -> None:
    """Write a PNG with a panel for every table that has a scale."""
    tables = [table for table in tables if "size" in table.records[0] or "value" in table.records[0]]
    if not tables:
        return
    rows = -(-len(tables) // PANELS)
    figure = Figure(figsize=(4.5 * PANELS, 3.4 * rows), layout="tight")
    axes = figure.subplots(rows, PANELS, squeeze=False)
    for axis in axes.flat[len(tables) :]:
        axis.set_visible(False)
    for table, axis in zip(tables, axes.flat, strict=False):
        _panel(table, axis)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)


def _panel(table: Table, axis: Any) -> None:
    scale, line = ("value", "what") if "value" in table.records[0] else ("size", "contestant")
    memory = table.part == "memory"
    for name in dict.fromkeys(record[line] for record in table.records):
        own = [record for record in table.records if record[line] == name]
        y = [record["peak"] / 1e6 if memory else np.median(record["rates"]) for record in own]
        axis.plot([record[scale] for record in own], y, marker="o", label=name)
    peaks = {record[scale]: record["peak"] / 1e6 for record in table.records if "peak" in record}
    if peaks and not memory:
        beside = axis.twinx()
        beside.plot(list(peaks), list(peaks.values()), "k--", marker=".", label="peak MB")
        beside.set(yscale="log")
        beside.legend(fontsize=7, loc="lower right")
    axis.set(
        xscale="log",
        yscale="log",
        title=table.title,
        xlabel=table.setting.get("by", "batch"),
        ylabel="MB" if memory else "molecules/s",
    )
    ticks = sorted({record[scale] for record in table.records})
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=7)
    axis.tick_params("x", which="minor", bottom=False, labelbottom=False)
    axis.title.set_fontsize(7)
    axis.legend(fontsize=7)
