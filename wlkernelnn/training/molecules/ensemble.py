"""Networks that predict together, and the run folder in which they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import rdkit

from wlkernelnn.datasets import PackedGraphs, get_features
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.datasets.graphs.packed import check_packed
from wlkernelnn.datasets.molecules.probe import check_probed
from wlkernelnn.machines.saved import is_machine
from wlkernelnn.machines.texts import is_text_machine
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.models.base.colour_cache import CAPACITY
from wlkernelnn.training.checkpoint import CONFIG, load_checkpoint, save_checkpoint
from wlkernelnn.training.folder import check_alike, check_free, finished_folders
from wlkernelnn.training.options import BATCH

from .prediction import describe, embed
from .recalibration import Recalibration, shifted

Kind = Literal["prediction", "fingerprint"]
KINDS = ("prediction", "fingerprint")
# Entries of ``about`` that all networks of an ensemble share.
COMMON = ("features", "target_names", "task")
# Of runs whose classes have names.
CLASSES = "classes"


class Forecast(NamedTuple):
    """What a model predicts of new measurements.

    Attributes:
        mean: Values or probabilities, ``[n, T]``; of several classes ``[n, C]``.
        std: Their deviation, in the same shape, if there is one.
        quantiles: ``[n, T, Q]``, of networks trained to predict them.
    """

    mean: np.ndarray
    std: np.ndarray | None = None
    quantiles: np.ndarray | None = None


@final
@dataclass
class Ensemble:
    """Networks that predict together, by their mean.

    Attributes:
        networks: Trained networks of the same targets.
        about: ``features``, ``target_names``, ``task``, ``metric``, ``unit`` and ``name`` of their data set,
            and ``classes``, the names of the classes of the only target, if they have names.
        recalibration: What their spread and quantiles say of a new measurement; ``None`` of classes, of runs
            with too few validation molecules, and of runs of earlier versions.
    """

    networks: list[GraphNetwork]
    about: dict[str, Any]
    recalibration: Recalibration | None = None

    def caches(self) -> list[ColourCache]:
        """An empty cache for each network, for many calls of :meth:`predict`; together as large as one."""
        return [ColourCache(max(1, CAPACITY // len(self.networks))) for _ in self.networks]

    def predict(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread, each ``[len(data), num_tasks]``.

        The spread is the standard deviation over the networks. Of networks that predict distributions it is
        that of their mixture: its square is the mean of their variances and the variance of their means.

        Args:
            data: Graphs.
            batch_size: Graphs at once.
            caches: States of earlier calls, see :meth:`caches`.

        Raises:
            ValueError: ``data`` was made by another featurizer.
        """
        mean, spread, _ = self._predicted(data, batch_size, caches)
        return mean, spread

    def _predicted(
        self, data: PackedGraphs, batch_size: int, caches: Sequence[ColourCache] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, spread, and the mean of all that networks predict, ``[len(data), num_tasks, K]``."""
        outputs = self.networks[0].target
        each = np.stack(self._each(describe, data, batch_size, caches))
        points = each[..., outputs.point]
        # In float64: float32 has no squares of numbers above 1e19 or below 1e-22.
        variance = outputs.variances(each.astype(np.float64)).mean(0) + points.var(0, dtype=np.float64)
        return points.mean(0), np.sqrt(variance).astype(each.dtype), each.mean(0)

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Levels of the quantiles that the networks predict, if they do."""
        return self.networks[0].target.quantiles

    @property
    def has_distributions(self) -> bool:
        """Whether each network says how far measurements lie from its prediction."""
        return self.networks[0].target.width > 1

    def embed(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> np.ndarray:
        """The vectors before the heads of all networks, side by side, ``[len(data), Σ channels]``.

        Arguments and errors are those of :meth:`predict`.
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
        if len(data) and data.description.features != self.about["features"]:
            raise ValueError(
                f"the networks were trained on features {self.about['features']!r}, "
                f"the data have {data.description.features!r}"
            )
        each: Sequence[ColourCache | None] = caches or [None] * len(self.networks)
        return [compute(net, data, batch_size, cache) for net, cache in zip(self.networks, each, strict=True)]

    def forecast(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> Forecast:
        """Mean, deviation of a new measurement and quantiles, recalibrated.

        Without ``recalibration`` the deviation is the spread of :meth:`predict`, and quantiles are as the
        networks learned them. One network that predicts values alone has no deviation. Arguments and errors
        are those of :meth:`predict`.
        """
        mean, spread, described = self._predicted(data, batch_size, caches)
        quantiles, fitted = described if self.quantiles else None, self.recalibration
        if fitted is None:
            several = len(self.networks) > 1 or self.has_distributions
            return Forecast(mean, spread if several else None, quantiles)
        if quantiles is not None and fitted.shift is not None:
            quantiles = shifted(quantiles, fitted.shift, self.quantiles)
        return Forecast(mean, fitted.std(spread), quantiles)

    def mean_and_std(
        self, data: PackedGraphs, batch_size: int = BATCH, caches: Sequence[ColourCache] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The first two of :meth:`forecast`, each ``[len(data), num_tasks]``."""
        mean, std, _ = self.forecast(data, batch_size, caches)
        return mean, std

    def recalibrate(self, valid: PackedGraphs) -> None:
        """Fit ``recalibration`` to molecules with targets that no network was trained on; not of classes."""
        if self.about["task"] != "regression":
            return
        target = valid.measured.numpy()
        mean, spread, described = self._predicted(valid, BATCH, None)
        self.recalibration = Recalibration.fit(
            target,
            mean,
            spread,
            len(self.networks),
            quantiles=described if self.quantiles else None,
            levels=self.quantiles,
            distributions=self.has_distributions,
        )

    def fingerprint_names(self) -> list[str]:
        """``fp_0``, ``fp_1``, … of one network, of several ``fp_<network>_0``, …: names of :meth:`embed`."""
        alone = len(self.networks) == 1
        return [
            f"fp_{channel}" if alone else f"fp_{number}_{channel}"
            for number, net in enumerate(self.networks)
            for channel in range(net.embedding_channels)
        ]

    def save(self, directory: Path) -> None:
        """Write the networks into ``model_0``, … of a folder, and the recalibration.

        Raises:
            FileExistsError: The folder holds a run already.
        """
        check_free(directory)
        for i, net in enumerate(self.networks):
            save_checkpoint(directory / f"model_{i}", net, self.about)
        if self.recalibration is not None:
            self.recalibration.save(directory)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for net in self.networks for p in net.parameters())


def load_ensemble(path: str | os.PathLike[str]) -> Ensemble:
    """The networks of a run folder (``model_0``, ``model_1``, …), or the one network of such a folder.

    Raises:
        FileNotFoundError: No network lies there, or the training of the run has not ended.
        ValueError: The folder holds a kernel machine, a file is damaged, the networks are of different
            targets or features, or they were trained on other features than this RDKit gives.
    """
    path = Path(path)
    if is_machine(path):
        raise ValueError(f"{path}: holds a kernel machine, and this needs networks (model wl or stack)")
    if is_text_machine(path):
        raise ValueError(f"{path}: expected a network of molecules, got a machine of texts")
    folders = finished_folders(path)
    networks, abouts = zip(*map(load_checkpoint, folders), strict=True)
    for folder, net in zip(folders, networks, strict=True):
        if not isinstance(net, GraphNetwork):
            raise ValueError(f"{folder}: expected a network of molecules, got {type(net).__name__}")
        if net.loss != networks[0].loss or net.target.quantiles != networks[0].target.quantiles:
            raise ValueError(f"{folder}: the network has another loss or other quantiles than {folders[0]}")
    about, config = abouts[0], folders[0] / CONFIG
    check_alike(folders, abouts, (*COMMON, CLASSES) if CLASSES in about else COMMON)
    _check_names(config, about, networks[0])
    if about["features"]:  # graphs other than molecules have none
        try:
            get_features(about["features"])
        except ValueError as error:
            raise ValueError(f"{config}: about.features: {error}") from error
    check_this_rdkit(path, about)
    counts = len(networks), len(about["target_names"]), len(networks[0].target.quantiles)
    recalibration = Recalibration.load(path, *counts)
    return Ensemble([*networks], about, recalibration)


def _check_names(config: Path, about: dict[str, Any], net: GraphNetwork) -> None:
    """Refuse names of targets or classes of another number than the network's."""
    several = about["task"] in SEVERAL_CLASSES
    expected = {"target_names": 1 if several else net.num_tasks}
    if several or CLASSES in about:
        expected[CLASSES] = net.num_tasks if several else 2
    for key, number in expected.items():
        if len(about.get(key, ())) != number:
            raise ValueError(f"{config}: about.{key}: expected {number} names, got {about.get(key)!r}")


def check_this_rdkit(path: Path, about: dict[str, Any]) -> None:
    """Refuse a run whose features this RDKit does not give."""
    if "descriptors" in about:
        here = [*get_features(about["features"]).descriptors] if about["features"] else []
        check_descriptors(path, about["descriptors"], here)
    if "rdkit" in about:  # runs of earlier versions lack it
        check_probed(path, about["features"], about["rdkit"])


def check_descriptors(path: Path, trained: list[str], here: list[str]) -> None:
    """The name of the features says "RDKit's descriptors": those are others in another RDKit."""
    if trained == here:
        return
    gone, new = sorted(set(trained) - set(here)), sorted(set(here) - set(trained))
    raise ValueError(
        f"{path}: the run was trained on {len(trained)} descriptors, and RDKit {rdkit.__version__} has "
        f"{len(here)}, without {', '.join(gone) or 'none of theirs'}, with {', '.join(new) or 'no others'}, "
        "or in another order: predict with the RDKit of the training"
    )
