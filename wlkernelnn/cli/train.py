"""Train networks on a table of SMILES, and keep them in a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from wlkernelnn.models import SHORT_NAMES, GraphKernelNetwork
from wlkernelnn.training import FitOptions, check_free, train_run
from wlkernelnn.training.molecules.run import PARTS, check_resumable, ensemble_options
from wlkernelnn.utils.files import alone_in, write_text

from .data import DataOptions, SplitOptions
from .options import add_options, config_text, option_name, pick, verb_parser
from .scores import shown

SHARED_OPTIONS = ("hidden_channels", "walk_length", "decay", "pooling", "norm", "dropout")
# Options that a network alone has.
OWN_OPTIONS = {
    "wl": ("num_iterations", "readout", "share_walk_weights", "all_lengths", "gate_scale"),
    "stack": ("num_layers", "compose", "jumping", "virtual_node", "layer_dropout"),
}

# What a resumed run may be given anew: it changes no network.
MAY_DIFFER = ("config", "output_dir", "ensemble_size", "resume", "num_workers", "root")


@dataclass
class RunOptions:
    """Where results go.

    Args:
        output_dir: The run folder: networks, predictions, metrics, config and rejected rows.
        network: The layers: "wl", a Weisfeiler-Lehman kernel layer, or "stack", deep kernel layers one upon
            another.
        ensemble_size: Networks to train, with seeds seed, seed + 1, …; they predict by their mean.
        resume: Go on with a run that was interrupted; all other options as they were (--config takes the
            config.yaml of the run folder).
    """

    output_dir: Path
    network: Literal["wl", "stack"] = "wl"
    ensemble_size: int = 1
    resume: bool = False


def build_parser() -> ArgumentParser:
    parser = verb_parser("train", __doc__)
    add_options(parser, "Data", DataOptions)
    add_options(parser, "Split", SplitOptions)
    add_options(parser, "Run", RunOptions)
    add_options(parser, "Network", GraphKernelNetwork, SHARED_OPTIONS)
    for name, own in OWN_OPTIONS.items():
        add_options(parser, f"Network {name}", SHORT_NAMES[name], own)
    add_options(parser, "Training", FitOptions)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = build_parser()
    parsed = parser.parse_args(argv)
    data_options = DataOptions(**pick(parsed, DataOptions))
    split_options = SplitOptions(**pick(parsed, SplitOptions))
    run_options = RunOptions(**pick(parsed, RunOptions))
    fit_options = FitOptions(**pick(parsed, FitOptions))

    # All that can be refused before data are read.
    ensemble_options(fit_options, run_options.ensemble_size)
    network, own = SHORT_NAMES[run_options.network], OWN_OPTIONS[run_options.network]
    network_options = pick(parsed, network, SHARED_OPTIONS + own)
    _check_network(parser, parsed)
    network.check_arguments(**network_options)
    _check_schedule(parser, parsed, fit_options.schedule)
    directory = run_options.output_dir
    written = ["rejects.csv", *(f"{part}_predictions.csv" for part in PARTS)]
    if Path(data_options.data_path).resolve() in [(directory / name).resolve() for name in written]:
        raise ValueError(f"--data-path: {data_options.data_path} is a file that the run would overwrite")
    config_path = directory / "config.yaml"
    if not run_options.resume:
        check_free(directory)
    else:
        check_resumable(directory)
        if config_path.is_file():
            _check_same(parser, parsed, config_path)
    with alone_in(directory):
        data = data_options.load(directory / "rejects.csv", split_options.splits_column)
        split_idx, split_name = split_options.apply(data)
        parsed.resume = False  # the file says what the run is, not how it came about
        write_text(config_path, config_text(parser, parsed))
        try:
            _, report = train_run(
                data,
                split_idx,
                directory,
                fit_options,
                kind=network.__name__,
                network=network_options,
                ensemble_size=run_options.ensemble_size,
                resume=run_options.resume,
            )
        except KeyboardInterrupt as error:
            resume = f"{error} (--config {config_path} --resume goes on)"
            raise KeyboardInterrupt(resume.lstrip()) from None

    unit = f", {data.description.unit}" if data.description.unit else ""
    print(f"{data.description.name}: {report['metric']}{unit} (split: {split_name})")
    table = Table()
    table.add_column("part")
    table.add_column("molecules", justify="right")
    table.add_column(report["metric"], justify="right")
    for part, count in report["counts"].items():
        table.add_row(part, f"{count:,}", shown(report[part]) if part in report else "")
    Console().print(table)
    if data.rejects:
        print(f"{len(data.rejects):,} rows were rejected, see {directory / 'rejects.csv'}")
    print(
        f"{report['parameters']:,} parameters, trained in {report['seconds']:.0f} s; run folder: {directory}"
    )


def _check_schedule(parser: ArgumentParser, parsed: Namespace, schedule: str) -> None:
    """Options of another schedule than the chosen one would do nothing."""
    of_schedules = {
        "lr_min": ("cosine", "exponential"),
        "lr_decay": ("exponential",),
        "lr_decay_samples": ("exponential",),
    }
    for option, schedules in of_schedules.items():
        if schedule not in schedules and parsed[option] != parser.get_default(option):
            raise ValueError(
                f"{option_name(option)} is an option of --schedule {' and '.join(schedules)}, "
                f"but the schedule is {schedule}"
            )


def _check_network(parser: ArgumentParser, parsed: Namespace) -> None:
    """Options of another network than the chosen one would do nothing."""
    for name, own in OWN_OPTIONS.items():
        for option in own:
            if name != parsed.network and parsed[option] != parser.get_default(option):
                raise ValueError(
                    f"{option_name(option)} is an option of --network {name}, "
                    f"but the network is {parsed.network}"
                )


def _check_same(parser: ArgumentParser, parsed: Namespace, config_path: Path) -> None:
    """Networks of one run are trained alike: a resumed run takes the options it was started with."""
    before = parser.parse_path(config_path)
    for name, value in before.items():
        if name not in MAY_DIFFER and parsed[name] != value:
            raise ValueError(
                f"{config_path}: the run to resume has {name}={value!r}, but {parsed[name]!r} is given"
            )
