"""The plot of the speed benchmark: rates and memory against batch size, width, depth and size of the data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from wlkernelnn.utils.files import atomic_path

from .tables import Table

COLUMNS = 4


def plot(tables: Sequence[Table], path: Path) -> None:
    """Write a PNG with a panel for every table that has a scale."""
    tables = [table for table in tables if "size" in table.records[0] or "value" in table.records[0]]
    if not tables:
        return
    rows = -(-len(tables) // COLUMNS)
    figure = Figure(figsize=(4.5 * COLUMNS, 3.4 * rows), layout="tight")
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
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
