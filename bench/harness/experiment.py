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
from .runs import Runs, Table
from .trained import TrainedOptions, about_training, kept

# Makes a run, or takes the one that was made: of options and what is known of the call, its record.
Run = Callable[[Any, Record], Record]


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        title: What it is.
        published: What others report.
        arguments: Of its network.
        training: Options of the training, where they are not those of the other rows.
        trained: Whether it is a network, which seeds and epochs matter to.
    """

    title: str
    published: Any = "–"
    arguments: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    trained: bool = True


@dataclass(frozen=True)
class Page:
    """A table, and the runs that fill it.

    Attributes:
        table: What it looks like.
        runs: Those of this call, each made when it is asked for.
        stem: Name of its files; by default that of the benchmark.
        stays: Whether a run that the file has is of the same data, see :class:`~.runs.Runs`.
        completed: Adds to the runs what follows from them, such as ensembles.
        draw: Writes a picture of all runs to a path.
    """

    table: Table
    runs: Iterable[Run]
    stem: str = ""
    stays: Callable[[Record], bool] = lambda run: True
    completed: Callable[[list[Record]], list[Record]] = list
    draw: Callable[[list[Record], Path], None] | None = None


@dataclass(frozen=True)
class Experiment:
    """A benchmark whose networks are trained once and kept.

    Attributes:
        name: As ``wlkernelnn benchmark`` knows it.
        about: For ``--help``.
        options: Those of its command.
        pages: Its tables, of the options.
        packages: What its figures depend on beside the packages of every benchmark.
        defaults: Of options, where they are not those of the class.
    """

    name: str
    about: str | None
    options: type[TrainedOptions]
    pages: Callable[[Any], Iterable[Page]]
    packages: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def main(self, argv: list[str] | None = None) -> None:
        """Train, score, print the tables, and write each as Markdown and JSON.

        Args:
            argv: Arguments; default the command line's.
        """
        options = parsed(self.name, self.about, self.options, argv, self.defaults)
        known = about_training(self.name, argv, options, *self.packages)
        for page in self.pages(options):
            stem = options.output_dir / (page.stem or self.name.replace("-", "_"))
            runs = Runs(stem, page.table, known, page.stays)
            found = runs.fill((run(options, known) for run in page.runs), page.completed)
            if found and page.draw:
                page.draw(found, stem.with_suffix(".png"))


@dataclass(frozen=True)
class Trial:
    """A network that is trained and scored: a run of a row.

    Attributes:
        names: Its folder below that of the benchmark's runs.
        recipe: Options of the training, with the seed and all epochs.
        build: Makes the network; torch is seeded.
        fit: Trains the network by a recipe, with ``directory`` and ``resume``.
        score: What to say of a network that was trained.
        says: What else its record says.
        count: The size of the network.
    """

    names: tuple[str, ...]
    recipe: Any
    build: Callable[[], Any]
    fit: Callable[..., Any]
    score: Callable[[Any, Any], Record]
    says: Record
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
        """``epochs``, ``stopped``, ``seconds``, ``history`` and scores.

        Of a training that diverged there are the epochs before, and ``diverged``, the epoch, counted from 0,
        in which it did, instead of scores.
        """
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
