"""Options that benchmarks share: where tables go, and how turns are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from wlkernelnn.cli.options import PositiveInt, add_options, pick, verb_parser

from .timing import Comparison, compare

RESULTS = Path("bench/results")

T = TypeVar("T")
# compare() with the number of rounds filled in.
Timer = Callable[..., Comparison]


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


@dataclass
class RaceOptions(TableOptions):
    """How contestants take turns, and where results go.

    Args:
        threads: Threads of torch.
        rounds: Turns of each contestant; of a quick run always 2.
    """

    threads: PositiveInt = 2
    rounds: PositiveInt = 5

    def timer(self, min_seconds: float) -> Timer:
        """``compare`` with these rounds and turns that take (about) so long; of a quick run, less of both."""
        if self.quick:
            return partial(compare, rounds=2, min_seconds=0.02)
        return partial(compare, rounds=self.rounds, min_seconds=min_seconds)


def parsed(
    name: str,
    description: str | None,
    options: type[T],
    argv: list[str] | None,
    defaults: Mapping[str, Any] | None = None,
) -> T:
    """The options of a benchmark: the fields of a dataclass, by default from the command line."""
    parser = verb_parser(f"benchmark {name}", description)
    add_options(parser, "Options", options)
    parser.set_defaults(dict(defaults or {}))
    return options(**pick(parser.parse_args(argv), options))
