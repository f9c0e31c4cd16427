"""Speed and memory beside the usual tools: loader, featurizer, steps, epochs, inference, memory, growth."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.harness.provenance import about
from wlkernelnn.bench.harness.tables import printed
from wlkernelnn.bench.harness.trained import chosen
from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.ops.graph import fused

from . import contestants, data, growth, race
from .plot import plot
from .tables import Options, Part, Table, merged, read_tables, write_tables

PARTS: dict[str, Part] = {
    "data": data.PART,
    **race.PARTS,
    "memory": growth.MEMORY,
    "growth": growth.GROWTH,
}
QUICK_MOLECULES = 200


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write ``speed.json``, ``.md`` and ``.png`` (quick: ``speed_quick.…``).

    What is there from earlier runs stays, except for the tables that are measured again.

    Args:
        argv: Arguments; default the command line's.
    """
    parser = verb_parser("benchmark speed", __doc__)
    add_options(parser, "Options", Options)
    options = Options(**pick(parser.parse_args(argv), Options))
    parts = chosen("parts", options.parts, PARTS)
    if fused.numba_loops() is None:
        raise ImportError("this benchmark compares with the compiled sums: pip install -e '.[fast]'")
    console = Console()
    if options.quick:
        options = replace(options, molecules=min(QUICK_MOLECULES, options.molecules))
        console.print("Quick: few molecules, sizes and rounds. The figures say little.")
    if not chemprop.installed():
        console.print("chemprop is not installed (wlkernelnn\\[chem]): it takes no part.")
    run = about("speed", argv, options.quick, ("chemprop",))
    stem = options.output_dir / ("speed_quick" if options.quick else "speed")
    for name in parts:
        with console.status(f"Measuring: {name}"):
            for setting, records in PARTS[name].measure(options):
                table = Table(name, setting, records, run)
                # At once: what is measured is safe if the rest is not.
                tables = merged(read_tables(stem.with_suffix(".json")), [table], list(PARTS))
                write_tables(tables, PARTS, contestants.LEGEND, stem)
                console.print(printed(PARTS[name].cells(table), table.printed_title))
    plot(read_tables(stem.with_suffix(".json")), stem.with_suffix(".png"))
    console.print(f"Written to {stem}.json, .md and .png.")
