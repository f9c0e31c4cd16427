"""Networks that are trained for a table: options of its command, and runs that are never repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from wlkernelnn.datasets.files.download import require_file
from wlkernelnn.utils.files import json_text, read_json, write_text

from .cells import Record
from .options import TableOptions
from .provenance import PACKAGES, about, revision, versions

# In the folder of a run: its record, once it is finished, and from the start what trains it.
RECORD, MAKER = "result.json", "revision.txt"


@dataclass
class TrainedOptions(TableOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all of the table.
        epochs: Stop after so many epochs; by default the whole recipe. A later run with more goes on.
        seeds: Seeds 0, 1, … of every model.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        run_dir: Folder of checkpoints. Runs that are finished are not repeated, and one that was interrupted
            goes on.
        output_dir: Folder of the table, as Markdown and JSON; of a quick run by default "quick" in the folder
            of checkpoints.
        accelerator: Lightning's: "auto", "cpu", "gpu", …
        matmul_precision: float32 matrix products: "highest", "high" or "medium".
        quick: One epoch of little data: only to see that everything works.

    Raises:
        ValueError: There is nothing to train.
    """

    models: list[str] | None = None
    epochs: int | None = None
    seeds: int = 1
    root: str | None = None
    run_dir: Path = Path("runs")
    accelerator: str = "auto"
    matmul_precision: Literal["highest", "high", "medium"] = "highest"

    def __post_init__(self) -> None:
        for name, value in (("seeds", self.seeds), ("epochs", self.epochs)):
            if value is not None and value < 1:
                raise ValueError(f"--{name}: expected at least 1, got {value}")
        super().__post_init__()

    @property
    def quick_results(self) -> Path:
        return self.run_dir / "quick"

    @property
    def all_seeds(self) -> range:
        """The seeds of a row; a quick run has one."""
        return range(1 if self.quick else self.seeds)

    def of_run(self, seed: int) -> dict[str, Any]:
        """What the recipe of a run takes from the command."""
        return {"seed": seed, "accelerator": self.accelerator, "matmul_precision": self.matmul_precision}

    def limit(self, recipe: int) -> int:
        """Epochs to train, of those of a recipe."""
        if self.quick:
            return 1
        return recipe if self.epochs is None else min(self.epochs, recipe)

    def folder(self, *names: str) -> Path:
        """Where a run lies."""
        return self.run_dir.joinpath("quick" if self.quick else "full", *names)


@dataclass
class ProcessorOptions(TrainedOptions):
    """What is computed, and where results go.

    Args:
        epochs: No row has epochs.
        seeds: No row has several seeds.
        accelerator: All rows are computed on the processor.
        matmul_precision: That of all rows.
    """

    accelerator: Literal["cpu"] = "cpu"
    matmul_precision: Literal["highest"] = "highest"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None:
            raise ValueError(f"--epochs: no row has epochs, got {self.epochs}")
        if self.seeds != 1:
            raise ValueError(f"--seeds: expected 1, since no row has several seeds, got {self.seeds}")


def about_training(name: str, argv: list[str] | None, options: TrainedOptions, *packages: str) -> Record:
    """What a table says of a call that trains: :func:`about`, Lightning's device, torch's threads."""
    more = {"device": device_of(options.accelerator), "threads": torch.get_num_threads()}
    return about(name, argv, options.quick, packages) | more


def device_of(accelerator: str) -> str:
    """What Lightning trains on: the name of the GPU, or "processor"."""
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "processor" if accelerator in ("auto", "cpu") else accelerator


def glove_file(root: str | None) -> Path:
    """The default word vectors."""
    return require_file("glove/glove.6B.100d.subset.txt", root, "GloVe 6B, or give another file with --glove")


def chosen(option: str, wanted: Collection[str] | None, there: Collection[str]) -> list[str]:
    """Names that were asked for, each once, by default all; an unknown name is a ValueError."""
    names = list(dict.fromkeys(there if wanted is None else wanted))
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"--{option}: expected any of {', '.join(there)}, got {', '.join(unknown)}")
    return names


def check_shorten(epochs: int, recipe: int) -> None:
    """Raise a ValueError if a recipe cannot be made that short."""
    if not 1 <= epochs <= recipe:
        raise ValueError(f"--shorten: expected from 1 to {recipe} epochs, the whole recipe, got {epochs}")


def kept(folder: Path, epochs: int, train: Callable[[], Record], known: Mapping[str, Any]) -> Record:
    """The record of a run, from its folder if it was trained for so many epochs (or to its recipe's end).

    Args:
        folder: Of the run.
        epochs: How many are wanted.
        train: Trains, or goes on with a run in the folder. Its record has ``epochs``, those that were
            trained, and ``stopped``, whether the recipe ended there.
        known: What is known of this call, see :func:`about_training`.
    """
    begin(folder, known)
    path = folder / RECORD
    if path.is_file():
        record: Record = read_json(path)
        if record["epochs"] >= epochs or record["stopped"]:
            return record
    record = train()
    write_text(path, json_text(record, indent=1))
    return record


def begin(folder: Path, known: Mapping[str, Any]) -> None:
    """:func:`claim` the folder of a run; a quick one first removes it if its run was made with others."""
    if known.get("mode") == "quick" and _unlike(folder, known):
        shutil.rmtree(folder)
    claim(folder, known)


def claim(folder: Path, known: Mapping[str, Any]) -> None:
    """Write into the folder of a run what trains it: revision, device and versions of packages.

    Raises:
        ValueError: The folder holds a run, finished or not, that was made with others.
    """
    if unlike := _unlike(folder, known):
        name, there, here = unlike
        raise ValueError(
            f"{folder}: holds a run of {name} {there}, and this is {here}: delete it, or name another "
            f"folder, since a run is of one {name}"
        )
    first, *others = _maker(known).items()
    write_text(folder / MAKER, "\n".join([first[1], *(f"{name} {value}" for name, value in others)]) + "\n")


def _maker(known: Mapping[str, Any]) -> dict[str, str]:
    device = {"device": str(known["device"])} if "device" in known else {}
    return {"revision": revision(), **versions(*PACKAGES), **device}


def _unlike(folder: Path, known: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first difference between the maker of a folder's run and this one: its name, there and here."""
    path, begun = folder / RECORD, folder / MAKER
    there: Record = read_json(path) if path.is_file() else {}
    if begun.is_file():
        # The first line is the revision, each other a package with its version, or the device.
        first, *others = begun.read_text(encoding="utf-8").splitlines()
        there |= {"revision": first, **dict(line.split(" ", 1) for line in others)}
    for name, here in _maker(known).items():
        if there.get(name, here) != here:
            return name, there[name], here
    return None
