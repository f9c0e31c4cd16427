"""The run folder of networks: what lies where, of what data a run is, and which networks are finished."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from wlkernelnn.datasets import Vocabulary
from wlkernelnn.machines.saved import is_machine
from wlkernelnn.machines.texts import is_text_machine
from wlkernelnn.utils.checks import check_count
from wlkernelnn.utils.files import (
    atomic_path,
    clear_unfinished,
    json_text,
    read_json,
    understood,
    write_text,
)

from .callbacks import DivergedError
from .checkpoint import CONFIG, WEIGHTS, save_checkpoint
from .loop import FitResult, check_accelerator
from .options import ON_MACHINES, LoopOptions

logger = logging.getLogger("wlkernelnn")

# The data, network and options that a run was begun with; input rows of each part, counted from 0; scores.
ORIGIN, SPLITS, REPORT = "origin.json", "splits.json", "metrics.json"
# What a machine writes, whatever it is of.
MACHINE_FILES = (CONFIG, WEIGHTS, "README")
# What a folder with a joint model has: its weights, and the folders of both parts.
JOINT_FILE, MACHINE, NETWORKS = "joint.json", "machine", "networks"
# What the folder of an estimator of scikit-learn has.
ESTIMATOR = "estimator.json"
# What folders of a cross-validation and of a search for options have.
FOLDS_FILE, STUDY = "folds.json", "study.jsonl"


def network_folders(directory: Path) -> list[Path]:
    """``model_0``, ``model_1``, … of a run folder, in the order of their numbers."""
    folders = [folder for folder in directory.glob("model_*") if folder.name[6:].isdecimal()]
    return sorted(folders, key=lambda folder: int(folder.name[6:]))


def finished_folders(path: Path) -> list[Path]:
    """The folders of a run's networks, or the one folder of a network.

    Raises:
        FileNotFoundError: No network lies there, or the training of the run has not ended.
    """
    if (path / CONFIG).is_file():
        return [path]
    origin, folders = read_origin(path), network_folders(path)
    size = len(folders) if origin is None else origin["ensemble_size"]
    folders = folders[:size]  # a run that was resumed for fewer networks leaves the others alone
    if not folders:
        raise FileNotFoundError(f"{path}: expected a run folder with model_0, …, or a folder with {CONFIG}")
    for folder in folders:
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"{folder}: no {CONFIG}, so its training has not ended: resume the run")
    if len(folders) < size:
        raise FileNotFoundError(
            f"{path}: {len(folders)} of {size} networks, so its training has not ended: resume the run"
        )
    return folders


def check_alike(folders: Sequence[Path], abouts: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """Refuse networks whose ``about`` lacks one of the keys, or differs in one."""
    for folder, about in zip(folders, abouts, strict=True):
        for key in keys:
            if key not in about:
                raise ValueError(f"{folder / CONFIG}: missing key about.{key}")
            if about[key] != abouts[0][key]:
                raise ValueError(f"{folder}: {key} is {about[key]!r}, but {abouts[0][key]!r} in {folders[0]}")


def read_origin(directory: Path) -> dict[str, Any] | None:
    """The ``origin.json`` of a run folder; ``None`` where there is none."""
    path = directory / ORIGIN
    if not path.is_file():
        return None
    with understood(path, "a run writes it"):
        origin = read_json(path)
        check_count("ensemble_size", origin["ensemble_size"])
        return {name: origin[name] for name in ("ensemble_size", "data", "kind", "network", "options")}


def check_free(directory: str | os.PathLike[str], *files: str) -> None:
    """Raise an error if the folder holds a run already, or is a file.

    Args:
        directory: The folder.
        files: Names of what will be written: none may be there, unless a run that failed was begun there.
    """
    if Path(directory).is_file():
        raise NotADirectoryError(f"{directory} is a file, expected a folder")
    directory = Path(directory)
    if is_machine(directory) or is_text_machine(directory):
        raise FileExistsError(f"{directory} holds a run already, of a machine: choose another folder")
    begun = [directory, directory / NETWORKS]
    if any(map(network_folders, begun)) or (directory / JOINT_FILE).is_file():
        raise FileExistsError(f"{directory} holds a run already: resume it, or choose another folder")
    for name, what in ((FOLDS_FILE, "a cross-validation"), (STUDY, "a search for options")):
        if (directory / name).is_file():
            raise FileExistsError(f"{directory} holds {what} already: resume it, or choose another folder")
    _check_others(directory, files)


def _check_others(directory: Path, files: Collection[str]) -> None:
    begun = any((directory / name).is_file() for name in (FOLDS_FILE, STUDY)) or _has_splits(directory)
    for path in (directory / name for name in files):
        if path.exists() and not begun:
            raise FileExistsError(f"{path} is not of a run, and would be overwritten: choose another folder")


def _has_splits(directory: Path) -> bool:
    """Whether there are splits as a run writes them; chemprop calls its list so, too."""
    try:
        return isinstance(read_json(directory / SPLITS), dict)
    except (OSError, ValueError):
        return False


def check_resumable(directory: Path, *files: str) -> None:
    """Raise an error if the folder holds a machine, or networks without a note of how they were trained.

    Args:
        directory: The folder, which may hold no run: then one begins there.
        files: Names of what will be written: none may be there where no run was begun.
    """
    if is_machine(directory) or is_text_machine(directory):
        raise ValueError(f"{directory}: holds a machine, which does not go on: choose another folder")
    finished = [folder for folder in network_folders(directory) if (folder / CONFIG).is_file()]
    if finished and not (directory / ORIGIN).is_file():
        raise ValueError(
            f"{directory}: holds networks without the {ORIGIN} of their run: choose another folder"
        )
    _check_others(directory, files)


def check_same_data(directory: Path, data: str) -> None:
    """Raise an error if networks in a run folder were trained on data of another digest."""
    for path in directory.rglob(ORIGIN):
        if (there := read_origin(path.parent)) is not None and there["data"] != data:
            raise ValueError(f"{path}: the run to resume has other data: their content differs")


def begin_run(
    directory: Path,
    rows: Mapping[str, list[int]],
    *,
    data: str,
    kind: str,
    network: Mapping[str, Any],
    options: LoopOptions,
    ensemble_size: int,
    resume: bool,
) -> None:
    """Write what a run is of, if the folder is free, or the run to resume is of the same.

    Args:
        directory: The run folder.
        rows: Input rows of each part, counted from 0.
        data: Digest of the data.
        kind, network: The class of the networks, or its short name, and its arguments.
        options: How to train.
        ensemble_size: Number of networks, which may change.
        resume: Go on with the run that lies there, if there is one.

    Raises:
        FileExistsError: The folder holds a run, or scores that are not of one, and ``resume`` is off.
        ValueError: The run to resume has another split, other data, another network or other options.
    """
    if not resume:
        check_free(directory, REPORT)
    told = {name: value for name, value in asdict(options).items() if name not in ON_MACHINES}
    origin = {"data": data, "kind": kind, "network": network, "options": told}
    origin = json.loads(json.dumps(origin))  # as it comes from a file
    splits = directory / SPLITS
    if resume:
        if splits.is_file() and read_json(splits) != rows:
            raise ValueError(f"{splits}: the run to resume has another split than the one given")
        check_resumable(directory, REPORT)
        if (there := read_origin(directory)) is None:
            logger.info(f"{directory.absolute()}: no run to resume, so one is begun")
        else:
            check_same_data(directory, data)
            for name, value in origin.items():
                if _given(there[name]) != _given(value):
                    path = directory / ORIGIN
                    raise ValueError(
                        f"{path}: the run to resume has {name} {there[name]}, and this is {value}"
                    )
    write_splits(directory, rows)
    write_text(directory / ORIGIN, json.dumps({"ensemble_size": ensemble_size, **origin}) + "\n")


def write_splits(directory: Path, rows: Mapping[str, list[int]]) -> None:
    """Write the input rows of each part, counted from 0."""
    write_text(directory / SPLITS, json.dumps(rows) + "\n")


def _given(value: Any) -> Any:
    """What a run was told; earlier versions lack options that have a default of nothing."""
    return (
        {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value
    )


@torch.random.fork_rng(devices=[])
def train_networks(
    directory: Path,
    seeded: Sequence[Any],
    build: Callable[[], torch.nn.Module],
    fit: Callable[..., FitResult],
    about: Mapping[str, Any],
    *,
    vocabulary: Vocabulary | None = None,
    resume: bool,
) -> None:
    """Train the networks of a run that are not finished, one after the other.

    Random numbers of the caller's, on a processor, go on as if there had been no training.

    Args:
        directory: The run folder.
        seeded: The options of each network, with a seed of its own.
        build: Makes a network; its initial weights are drawn from the seed.
        fit: Trains one: called with it, its options, ``directory`` and ``resume``.
        about: What its checkpoint says of it; ``seconds`` is added.
        vocabulary: Of models that read tokens.
        resume: Go on with a network that was interrupted.
    """
    for i, options in enumerate(seeded):
        folder = directory / f"model_{i}"
        clear_unfinished(folder)
        if (folder / CONFIG).is_file():
            shutil.rmtree(folder / "training", ignore_errors=True)  # of a run killed since
            continue
        torch.manual_seed(options.seed)
        net = build()
        logger.info(f"network {i + 1} of {len(seeded)}, seed {options.seed}")
        try:
            result = fit(net, options, directory=folder / "training", resume=resume)
        except DivergedError:
            if i == 0 and not resume:
                shutil.rmtree(folder)  # nothing to go on with, and other options want the place
            raise
        if result.score == result.score:  # NaN without validation data
            logger.info(f"kept epoch {result.epoch + 1}: valid_{result.metric} {result.score:.4g}")
        with atomic_path(folder / "history.csv") as temporary:
            pd.DataFrame(result.history).to_csv(temporary, index=False)
        # Last: a folder with a config is a finished network.
        seconds = {"seconds": sum(result.epoch_seconds)}
        save_checkpoint(folder, net, {**about, **seconds}, vocabulary)
        shutil.rmtree(folder / "training", ignore_errors=True)


def seconds_of(folders: Sequence[Path]) -> float:
    """How long the networks of these folders were trained."""
    return float(sum(read_json(folder / CONFIG)["about"].get("seconds", 0.0) for folder in folders))


def with_seeds(options: Any, ensemble_size: int) -> list[Any]:
    """Options of every network of an ensemble, with a seed each; what needs no data is checked.

    Raises:
        ValueError: ``ensemble_size`` < 1, seeds beyond those that there are, or an accelerator that this
            machine lacks.
    """
    size = check_count("ensemble_size", ensemble_size)
    check_accelerator(options)
    return [replace(options, seed=options.seed + i) for i in range(size)]


def write_report(path: str | os.PathLike[str], report: dict[str, Any]) -> None:
    """Write scores as JSON; NaN, which JSON lacks, becomes null."""
    write_text(path, json_text(report, indent=2))
