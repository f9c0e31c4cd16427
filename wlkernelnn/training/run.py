"""A run folder: the networks of one training, what they were trained on, and how well they do."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdkit
import torch

from wlkernelnn.checks import check_count, plain
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.descriptors import descriptor_names
from wlkernelnn.files import alone_in, atomic_path, json_text, write_text
from wlkernelnn.models import NETWORKS, ColourCache, GraphNetwork
from wlkernelnn.models.colour_cache import CAPACITY

from .callbacks import DivergedError
from .checkpoint import CONFIG, load_checkpoint, save_checkpoint
from .fit import check_fit, fit
from .loop import check_accelerator
from .metrics import get_metric, score, score_tasks
from .options import FitOptions
from .predict import BATCH, embed, predict

logger = logging.getLogger("wlkernelnn")

PARTS = ("train", "valid", "test")
# In a run folder: what it was begun with.
ORIGIN = "origin.json"


@dataclass
class Ensemble:
    """Networks that predict together, by their mean.

    Attributes:
        networks: Trained networks of the same targets.
        about: ``features``, ``target_names``, ``task``, ``metric``, ``unit`` and ``name`` of their data set.
    """

    networks: list[GraphNetwork]
    about: dict[str, Any]

    def caches(self) -> list[ColourCache]:
        """An empty cache for each network, for many calls of :meth:`predict`; together as large as one."""
        return [ColourCache(max(1, CAPACITY // len(self.networks))) for _ in self.networks]

    def predict(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the networks, each ``[len(data), num_tasks]``.

        Args:
            data: Graphs.
            batch_size: Graphs at once.
            caches: What the networks computed before, see :meth:`caches`.

        Raises:
            ValueError: ``data`` was made by another featurizer.
        """
        each = np.stack(self._each(predict, data, batch_size, caches))
        return each.mean(0), each.std(0)

    def embed(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> np.ndarray:
        """The vectors before the heads of all networks, side by side, ``[len(data), Σ channels]``.

        Args:
            data, batch_size, caches: See :meth:`predict`.

        Raises:
            ValueError: ``data`` was made by another featurizer.
        """
        return np.concatenate(self._each(embed, data, batch_size, caches), axis=1)

    def _each(
        self,
        compute: Callable[[GraphNetwork, PackedGraphs, int, ColourCache | None], np.ndarray],
        data: PackedGraphs,
        batch_size: int,
        caches: Sequence[ColourCache] | None,
    ) -> list[np.ndarray]:
        if data.description.features != self.about["features"]:
            raise ValueError(
                f"the networks were trained on features {self.about['features']!r}, "
                f"the data have {data.description.features!r}"
            )
        pairs = zip(self.networks, caches or self.caches(), strict=True)
        return [compute(net, data, batch_size, cache) for net, cache in pairs]

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for net in self.networks for p in net.parameters())


def load_ensemble(path: str | os.PathLike[str]) -> Ensemble:
    """The networks of a run folder (``model_0``, ``model_1``, …), or the one network of such a folder.

    Raises:
        FileNotFoundError: No network lies there, or the training of the run has not ended.
        ValueError: A file is damaged, the networks are of different targets or features, or they were trained
            on other descriptors than this RDKit has.
    """
    path = Path(path)
    folders = [path] if (path / CONFIG).is_file() else _networks_of(path)
    if not folders:
        raise FileNotFoundError(f"{path}: expected a run folder with model_0, …, or a folder with {CONFIG}")
    for folder in folders:
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"{folder}: no {CONFIG}, so its training has not ended: resume the run")
    if (size := _ensemble_size(path)) is not None and len(folders) < size:
        raise FileNotFoundError(
            f"{path}: {len(folders)} of {size} networks, so its training has not ended: resume the run"
        )
    loaded = [load_checkpoint(folder) for folder in folders]
    first = loaded[0][1]
    for folder, (_, about) in zip(folders, loaded, strict=True):
        for key in ("features", "target_names", "task"):
            if key not in about:
                raise ValueError(f"{folder / CONFIG}: missing key about.{key}")
            if about[key] != first[key]:
                raise ValueError(f"{folder}: {key} is {about[key]!r}, but {first[key]!r} in {folders[0]}")
    _check_descriptors(path, first)
    return Ensemble([net for net, _ in loaded], first)


def _check_descriptors(path: Path, about: dict[str, Any]) -> None:
    """The name of the features says "RDKit's descriptors": those are others in another RDKit."""
    if (trained := about.get("descriptors")) is None or trained == (here := descriptor_names()):
        return
    gone, new = sorted(set(trained) - set(here)), sorted(set(here) - set(trained))
    raise ValueError(
        f"{path}: the networks were trained on {len(trained)} descriptors, and RDKit {rdkit.__version__} has "
        f"{len(here)}, without {', '.join(gone) or 'none of theirs'}, with {', '.join(new) or 'no others'}, "
        "or in another order: predict with the RDKit of the training"
    )


def _network_folders(directory: Path) -> list[Path]:
    """``model_0``, ``model_1``, … of a run folder."""
    numbers = (folder.name.removeprefix("model_") for folder in directory.glob("model_*"))
    return [directory / f"model_{i}" for i in sorted(int(number) for number in numbers if number.isdecimal())]


def _ensemble_size(directory: Path) -> int | None:
    """How many networks a run is to have; nothing is known of a folder of one network."""
    return _origin(directory)["ensemble_size"] if (directory / ORIGIN).is_file() else None


def _networks_of(directory: Path) -> list[Path]:
    """The folders of the networks of a run: one that was resumed for fewer leaves the others alone."""
    return _network_folders(directory)[: _ensemble_size(directory)]


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
    counted from 1, as in messages), ``metrics.json`` and ``origin.json`` (what a run to resume is of).

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
            training part or with an unknown one, names of targets that columns of predictions could not be
            told by, other data, split, network or options than the run to resume has, or the data don't fit
            the options.
        FileExistsError: The folder holds a run already, and ``resume`` is off; or another process trains
            there.
        NotADirectoryError: ``directory`` is a file.
    """
    directory, options = Path(directory), options or FitOptions()
    network = {name: plain(value) for name, value in (network or {}).items()}
    seeded = ensemble_options(options, ensemble_size)
    if kind not in NETWORKS:
        raise ValueError(f"kind: expected {' or '.join(NETWORKS)}, got {kind!r}")
    if unknown := set(split_idx) - set(PARTS):
        raise ValueError(
            f"split_idx: expected parts {', '.join(PARTS)}, got {', '.join(sorted(unknown))} too"
        )
    parts = {name: data[split_idx[name]] for name in PARTS if len(split_idx.get(name, ()))}
    if "train" not in parts:
        raise ValueError("the split has no training part")
    task = data.task or "regression"
    about: dict[str, Any] = {
        "features": data.description.features,
        "target_names": _names_of_targets(data),
        "task": task,
        "metric": check_fit(parts["train"], parts.get("valid"), task, options),
        "unit": data.description.unit,
        "name": data.description.name,
    }
    if "rdkit" in data.description.features.split("+"):
        about["descriptors"] = descriptor_names()
    told = {name: value for name, value in asdict(options).items() if name != "accelerator"}
    origin = {"data": data.digest(), "kind": kind, "network": network, "options": told}
    with alone_in(directory):
        if not resume:
            check_free(directory)
        _begin(
            directory, {name: part.row.tolist() for name, part in parts.items()}, origin, len(seeded), resume
        )
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
        return ensemble, _scored(directory, ensemble, parts)


def _begin(
    directory: Path, rows: dict[str, list[int]], origin: dict[str, Any], ensemble_size: int, resume: bool
) -> None:
    """Write what a run is of, if a run to resume is of the same."""
    splits = directory / "splits.json"
    origin = json.loads(json.dumps(origin))  # as it comes from a file
    if resume:
        if splits.is_file() and json.loads(splits.read_text(encoding="utf-8")) != rows:
            raise ValueError(f"{splits}: the run to resume has another split than the one given")
        if not (directory / ORIGIN).is_file():
            logger.info(f"{directory.absolute()}: no run to resume, so one is begun")
        else:
            for name, value in origin.items():
                if (there := _origin(directory)[name]) != value:
                    raise ValueError(
                        f"{directory / ORIGIN}: the run to resume has {name} {there}, and this is {value}"
                    )
    write_text(splits, json.dumps(rows) + "\n")
    write_text(directory / ORIGIN, json.dumps({"ensemble_size": ensemble_size, **origin}) + "\n")


def _scored(directory: Path, ensemble: Ensemble, parts: dict[str, PackedGraphs]) -> dict[str, Any]:
    """Write predictions of the parts that are not trained on, and the report of their scores."""
    trained = [load_checkpoint(folder)[1] for folder in _networks_of(directory)]
    metric, names = ensemble.about["metric"], ensemble.about["target_names"]
    report: dict[str, Any] = {
        "metric": metric,
        "parameters": ensemble.num_parameters,
        "seconds": round(sum(about.get("seconds", 0.0) for about in trained), 1),
        "counts": {name: len(part) for name, part in parts.items()},
    }
    if len(names) > 1:
        report["targets"] = {}
    for name in (name for name in parts if name != "train"):
        mean, std = ensemble.predict(parts[name])
        target = parts[name].y.numpy()
        report[name] = score(metric, target, mean)
        if len(names) > 1:
            each = score_tasks(metric, target, mean)
            report["targets"][name] = dict(zip(names, each.tolist(), strict=True))
            if without := [names[task] for task in np.flatnonzero(np.isnan(each))]:
                logger.warning(
                    f"{name}: {metric} is the mean of {len(names) - len(without)} of {len(names)} targets; "
                    f"too few values, or a single class, have {', '.join(without)}"
                )
        table = _predictions(parts[name], names, mean, std if len(ensemble.networks) > 1 else None)
        with atomic_path(directory / f"{name}_predictions.csv") as temporary:
            table.to_csv(temporary, index=False)
    write_report(directory / "metrics.json", report)
    return report


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


def _names_of_targets(data: PackedGraphs) -> list[str]:
    """Names of the targets, numbers where they have none."""
    names = list(data.description.target_names) or [f"y{i + 1}" for i in range(data.num_tasks)]
    check_target_names(names)
    return names


def check_target_names(names: Sequence[str]) -> None:
    """Refuse names of targets by which columns of the files of predictions could not be told.

    Raises:
        ValueError: They could not.
    """
    columns = ["row", "smiles", *(f"{name}{end}" for name in names for end in ("", "_pred", "_std"))]
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        raise ValueError(
            f"targets {', '.join(names)}: files of predictions have columns row, smiles, and of every target "
            f"<target>, <target>_pred and <target>_std; {', '.join(twice)} would be there twice"
        )


def _origin(directory: Path) -> dict[str, Any]:
    path = directory / ORIGIN
    try:
        origin = json.loads(path.read_text(encoding="utf-8"))
        return {name: origin[name] for name in ("ensemble_size", "data", "kind", "network", "options")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not as a run writes it ({type(error).__name__}: {error})") from error


def check_free(directory: str | os.PathLike[str]) -> None:
    """Raise an error if the folder holds a run already, or is a file."""
    if Path(directory).is_file():
        raise NotADirectoryError(f"{directory} is a file, expected a folder")
    if _network_folders(Path(directory)):
        raise FileExistsError(f"{directory} holds a run already: resume it, or choose another folder")


def write_report(path: str | os.PathLike[str], report: dict[str, Any]) -> None:
    """Write scores as JSON; NaN, which JSON lacks, becomes null."""
    write_text(path, json_text(report, indent=2))


def _predictions(
    data: PackedGraphs, names: list[str], mean: np.ndarray, std: np.ndarray | None
) -> pd.DataFrame:
    columns: dict[str, Any] = {"row": data.row.numpy() + 1}
    if smiles := data.smiles:
        columns["smiles"] = smiles
    for task, name in enumerate(names):
        columns[name] = data.y[:, task].numpy()
        columns[f"{name}_pred"] = mean[:, task]
        if std is not None:
            columns[f"{name}_std"] = std[:, task]
    return pd.DataFrame(columns)
