"""Options that benchmarks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from wlkernelnn.cli.options import VerbParser, add_options, pick

RESULTS = Path("bench/results")

T = TypeVar("T")


@dataclass
class TableOptions:
    """Where results go.

    Args:
        output_dir: Folder of the table, as Markdown and JSON; of a quick run runs/quick by default.
        quick: Little of everything: only to see that everything works.
    """

    output_dir: Path = RESULTS
    quick: bool = False

    def __post_init__(self) -> None:
        if self.quick and self.output_dir.resolve() == RESULTS.resolve():
            # It would replace a table that took days.
            self.output_dir = self.quick_results

    @property
    def quick_results(self) -> Path:
        return Path("runs/quick")


def parsed(
    name: str,
    description: str | None,
    options: type[T],
    argv: list[str] | None,
    defaults: Mapping[str, Any] | None = None,
) -> T:
    """The options of a benchmark: the fields of a dataclass, by default from the command line."""
    parser = VerbParser(f"benchmark {name}", description)
    add_options(parser, "Options", options)
    parser.set_defaults(dict(defaults or {}))
    return options(**pick(parser.parse_args(argv), options))
