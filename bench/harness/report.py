"""Pages of all committed results by subject, with plots, and the README's picture of time to train."""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
from rich.console import Console

import wlkernelnn.bench
from wlkernelnn.bench import BENCHMARKS
from wlkernelnn.utils.files import atomic_path, read_json, write_text

from .colour_picture import draw_colours
from .options import parsed

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INTRODUCTION = """# Results

Each table stands as its command wrote it, with its notes: seeds, versions, processor and revision. "quick"
tables only show that everything works. [What was measured](../measured.md) says how to read them.
"""

Found = Mapping[str, Any]
# Where a link to a file begins, not one to an address or to a heading.
_LINK = re.compile(r"\]\((?!\w+:|#)")
#: The picture of time to train: the setting of its table of ``speed``, and names there and in the picture.
SETTING = {"dataset": "cep", "readout": "sum", "precision": "highest", "threads": 2}
CONTESTANTS = {
    "chemprop": "chemprop",
    "GINE×4": "PyG's GINE",
    "colours": "ours",
    "colours, fused": "ours, with numba",
}


@dataclass
class ReportOptions:
    """Where results lie, and where the pages go.

    Args:
        results_dir: Folder of the tables that benchmarks wrote.
        output_dir: Folder of the pages: one per benchmark, an index, and plots.
        picture: The picture of time to train.
        colours: The picture of a molecule by its colours.
    """

    results_dir: Path = Path("bench/results")
    output_dir: Path = Path("docs/results")
    picture: Path = Path("docs/time_to_train.svg")
    colours: Path = Path("docs/colour_levels.svg")


def main(argv: list[str] | None = None) -> None:
    """Write the pages and the picture."""
    options = parsed("report", __doc__, ReportOptions, argv)
    written = write_pages(options.results_dir, options.output_dir)
    Console().print(f"Written to {options.output_dir}: {len(written)} pages of {options.results_dir}.")
    speed = options.results_dir / "speed.json"
    if speed.is_file():
        times = seconds_per_epoch(read_json(speed))
        save(draw_times(times), options.picture, metadata=picture_metadata(times))
        Console().print(f"Written to {options.picture}: seconds per epoch of {speed}.")
    save(draw_colours(), options.colours, metadata={"Date": None})
    Console().print(f"Written to {options.colours}: a molecule by its colours.")


def write_pages(results_dir: Path, output_dir: Path) -> list[Path]:
    """Write a page per benchmark, with plots, and an index by subject; the paths of the pages.

    Args:
        results_dir: Folder of the tables, ``<benchmark>_<set>.md`` with ``.json`` beside it.
        output_dir: Folder of the pages.

    Raises:
        FileNotFoundError: The folder holds no results.
        ValueError: A file is not one that a benchmark writes.
    """
    tables: dict[str, list[Path]] = {}
    for table in sorted(results_dir.glob("*.md")):
        tables.setdefault(benchmark_of(table), []).append(table)
    if not tables:
        raise FileNotFoundError(f"{results_dir}: no results; run a benchmark first")
    subjects: dict[str, list[str]] = {}
    for name, files in tables.items():
        sections = [_section(table, output_dir) for table in files]
        heading = f"# {name}\n\n{_about(name)} Command: `wlkernelnn benchmark {name}`.\n"
        write_text(output_dir / f"{name}.md", "\n".join([heading, *sections]))
        subjects.setdefault(BENCHMARKS[name].partition(".")[0], []).append(name)
    lists = [
        f"## {subject.capitalize()}\n\n```{{toctree}}\n:maxdepth: 2\n\n" + "\n".join(names) + "\n```\n"
        for subject, names in sorted(subjects.items())
    ]
    write_text(output_dir / "index.md", "\n".join([INTRODUCTION, *lists]))
    return [output_dir / f"{name}.md" for name in tables]


def benchmark_of(table: Path) -> str:
    """The benchmark whose table a file is: the longest name that its own begins with."""
    fitting = [name for name in BENCHMARKS if f"{table.stem}_".startswith(f"{name.replace('-', '_')}_")]
    if not fitting:
        raise ValueError(f"{table}: expected a name that begins with that of a benchmark, got {table.stem!r}")
    return max(fitting, key=len)


def _about(name: str) -> str:
    """First line of a benchmark's docstring, without importing it: some need extras."""
    folder = Path(wlkernelnn.bench.__file__).parent
    source = folder.joinpath(*BENCHMARKS[name].split(".")).with_suffix(".py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _section(table: Path, output_dir: Path) -> str:
    """A table's text with its headings one level down, and its plot."""
    title, _, body = table.read_text(encoding="utf-8").partition("\n")
    if not title.startswith("# "):
        raise ValueError(f"{table}: expected a title on the first line, got {title!r}")
    title = title[2:].removesuffix(" (full)")
    # Links of a table go from its own folder.
    folder = Path(os.path.relpath(table.parent, output_dir)).as_posix()
    body = _LINK.sub(lambda _: f"]({folder}/", body).replace("\n#", "\n##")
    text = f"## {title}\n{body}"
    record = table.with_suffix(".json")
    if record.is_file() and (figure := plot(read_json(record))):
        save(figure, output_dir / f"{table.stem}.png", dpi=100)
        text += f"\n![{title}]({table.stem}.png)\n"
    return text


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure as its file's ending says; the same SVG from the same numbers, its text as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}), atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], **options)
    plt.close(figure)


def plot(result: Found) -> Figure | None:
    """Draw the ratios of a table of speed, or the scores of one of molecules; others have no plot."""
    rows = [row for row in result.get("rows", ()) if "ratio" in row]
    runs = [run for run in result.get("runs", ()) if "test" in run.get("scores", ())]
    if rows:
        figure, axes = plt.subplots(figsize=(7, 0.8 + 0.14 * len(rows)), layout="constrained")
        draw_ratios(rows, axes)
        return figure
    if not runs:
        return None
    groups = list(dict.fromkeys((run["data"], run["split"]) for run in runs))
    columns = min(3, len(groups))
    lines = math.ceil(len(groups) / columns)
    models = len({run["model"] for run in runs})
    size = (3.6 * columns, (0.9 + 0.25 * models) * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in grid.flat[len(groups) :]:
        axes.set_axis_off()
    for (data, split), axes in zip(groups, grid.flat, strict=False):
        draw_scores([run for run in runs if (run["data"], run["split"]) == (data, split)], axes)
        axes.set_title(f"{data}, {split} split", fontsize=8)
    return figure


def draw_ratios(rows: Sequence[Found], axes: Axes) -> None:
    """How many times better ours is: median, and range over the rounds."""
    heights = range(len(rows), 0, -1)
    low, median, high = ([row[name] for row in rows] for name in ("low", "ratio", "high"))
    axes.hlines(heights, low, high, color="tab:blue", linewidth=1)
    axes.plot(median, heights, "o", markersize=4, color="tab:blue")
    axes.set_yticks(heights, [f"{row['what']} / {row['against']}" for row in rows], fontsize=5)
    axes.set(ylim=(0, len(rows) + 1), xscale="log")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xlabel("ratio", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)


def draw_scores(runs: Sequence[Found], axes: Axes) -> None:
    """The test score of every run, by model; the ensemble of a model's own runs stands below them."""
    metric = runs[0]["metric"]
    single = {run["model"] for run in runs if "members" not in run}
    scores: dict[str, list[float]] = {}
    order = list(dict.fromkeys(run["model"] for run in runs))
    for run in sorted(runs, key=lambda run: order.index(run["model"])):
        model = run["model"]
        line = f"{model}, ensemble" if "members" in run and model in single else model
        scores.setdefault(line, []).append(run["scores"]["test"][metric])
    for height, values in enumerate(reversed(scores.values())):
        axes.plot(values, [height] * len(values), "o", markersize=3, alpha=0.6)
    axes.set_yticks(range(len(scores)), reversed(scores), fontsize=7)
    axes.set_ylim(-0.5, len(scores) - 0.5)
    axes.set_xlabel(f"test {metric}", fontsize=7)
    axes.tick_params(axis="x", labelsize=6)


def seconds_per_epoch(speed: Found, size: int = 128) -> dict[str, tuple[float, float]]:
    """Seconds of an epoch of CEP, from ``speed.json``, by contestant: in batches of ``size`` and the best.

    Raises:
        ValueError: The file has no table of epochs, or of the data, in the setting of the picture.
    """
    tables = [(table["part"], table["setting"], table["records"]) for table in speed["tables"]]
    counts = [of["molecules"] for part, of, _ in tables if part == "data" and of["dataset"] == "cep"]
    records = next((rows for part, of, rows in tables if part == "epoch" and of == SETTING), None)
    if not counts or records is None:
        setting = ", ".join(f"{name} {value}" for name, value in SETTING.items())
        raise ValueError(
            f"speed.json: expected a table of part data, dataset cep, and of part epoch, {setting}"
        )
    molecules = max(counts)
    times: dict[str, tuple[float, float]] = {}
    for contestant, name in CONTESTANTS.items():
        rates = {row["size"]: median(row["rates"]) for row in records if row["contestant"] == contestant}
        times[name] = (molecules / rates[size], molecules / max(rates.values()))
    return times


def picture_metadata(times: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """The picture in words; without the date, the same numbers give the same file."""
    text = "; ".join(f"{name}: {same:.1f} s, {best:.1f} s" for name, (same, best) in times.items())
    return {"Date": None, "Description": f"Seconds per epoch, batches of 128 and best batches. {text}"}


def draw_times(times: Mapping[str, tuple[float, float]]) -> Figure:
    """Bars of :func:`seconds_per_epoch`, readable at 400 pixels."""
    figure, axes = plt.subplots(figsize=(4.4, 2.9), layout="constrained")
    for height, (name, pair) in enumerate(reversed(list(times.items()))):
        color = "tab:blue" if name.startswith("ours") else "tab:gray"
        for shift, value, alpha in zip((0.2, -0.2), pair, (0.45, 1.0), strict=True):
            axes.barh(height + shift, value, 0.38, color=color, alpha=alpha)
            axes.text(value, height + shift, f" {value:.1f} s", va="center", fontsize=9)
    axes.set_yticks(range(len(times)), list(times)[::-1])
    axes.set_xlim(0, 1.15 * max(same for same, _ in times.values()))
    axes.set_xlabel("seconds per epoch on CEP, two CPU cores", fontsize=9)
    axes.set_title("light: batches of 128; dark: best batches", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
