"""A benchmark of networks that are trained: its options, its runs, its tables and its words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from wlkernelnn.training import DivergedError

from .cells import Record
from .options import parsed
from .parameters import count_parameters
from .runs import Table, fill
from .trained import TrainedOptions, about_training, kept

# Makes a run, or takes the one that was made: from options and what is known of the call, its record.
Run = Callable[[Any, Record], Record]


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    title: str
    published: Any = "–"  # by others
    arguments: dict[str, Any] = field(default_factory=dict)  # of its network
    training: dict[str, Any] = field(default_factory=dict)  # options that differ from those of the other rows
    trained: bool = True  # a network, with seeds and epochs


@dataclass(frozen=True)
class Page:
    """A table, and the runs that fill it."""

    table: Table
    runs: Iterable[Run]  # each made when it is asked for
    stem: str = ""  # of its files; by default the name of the benchmark
    same_data: Callable[[Record], bool] = lambda run: True  # whether a run of the file is of the same data
    completed: Callable[[list[Record]], list[Record]] = list  # adds what follows from the runs: ensembles
    draw: Callable[[list[Record], Path], None] | None = None  # writes a picture of all runs


@dataclass(frozen=True)
class Experiment:
    """A benchmark whose networks are trained once and kept."""

    name: str  # as `wlkernelnn benchmark` knows it
    about: str | None  # for --help
    options: type[TrainedOptions]
    pages: Callable[[Any], Iterable[Page]]  # its tables, of the options
    packages: tuple[str, ...] = ()  # that its figures depend on, beside those of every benchmark
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of options, if not those of the class

    def main(self, argv: list[str] | None = None) -> None:
        """Train, score, print the tables, and write each as Markdown and JSON."""
        options = parsed(self.name, self.about, self.options, argv, self.defaults)
        known = about_training(self.name, argv, options, *self.packages)
        for page in self.pages(options):
            stem = options.output_dir / (page.stem or self.name.replace("-", "_"))
            runs = (run(options, known) for run in page.runs)
            found = fill(stem, page.table, known, runs, page.same_data, page.completed)
            if found and page.draw:
                page.draw(found, stem.with_suffix(".png"))


@dataclass(frozen=True)
class Trial:
    """A network that is trained and scored: a run of a row."""

    names: tuple[str, ...]  # its folder below that of the benchmark's runs
    recipe: Any  # options of the training, with the seed and all epochs
    build: Callable[[], Any]  # makes the network; torch is seeded
    fit: Callable[..., Any]  # trains it by a recipe, with `directory` and `resume`
    score: Callable[[Any, Any], Record]  # of the trained network and its FitResult
    says: Record  # more for the record
    count: Callable[[Any], Record] = lambda network: {"parameters": count_parameters(network)}

    def __call__(self, options: TrainedOptions, known: Record) -> Record:
        """Train, or go on with what lies there, or take what was finished."""
        epochs, folder = options.limit(self.recipe.epochs), options.folder(*self.names)

        def train() -> Record:
            torch.manual_seed(self.recipe.seed)
            network = self.build()
            record = {"seed": self.recipe.seed, "recipe": asdict(self.recipe), **self.count(network)}
            limited = replace(self.recipe, epochs=epochs)
            return {**record, **self.says, **self._outcome(network, limited, folder), **known}

        return kept(folder, epochs, train, known)

    def _outcome(self, network: torch.nn.Module, limited: Any, folder: Path) -> Record:
        """Epochs, seconds, history and scores; or the epoch, counted from 0, in which training diverged."""
        try:
            fitted = self.fit(network, limited, directory=folder, resume=True)
        except DivergedError as error:
            return {"epochs": error.epoch, "stopped": True, "diverged": error.epoch}
        if self.recipe.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
            network.cuda()  # Lightning leaves it on the CPU
        trained = len(fitted.history)
        return {
            "epochs": trained,
            # With patience a recipe may end before its last epoch.
            "stopped": trained == self.recipe.epochs or trained < limited.epochs,
            "best_epoch": fitted.epoch,
            **self.score(network, fitted),
            "seconds": sum(fitted.epoch_seconds),
            "history": fitted.history,
        }
