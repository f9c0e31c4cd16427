"""Runs of either kind, networks or a kernel machine, and the columns of tables that they fill."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.files.targets import float32_resolves
from wlkernelnn.machines import LinearMachine, MoleculeMachine, load_machine
from wlkernelnn.machines.saved import digest, is_machine
from wlkernelnn.models import ColourCache
from wlkernelnn.training.checkpoint import digest as network_digest
from wlkernelnn.training.classes import decided, of_all_classes, probability_columns
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_one_of, check_predictions

from .ensemble import KINDS, Ensemble, Forecast, Kind, check_this_rdkit, load_ensemble
from .joint import NETWORKS, JointModel, is_joint, load_joint
from .recalibration import FILE, LEAST_VALUES

logger = logging.getLogger("wlkernelnn")

Model = Ensemble | MoleculeMachine | LinearMachine | JointModel


def load_run(path: str | os.PathLike[str]) -> Model:
    """What a run folder holds: networks, a machine, or both.

    Raises:
        FileNotFoundError: Neither lies there, or the training of networks has not ended.
        ValueError: A file is damaged, or predictions need other features than this RDKit gives.
    """
    if not is_machine(path) and not is_joint(path):
        return load_ensemble(path)
    model = load_joint(path) if is_joint(path) else load_machine(path)
    check_this_rdkit(Path(path), model.about)
    return model


def kernel_machine(model: Model) -> MoleculeMachine | None:
    """The kernel machine of a run, which knows its training molecules."""
    machine = model.machine if isinstance(model, JointModel) else model
    return machine if isinstance(machine, MoleculeMachine) else None


def forecast(
    model: Model,
    data: PackedGraphs,
    batch_size: int = BATCH,
    caches: Sequence[ColourCache] | None = None,
) -> Forecast:
    """Predictions of a run, the standard deviation of a new measurement of each, and quantiles.

    Args:
        model: Networks, see :meth:`Ensemble.forecast`; or a kernel machine, which has no deviations of
            classes, and no quantiles.
        data: Molecules with the features of the training.
        batch_size: Graphs that go through a network at once.
        caches: See :meth:`Ensemble.caches`.

    Raises:
        ValueError: ``data`` have other features.
        NotFiniteError: A prediction is not finite.
    """
    if isinstance(model, Ensemble):
        return model.forecast(data, batch_size, caches)
    if model.about["task"] != "regression":
        mean, std = model.predict(data), None
    else:
        mean, std = model.predict(data, return_std=True)
    check_predictions(mean)
    return Forecast(mean, std)


def mean_and_std(
    model: Model,
    data: PackedGraphs,
    batch_size: int = BATCH,
    caches: Sequence[ColourCache] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The first two of :func:`forecast`, each ``[len(data), T]``."""
    mean, std, _ = forecast(model, data, batch_size, caches)
    return mean, std


def columns_read(model: Model, given: str | Sequence[str] | None) -> str | list[str] | None:
    """The columns of SMILES that are read for a model: one, several that are joined, or ``None``: smiles.

    Args:
        model: Knows the columns that it was trained on, if they were joined.
        given: Other columns, or the same.

    Raises:
        ValueError: As many columns are not what the model was trained on.
    """
    trained = model.about.get("smiles_columns", ())
    names = [given] if isinstance(given, str) else [*(trained if given is None else given)]
    if len(names) > 1 and len(names) != len(trained):
        of = f"SMILES joined from {', '.join(trained)}" if trained else "one column of SMILES"
        raise ValueError(
            f"smiles_column (--smiles-columns): got {', '.join(names)}; the model was trained on {of}"
        )
    return names if len(names) > 1 else names[0] if names else None


def has_deviations(model: Model) -> bool:
    """Whether :func:`forecast` gives deviations of new measurements: not of classes, nor of networks that
    predict values alone without recalibration.
    """
    if isinstance(model, Ensemble):
        return model.recalibration is not None or model.has_distributions
    return bool(model.about["task"] == "regression")


def doubts(model: Model) -> str:
    """Says whose deviations and quantiles were not fitted to validation errors; nothing of other models."""
    if not isinstance(model, Ensemble):
        return ""
    if model.recalibration is not None:
        return model.recalibration.without(model.about["target_names"])
    return AS_LEARNED if model.has_distributions else ""


def quantile_columns(target: str, levels: Sequence[float]) -> list[str]:
    """Names of the columns of a target's quantiles."""
    return [f"{target}_q{level:g}" for level in levels]


_WHY = (
    f"where {FILE} lies in the run folder: it comes of at least {LEAST_VALUES} validation values of a "
    "target. Here the run had fewer, or is of an earlier version, or this is the folder of one of its "
    "networks"
)
NOT_RECALIBRATED = f"networks have deviations of new measurements {_WHY}"
AS_LEARNED = f"deviations and quantiles are as the networks learned them; they are fitted {_WHY}"


@dataclass(frozen=True)
class Columns:
    """Which columns a row of a table gets.

    Attributes:
        kind: A ``"prediction"`` of each target, or a ``"fingerprint"``, which networks and linear machines
            have. Of classes with names the prediction is the most probable one, or of ordered ones the
            median, and the probability of each, ``<target>_p_<class>``. Networks that predict quantiles have
            ``<target>_q<level>`` too.
        std: Also the standard deviation of a new measurement, ``<target>_std``. Several networks, and those
            that predict it, have this column anyway; without recalibration, and of classes, it is the
            deviation over the networks.
        interval: Also the bounds within which a new measurement lies with this probability, ``<target>_low``
            and ``<target>_high``: of a normal distribution, or two of the quantiles.
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
        if self.kind == "fingerprint":
            if isinstance(model, Ensemble):
                return model.fingerprint_names()
            if isinstance(model, LinearMachine):
                return [f"fp_{number}" for number in range(len(model.frequent_))]
            if isinstance(model, JointModel):
                raise ValueError(f"a joint model has no fingerprints: its networks, in {NETWORKS}, have some")
            raise ValueError(
                "a kernel machine has no fingerprints: it compares molecules by their counts; networks have "
                "some (train with model wl or stack), and linear machines"
            )
        if self.nearest and kernel_machine(model) is None:
            raise ValueError("nearest: a kernel machine has these (train with model auto or gp)")
        several, classes = _have_spread(model), model.about.get("classes", ())
        asked = [name for name in ("std", "interval") if getattr(self, name)]
        if asked and not has_deviations(model):
            if asked != ["std"] or not several:
                of_classes = model.about["task"] != "regression"
                why = f"classes have probabilities and no {asked[0]}" if of_classes else NOT_RECALIBRATED
                raise ValueError(f"{asked[0]}: {why}")
            if model.about["task"] == "regression":
                logger.warning(f"std is that over the networks, which is too small: {NOT_RECALIBRATED}")
        if (asked or several or levels_of(model)) and (warning := doubts(model)):
            logger.warning(warning)
        if self.interval:
            self._outer(model)
        std = ["_std"] if self.std or several else []
        ends = ["", *std, *(["_low", "_high"] if self.interval else [])]
        ends += quantile_columns("", levels_of(model))
        names = [f"{name}{end}" for name in model.about["target_names"] for end in ends]
        if classes:
            names += probability_columns(names[0], classes)
        return [*names, *(["nearest_similarity"] if self.nearest else [])]

    def values(
        self,
        model: Model,
        data: PackedGraphs,
        batch_size: int = BATCH,
        caches: Sequence[ColourCache] | None = None,
    ) -> np.ndarray:
        """The values of :meth:`names`, ``[len(data), len(names)]``: float32, or float64 of predictions that
        float32 cannot tell apart. A class with a name is its number.

        Args:
            model, data: What predicts, and for which graphs.
            batch_size: Graphs that go through a network at once.
            caches: See :meth:`Ensemble.caches`.
        """
        several, classes = _have_spread(model), model.about.get("classes", ())
        if self.kind == "fingerprint" and isinstance(model, Ensemble | LinearMachine):
            return (
                model.embed(data, batch_size, caches)
                if isinstance(model, Ensemble)
                else model.fingerprint(data)
            )
        if not isinstance(model, Ensemble) and not (self.std or self.interval):
            mean, std, quantiles = model.predict(data), None, None
        else:
            mean, std, quantiles = forecast(model, data, batch_size, caches)
        with np.errstate(over="ignore"):
            check_predictions(mean.astype(np.float32))
        if classes:
            mean = of_all_classes(mean)
            mean = np.column_stack([decided(mean, model.about["task"] == "ordinal"), mean])
        each = [mean]
        if std is not None and (self.std or several):
            each.append(std)
        if self.interval and quantiles is not None:
            each += [quantiles[..., q] for q in self._outer(model)]
        elif std is not None and self.interval:
            half = norm.ppf((1 + self.interval) / 2) * std
            each += [mean - half, mean + half]
        if quantiles is not None:
            each += [*np.moveaxis(quantiles, 2, 0)]
        values = np.stack(each, axis=2).reshape(len(mean), len(each) * mean.shape[1])
        if self.nearest and (machine := kernel_machine(model)) is not None:
            values = np.column_stack([values, nearest(machine, data)[0]])
        return values.astype(np.float32 if _float32_will_do(model) else np.float64)

    def _outer(self, model: Model) -> list[int]:
        """Which quantiles bound the interval, of networks that predict quantiles."""
        levels = np.array(levels_of(model))
        ends = [(1 - (self.interval or 0)) / 2, (1 + (self.interval or 0)) / 2]
        found = [
            q for end in ends for q in np.flatnonzero(np.isclose(levels, end, rtol=0, atol=1e-6)).tolist()
        ]
        if len(levels) and len(found) < 2:
            shown = ", ".join(f"{level:g}" for level in levels)
            raise ValueError(
                f"interval={self.interval:g}: these networks predict the quantiles {shown}, and the interval "
                f"needs {ends[0]:g} and {ends[1]:g}: train with these, or take std"
            )
        return found


def levels_of(model: Model) -> tuple[float, ...]:
    """Levels of the quantiles that a run predicts, if it does."""
    return model.quantiles if isinstance(model, Ensemble) else ()


def _have_spread(model: Model) -> bool:
    """Whether networks say how far they, or measurements, lie apart; of classes with names they do not."""
    if not isinstance(model, Ensemble) or "classes" in model.about:
        return False
    return len(model.networks) > 1 or (model.has_distributions and not model.quantiles)


def _float32_will_do(model: Model) -> bool:
    """Whether float32 tells predictions apart, by mean and deviation of the training targets."""
    if isinstance(model, JointModel):
        return _float32_will_do(model.machine)
    if isinstance(model, Ensemble):
        return all(net.target_mean.dtype == torch.float32 for net in model.networks)
    if isinstance(model, LinearMachine):
        mean = model.intercept_
    else:
        mean = np.array([target.mean for target in model.process_.targets_])
    return model.about["task"] != "regression" or bool(float32_resolves(mean, model.scale_).all())


def nearest(machine: MoleculeMachine, data: PackedGraphs) -> tuple[np.ndarray, np.ndarray]:
    """:meth:`MoleculeMachine.nearest`, with a warning of molecules that share no substructure."""
    similarity, row = machine.nearest(data)
    strangers = np.flatnonzero(similarity == 0)
    if len(strangers):
        says = {
            "kernels": "predicts the mean of the training targets, with the deviation of the prior",
            "both": "predicts the mean of the training targets and what descriptors add",
            "descriptors": "compares descriptors alone",
        }
        first = int(data.row[strangers[0]]) + 1
        logger.warning(
            f"{len(strangers):,} of {len(data):,} molecules share no substructure with training molecules "
            f"(similarity 0), first data row {first:,}. There the kernel machine {says[machine.choice_]}"
        )
    return similarity, row


def digests(model: Model) -> list[str]:
    """SHA-256 of all that predictions depend on: of each network and the recalibration, or
    of the machine."""
    if isinstance(model, JointModel):
        return [*digests(model.machine), *digests(model.ensemble), model.digest()]
    if not isinstance(model, Ensemble):
        return [digest(model)]
    text = [] if model.recalibration is None else [model.recalibration.text()]
    return [
        *map(network_digest, model.networks),
        *(hashlib.sha256(each.encode()).hexdigest() for each in text),
    ]


def caches_of(model: Model) -> list[ColourCache] | None:
    """What networks remember over many calls; a machine has nothing to remember."""
    return model.caches() if isinstance(model, Ensemble) else None
