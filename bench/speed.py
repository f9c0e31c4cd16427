"""Speed and memory beside the usual tools: loader, featurizer, steps, epochs, inference, memory, growth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.console import Console

from wlkernelnn.ops.edge_sum import fused

from . import speed_chemprop, speed_contestants, speed_data, speed_growth, speed_memory, speed_race
from .about import about
from .speed_plot import plot
from .speed_tables import Options, Part, Table, merged, printed, read_tables, write_tables

PARTS: dict[str, Part] = {
    "data": speed_data.PART,
    **speed_race.PARTS,
    "memory": speed_memory.PART,
    "growth": speed_growth.PART,
}
QUICK_MOLECULES = 200


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write ``speed.json``, ``.md`` and ``.png`` (quick: ``speed_quick.…``).

    What is there from earlier runs stays, except for the tables that are measured again.

    Args:
        argv: Arguments; default the command line's.
    """
    parser = ArgumentParser(prog="wlkernelnn benchmark speed", description=__doc__)
    parser.add_class_arguments(Options, as_group=False, skip={"quick"})
    parser.add_argument("--quick", action="store_true", help="One setting, little of everything: 2 minutes.")
    parser.add_argument("--output-dir", default="bench/results", help="Folder of the results.")
    arguments = parser.parse_args(argv)
    output = Path(arguments.output_dir)
    options = Options(**{name: arguments[name] for name in vars(Options())})
    chosen = list(PARTS) if options.parts is None else options.parts
    if unknown := set(chosen) - PARTS.keys():
        raise ValueError(f"--parts: unknown {sorted(unknown)}; there are {', '.join(PARTS)}")
    if fused.numba_loops() is None:
        raise ImportError("this benchmark compares with the compiled sums: pip install wlkernelnn[fast]")
    console = Console()
    if options.quick:
        options = replace(options, molecules=min(QUICK_MOLECULES, options.molecules))
        console.print("Quick: few molecules, sizes and rounds. The figures say little.")
    if not speed_chemprop.installed():
        console.print("chemprop is not installed (wlkernelnn\\[chem]): it takes no part.")
    run = about("speed", argv, options.quick, ("numba", "chemprop"))
    stem = output / ("speed_quick" if options.quick else "speed")
    for name in chosen:
        with console.status(f"Measuring: {name}"):
            for setting, records in PARTS[name].measure(options):
                table = Table(name, setting, records, run)
                # At once: what is measured is safe if the rest is not.
                tables = merged(read_tables(stem.with_suffix(".json")), [table], list(PARTS))
                write_tables(tables, PARTS, speed_contestants.LEGEND, stem)
                console.print(printed(table, PARTS[name].cells(table)))
    plot(read_tables(stem.with_suffix(".json")), stem.with_suffix(".png"))
    console.print(f"Written to {stem}.json, .md and .png.")
