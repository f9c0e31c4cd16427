"""Runs of either kind, networks or a kernel machine, and the columns of tables that they fill."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

from wlkernelnn.datasets import PackedGraphs, get_features
from wlkernelnn.machines import MoleculeMachine, load_machine
from wlkernelnn.machines.saved import digest, is_machine
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_one_of

from .ensemble import KINDS, Ensemble, Kind, check_descriptors, load_ensemble

Model = Ensemble | MoleculeMachine


def load_run(path: str | os.PathLike[str]) -> Model:
    """What a run folder holds: networks, or a kernel machine.

    Raises:
        FileNotFoundError: Neither lies there, or the training of networks has not ended.
        ValueError: A file is damaged, or predictions need other descriptors than this RDKit has.
    """
    if not is_machine(path):
        return load_ensemble(path)
    machine = load_machine(path)
    here = [*get_features(machine.about["features"]).descriptors]
    check_descriptors(Path(path), machine.about["descriptors"], here)
    return machine


def mean_and_std(
    model: Model, data: PackedGraphs, batch_size: int = BATCH
) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions of a run ``[len(data), T]``, and their standard deviations, where it has some.

    Args:
        model: Networks: the mean over them and, of several, their standard deviation; or a kernel machine:
            the mean and, unless of classes, the standard deviation of a new measurement.
        data: Molecules with the features of the training.
        batch_size: Graphs that go through a network at once.

    Raises:
        ValueError: ``data`` have other features.
    """
    if isinstance(model, MoleculeMachine):
        if model.about["task"] == "classification":
            return model.predict(data), None
        mean, std = model.predict(data, return_std=True)
        return mean, std
    mean, std = model.predict(data, batch_size)  # type: ignore[arg-type]  # scikit-learn is untyped
    return mean, std if len(model.networks) > 1 else None


@dataclass(frozen=True)
class Columns:
    """Which columns a row of a table gets.

    Attributes:
        kind: A ``"prediction"`` of each target (of several networks with their standard deviation as
            ``<target>_std``), or a ``"fingerprint"``, which networks have.
        std: Of a kernel machine of numbers: the standard deviation of a new measurement, ``<target>_std``.
        interval: And the bounds within which it lies with this probability, ``<target>_low`` and
            ``<target>_high``.
        nearest: Of a kernel machine: how similar the nearest training molecule is, ``nearest_similarity``.

    Raises:
        ValueError: ``kind`` is not known, or ``interval`` is not between 0 and 1.
    """

    kind: Kind = "prediction"
    std: bool = False
    interval: float | None = None
    nearest: bool = False

    def __post_init__(self) -> None:
        check_one_of("columns", self.kind, KINDS)
        if self.interval is not None and not 0 < self.interval < 1:
            raise ValueError(f"interval must be above 0 and below 1, such as 0.9, got {self.interval!r}")

    def names(self, model: Model) -> list[str]:
        """Names of the columns.

        Raises:
            ValueError: The model has no such columns.
        """
        asked = [name for name in ("std", "interval", "nearest") if getattr(self, name)]
        if isinstance(model, Ensemble):
            if asked == ["std"] and len(model.networks) > 1 and self.kind == "prediction":
                asked = []  # there anyway
            if asked:
                raise ValueError(
                    f"{', '.join(asked)}: a kernel machine has these (train with model auto or gp); networks "
                    "have a standard deviation where there are several, which is not that of a measurement"
                )
            return model.column_names(self.kind)
        if self.kind == "fingerprint":
            raise ValueError(
                "a kernel machine has no fingerprints: it compares molecules by their counts; networks have "
                "some (train with model wl or stack)"
            )
        if asked and asked != ["nearest"] and model.about["task"] == "classification":
            raise ValueError(f"{asked[0]}: classes have probabilities and no {asked[0]}")
        ends = ["", *(["_std"] if self.std else []), *(["_low", "_high"] if self.interval else [])]
        names = [f"{name}{end}" for name in model.about["target_names"] for end in ends]
        return [*names, *(["nearest_similarity"] if self.nearest else [])]

    def values(
        self,
        model: Model,
        data: PackedGraphs,
        batch_size: int = BATCH,
        caches: Sequence[ColourCache] | None = None,
    ) -> np.ndarray:
        """The values of :meth:`names`, float32 ``[len(data), len(names)]``.

        Args:
            model, data: What predicts, and for which graphs.
            batch_size: Graphs that go through a network at once.
            caches: See :meth:`Ensemble.caches`.
        """
        if isinstance(model, Ensemble):
            return model.column_values(self.kind, data, batch_size, caches)
        if self.std or self.interval:
            mean, std = model.predict(data, return_std=True)
        else:
            mean, std = model.predict(data), None
        each = [mean]
        if self.std:
            each.append(std)
        if self.interval:
            half = norm.ppf((1 + self.interval) / 2) * std
            each += [mean - half, mean + half]
        values = np.stack(each, axis=2).reshape(len(mean), len(each) * mean.shape[1])
        if self.nearest:
            values = np.column_stack([values, model.nearest(data)[0]])
        return values.astype(np.float32)


def digests(model: Model) -> list[str]:
    """SHA-256 of all that predictions depend on: of each network, or of the machine."""
    return [digest(model)] if isinstance(model, MoleculeMachine) else [*map(_of_network, model.networks)]


def _of_network(net: GraphNetwork) -> str:
    result = hashlib.sha256(json.dumps(net.config, sort_keys=True).encode())
    for name, tensor in sorted(net.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.cpu().contiguous().numpy().tobytes())
    return result.hexdigest()


def caches_of(model: Model) -> list[ColourCache] | None:
    """What networks remember over many calls; a machine has nothing to remember."""
    return model.caches() if isinstance(model, Ensemble) else None
