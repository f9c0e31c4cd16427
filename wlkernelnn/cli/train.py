"""Train networks on a table of SMILES, and keep them in a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.console import Console
from rich.table import Table

from wlkernelnn.conv import WLKernelConv
from wlkernelnn.files import write_text
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions, train_run

from .data import DataOptions, SplitOptions
from .options import add_options, pick, verb_parser

NETWORK_OPTIONS = (
    "hidden_channels",
    "num_iterations",
    "walk_length",
    "decay",
    "readout",
    "share_walk_weights",
    "all_lengths",
    "gate_scale",
    "pooling",
    "norm",
    "dropout",
)


@dataclass
class RunOptions:
    """Where results go.

    Args:
        output_dir: The run folder: networks, predictions, metrics, config and rejected rows.
        ensemble_size: Networks to train, with seeds seed, seed + 1, …; they predict by their mean.
        resume: Go on with a run that was interrupted.
    """

    output_dir: Path
    ensemble_size: int = 1
    resume: bool = False


def build_parser() -> ArgumentParser:
    parser = verb_parser("train", __doc__)
    add_options(parser, "Data", DataOptions)
    add_options(parser, "Split", SplitOptions)
    add_options(parser, "Run", RunOptions)
    add_options(parser, "Network", GraphKernelNetwork, NETWORK_OPTIONS, docs=WLKernelConv)
    add_options(parser, "Training", FitOptions)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = build_parser()
    parsed = parser.parse_args(argv)
    data_options = DataOptions(**pick(parsed, DataOptions))
    split_options = SplitOptions(**pick(parsed, SplitOptions))
    run_options = RunOptions(**pick(parsed, RunOptions))
    fit_options = FitOptions(**pick(parsed, FitOptions))

    directory = run_options.output_dir
    data = data_options.load(directory / "rejects.csv", split_options.splits_column)
    split_idx, split_name = split_options.apply(data)
    write_text(directory / "config.yaml", parser.dump(parsed))
    _, report = train_run(
        data,
        split_idx,
        directory,
        fit_options,
        network=pick(parsed, GraphKernelNetwork, NETWORK_OPTIONS),
        ensemble_size=run_options.ensemble_size,
        resume=run_options.resume,
    )

    unit = f", {data.description.unit}" if data.description.unit else ""
    table = Table(title=f"{data.description.name}, {split_name} split: {report['metric']}{unit}")
    table.add_column("part")
    table.add_column("molecules", justify="right")
    table.add_column(report["metric"], justify="right")
    for part, count in report["counts"].items():
        table.add_row(part, f"{count:,}", f"{report[part]:.4f}" if part in report else "")
    console = Console()
    console.print(table)
    console.print(
        f"{report['parameters']:,} parameters, trained in {report['seconds']:.0f} s; run folder: {directory}"
    )
