"""Train the networks of a run folder, and say how well they do."""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from wlkernelnn.datasets import PackedGraphs, get_features
from wlkernelnn.machines.saved import is_machine
from wlkernelnn.models import NETWORKS
from wlkernelnn.training.callbacks import DivergedError
from wlkernelnn.training.checkpoint import CONFIG, save_checkpoint
from wlkernelnn.training.loop import check_accelerator
from wlkernelnn.training.options import FitOptions
from wlkernelnn.utils.checks import check_count, plain
from wlkernelnn.utils.files import alone_in, atomic_path, read_json, write_text

from .ensemble import ORIGIN, Ensemble, load_ensemble, network_folders, read_origin
from .fitting import check_fit, fit
from .joint import is_joint
from .metrics import get_metric
from .recalibration import FILE as RECALIBRATION
from .recalibration import LEAST_VALUES
from .scoring import SPLITS, check_target_names, parts_of, rows_of, scored

logger = logging.getLogger("wlkernelnn")


def train_run(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    options: FitOptions | None = None,
    *,
    kind: str = "GraphKernelNetwork",
    network: dict[str, Any] | None = None,
    ensemble_size: int = 1,
    resume: bool = False,
    progress: bool = True,
) -> tuple[Ensemble, dict[str, Any]]:
    """Train networks that differ in their seeds, keep them in a folder, and score them.

    The folder then holds ``model_<i>`` for each network (weights, config, ``history.csv``), ``splits.json``
    (input rows of each part, counted from 0), ``valid_predictions.csv`` and ``test_predictions.csv`` (rows
    counted from 1, as in messages), ``metrics.json``, ``origin.json`` (what a run to resume is of) and, of
    numbers with at least 10 validation molecules, ``recalibration.json`` (see :class:`Recalibration`).

    Args:
        data: The whole data set, with targets.
        split_idx: Positions in ``data`` of ``"train"``, and any of ``"valid"`` and ``"test"``.
        directory: The run folder.
        options: How to train; network i takes ``options.seed + i``.
        kind: The class of the networks, of :data:`~wlkernelnn.models.NETWORKS`.
        network: Arguments of that class.
        ensemble_size: Number of networks; one that is resumed may have more or fewer than before.
        resume: Keep the networks that are finished and go on with the one that was interrupted.
        progress: Show a progress bar.

    Returns:
        The ensemble and the content of ``metrics.json``: the scores of the parts, of several targets the
        means of those that can be scored and, in ``targets``, each.

    Raises:
        ValueError: Options that :func:`ensemble_options` refuses, an unknown ``kind``, a split without a
            training part, with an unknown one or with graphs in two parts, names of targets that columns of
            predictions could not be told by, other data, split, network or options than the run to resume
            has or nothing that says what these were, or the data don't fit the options.
        FileExistsError: The folder holds a run already, and ``resume`` is off; or another process trains
            there.
        NotADirectoryError: ``directory`` is a file.
    """
    directory, options = Path(directory), options or FitOptions()
    network = {name: plain(value) for name, value in (network or {}).items()}
    seeded = ensemble_options(options, ensemble_size)
    if kind not in NETWORKS:
        raise ValueError(f"kind: expected {' or '.join(NETWORKS)}, got {kind!r}")
    parts = parts_of(data, split_idx)
    task = data.task or "regression"
    names = list(data.description.target_names) or [f"y{i + 1}" for i in range(data.num_tasks)]
    check_target_names(names)
    about: dict[str, Any] = {
        "features": data.description.features,
        "target_names": names,
        "task": task,
        "metric": check_fit(parts["train"], parts.get("valid"), task, options),
        "unit": data.description.unit,
        "name": data.description.name,
    }
    features = data.description.features
    if features and (descriptors := get_features(features).descriptors):
        about["descriptors"] = [*descriptors]
    told = {name: value for name, value in asdict(options).items() if name != "accelerator"}
    origin = {"data": data.digest(), "kind": kind, "network": network, "options": told}
    with alone_in(directory):
        if not resume:
            check_free(directory)
        _begin(directory, rows_of(parts), origin, len(seeded), resume)
        for i, own in enumerate(seeded):
            folder = directory / f"model_{i}"
            if (folder / CONFIG).is_file():
                continue
            torch.manual_seed(own.seed)
            net = NETWORKS[kind].from_data(parts["train"], **network)
            logger.info(f"network {i + 1} of {len(seeded)}, seed {own.seed}")
            try:
                result = fit(
                    net,
                    parts["train"],
                    parts.get("valid"),
                    own,
                    directory=folder / "training",
                    resume=resume,
                    progress=progress,
                )
            except DivergedError:
                if i == 0 and not resume:
                    shutil.rmtree(folder)  # nothing to go on with, and other options want the place
                raise
            if "valid" in parts:
                logger.info(f"kept epoch {result.epoch}: valid_{result.metric} {result.score:.4g}")
            with atomic_path(folder / "history.csv") as temporary:
                pd.DataFrame(result.history).to_csv(temporary, index=False)
            # Last: a folder with a config is a finished network.
            save_checkpoint(folder, net, about | {"seconds": sum(result.epoch_seconds)})
            shutil.rmtree(folder / "training", ignore_errors=True)
        ensemble = load_ensemble(directory)
        if "valid" in parts:
            ensemble.recalibrate(parts["valid"])
        if ensemble.recalibration is not None:
            ensemble.recalibration.save(directory)
        elif task == "regression" and "valid" in parts:
            logger.info(
                f"predictions will have no deviations of new measurements: {len(parts['valid'])} "
                f"validation molecules, and at least {LEAST_VALUES} with a target are needed"
            )
        folders = network_folders(directory)[: len(ensemble.networks)]
        seconds = [read_json(folder / CONFIG)["about"].get("seconds", 0.0) for folder in folders]
        return ensemble, scored(directory, ensemble, parts, sum(seconds))


def _begin(
    directory: Path, rows: dict[str, list[int]], origin: dict[str, Any], ensemble_size: int, resume: bool
) -> None:
    """Write what a run is of, if a run to resume is of the same."""
    splits = directory / SPLITS
    origin = json.loads(json.dumps(origin))  # as it comes from a file
    if resume:
        if splits.is_file() and read_json(splits) != rows:
            raise ValueError(f"{splits}: the run to resume has another split than the one given")
        check_resumable(directory)
        if (there := read_origin(directory)) is None:
            logger.info(f"{directory.absolute()}: no run to resume, so one is begun")
        else:
            for name, value in origin.items():
                if there[name] != value:
                    path = directory / ORIGIN
                    raise ValueError(
                        f"{path}: the run to resume has {name} {there[name]}, and this is {value}"
                    )
    (directory / RECALIBRATION).unlink(missing_ok=True)  # of other networks
    write_text(splits, json.dumps(rows) + "\n")
    write_text(directory / ORIGIN, json.dumps({"ensemble_size": ensemble_size, **origin}) + "\n")


def ensemble_options(options: FitOptions, ensemble_size: int) -> list[FitOptions]:
    """Options of every network of an ensemble, with a seed each; what needs no data is checked.

    Raises:
        ValueError: ``ensemble_size`` < 1, seeds beyond those that there are, an unknown metric, or an
            accelerator that this machine lacks.
    """
    size = check_count("ensemble_size", ensemble_size)
    if options.metric is not None:
        get_metric(options.metric)
    check_accelerator(options)
    return [replace(options, seed=options.seed + i) for i in range(size)]


def check_free(directory: str | os.PathLike[str]) -> None:
    """Raise an error if the folder holds a run already, or is a file."""
    if Path(directory).is_file():
        raise NotADirectoryError(f"{directory} is a file, expected a folder")
    if network_folders(Path(directory)) or is_machine(directory) or is_joint(directory):
        raise FileExistsError(f"{directory} holds a run already: resume it, or choose another folder")


def check_resumable(directory: Path) -> None:
    """Raise an error if the folder holds finished networks of which nothing says how they were trained."""
    finished = [folder for folder in network_folders(directory) if (folder / CONFIG).is_file()]
    if finished and not (directory / ORIGIN).is_file():
        raise ValueError(
            f"{directory}: holds networks, but no {ORIGIN} says of which run: choose another folder"
        )
