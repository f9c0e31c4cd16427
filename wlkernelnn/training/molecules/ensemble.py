"""Networks that predict together, and the run folder in which they lie."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rdkit

from wlkernelnn.datasets import PackedGraphs, get_features
from wlkernelnn.datasets.graphs.packed import check_packed
from wlkernelnn.datasets.molecules.additions import descriptor_names
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.models.colour_cache import CAPACITY
from wlkernelnn.training.checkpoint import CONFIG, load_checkpoint
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_count

from .prediction import embed, predict

# In a run folder: what it was begun with.
ORIGIN = "origin.json"
# What the networks of an ensemble are told about their data, all the same.
COMMON = ("features", "target_names", "task")


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
        check_packed("data", data)
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
    folders = [path] if (path / CONFIG).is_file() else networks_of(path)
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
    for folder, (net, about) in zip(folders, loaded, strict=True):
        _check_about(folder / CONFIG, about, net)
        for key in COMMON:
            if about[key] != first[key]:
                raise ValueError(f"{folder}: {key} is {about[key]!r}, but {first[key]!r} in {folders[0]}")
    _check_descriptors(path, first)
    return Ensemble([net for net, _ in loaded], first)


def _check_about(path: Path, about: dict[str, Any], net: GraphNetwork) -> None:
    """What is needed to predict is there, and is of the network."""
    for key in COMMON:
        if key not in about:
            raise ValueError(f"{path}: missing key about.{key}")
    if about["features"] != "":  # graphs that are no molecules
        try:
            get_features(about["features"])
        except ValueError as error:
            raise ValueError(f"{path}: about.features: {error}") from error
    names, num_tasks = about["target_names"], net.target_mean.numel()
    if not isinstance(names, list) or len(names) != num_tasks or not all(isinstance(n, str) for n in names):
        raise ValueError(f"{path}: about.target_names: expected {num_tasks} names, got {names!r}")
    if about["task"] != net.task:
        raise ValueError(f"{path}: about.task: expected {net.task!r}, the network's, got {about['task']!r}")


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


def network_folders(directory: Path) -> list[Path]:
    """``model_0``, ``model_1``, … of a run folder."""
    numbers = (folder.name.removeprefix("model_") for folder in directory.glob("model_*"))
    return [directory / f"model_{i}" for i in sorted(int(number) for number in numbers if number.isdecimal())]


def _ensemble_size(directory: Path) -> int | None:
    """How many networks a run is to have; nothing is known of a folder of one network."""
    return origin_of(directory)["ensemble_size"] if (directory / ORIGIN).is_file() else None


def networks_of(directory: Path) -> list[Path]:
    """The folders of the networks of a run: one that was resumed for fewer leaves the others alone."""
    return network_folders(directory)[: _ensemble_size(directory)]


def origin_of(directory: Path) -> dict[str, Any]:
    path = directory / ORIGIN
    try:
        origin = json.loads(path.read_text(encoding="utf-8"))
        check_count("ensemble_size", origin["ensemble_size"])
        return {name: origin[name] for name in ("ensemble_size", "data", "kind", "network", "options")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not as a run writes it ({type(error).__name__}: {error})") from error
