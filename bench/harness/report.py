"""All result files on one page, with plots of what is faster and of what is learned."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from rich.console import Console

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.utils.files import atomic_path, read_json, write_text

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

INTRODUCTION = """# Results

Every table here is made of the runs of its command; what they ran on stands below it, by rows where these
differ. "quick" tables only show that everything works. This page is made by `wlkernelnn benchmark report`.
"""

Found = Mapping[str, Any]
# Where a link to a file begins, not one to an address or to a heading.
_LINK = re.compile(r"\]\((?!\w+:|#)")


@dataclass
class ReportOptions:
    """Where results lie, and where the page goes.

    Args:
        results_dir: Folder of the tables that benchmarks wrote.
        output: The page; plots are written beside it, into a folder of its name.
    """

    results_dir: Path = Path("bench/results")
    output: Path = Path("docs/results.md")


def main(argv: list[str] | None = None) -> None:
    """Write the page and its plots.

    Args:
        argv: Arguments; default the command line's.

    Raises:
        FileNotFoundError: No results lie there.
        ValueError: A file is not what a benchmark writes, or the page's name has no ending.
    """
    parser = verb_parser("benchmark report", __doc__)
    add_options(parser, "Options", ReportOptions)
    options = ReportOptions(**pick(parser.parse_args(argv), ReportOptions))
    if not options.output.suffix:
        raise ValueError(f"--output: expected the name of a page, such as results.md, got {options.output}")
    tables = sorted(options.results_dir.glob("*.md"))
    if not tables:
        raise FileNotFoundError(f"{options.results_dir}: no results; run a benchmark first")
    plots = options.output.with_suffix("")
    sections = [_section(table, plots, options.output.parent) for table in tables]
    contents = "".join(f"* [{title}](#{anchor(title)})\n" for title, _ in sections)
    text = "\n".join([INTRODUCTION, contents, *(text for _, text in sections)])
    write_text(options.output, text)
    Console().print(f"Written to {options.output}: {len(tables)} tables of {options.results_dir}.")


def anchor(title: str) -> str:
    """The name by which a heading is linked to."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _section(table: Path, plots: Path, root: Path) -> tuple[str, str]:
    """Title and text of a table, its headings one level down, with its plots."""
    title, _, body = table.read_text(encoding="utf-8").partition("\n")
    if not title.startswith("# "):
        raise ValueError(f"{table}: expected a title on the first line, got {title!r}")
    # Links of a table go from its own folder, but for those that go elsewhere.
    folder = Path(os.path.relpath(table.parent, root)).as_posix()
    body = _LINK.sub(lambda _: f"]({folder}/", body).replace("\n#", "\n##")
    text = f"## {title[2:]}\n{body}"
    record = table.with_suffix(".json")
    if record.is_file() and (drawn := plot(read_json(record), plots / f"{table.stem}.png")):
        text += f"\n![{title[2:]}]({drawn.relative_to(root).as_posix()})\n"
    return title[2:], text


def plot(result: Found, path: Path) -> Path | None:
    """Draw the ratios of a table of speed, or the scores of one of molecules; others have no plot."""
    rows = [row for row in result.get("rows", ()) if "ratio" in row]
    runs = [run for run in result.get("runs", ()) if "test" in run.get("scores", ())]
    if rows:
        figure, axes = plt.subplots(figsize=(7, 0.8 + 0.14 * len(rows)), layout="constrained")
        draw_ratios(rows, axes)
    elif runs:
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
    else:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)
    plt.close(figure)
    return path


def draw_ratios(rows: Sequence[Found], axes: Axes) -> None:
    """How many times better ours is: median, range over the rounds, and goal."""
    for height, row in enumerate(reversed(rows)):
        axes.plot([row["low"], row["high"]], [height, height], color="tab:blue", linewidth=1)
        axes.plot(row["ratio"], height, "o", markersize=4, color="tab:blue")
    axes.set_yticks(
        range(len(rows)), [f"{row['what']} / {row['against']}" for row in reversed(rows)], fontsize=5
    )
    axes.set_ylim(-1, len(rows))
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("ratio", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)


def draw_scores(runs: Sequence[Found], axes: Axes) -> None:
    """The test score of every run, by model; the ensemble of a model's own runs stands below them."""
    metric = runs[0]["metric"]
    single = {run["model"] for run in runs if "members" not in run}
    scores: dict[str, list[float]] = {}
    for model in dict.fromkeys(run["model"] for run in runs):
        for run in (run for run in runs if run["model"] == model):
            together = "members" in run and model in single
            scores.setdefault(f"{model}, ensemble" if together else model, []).append(
                run["scores"]["test"][metric]
            )
    for height, values in enumerate(reversed(scores.values())):
        axes.plot(values, [height] * len(values), "o", markersize=3, alpha=0.6)
    axes.set_yticks(range(len(scores)), reversed(scores), fontsize=7)
    axes.set_ylim(-0.5, len(scores) - 0.5)
    axes.set_xlabel(f"test {metric}", fontsize=7)
    axes.tick_params(axis="x", labelsize=6)
