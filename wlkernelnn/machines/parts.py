"""What machines of molecules are made of: kernels, features, targets, rows, memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from wlkernelnn.datasets import PackedGraphs, get_features
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC
from wlkernelnn.datasets.graphs.packed import check_packed
from wlkernelnn.datasets.molecules.probe import probed
from wlkernelnn.kernels import DescriptorKernel, MoleculeKernel, PathKernel, ShortestPathKernel
from wlkernelnn.kernels.graphs.codings import CODINGS
from wlkernelnn.kernels.graphs.codings import FEATURES as OF_CODINGS

from .classifier import of_each

logger = logging.getLogger("wlkernelnn")

#: The features of molecules that the machine compares.
FEATURES = f"{OF_CODINGS}+descriptors"
CHOICES = {"kernels": "kernels", "descriptors": "descriptors", "both": "kernels and descriptors"}


def check_same_features(data: PackedGraphs, fitted: str) -> None:
    """Refuse molecules with other features than those that a machine was fitted to."""
    check_packed("data", data)
    if data.description.features != fitted:
        given = data.description.features
        raise ValueError(f"the machine was fitted to features {fitted!r}, the data have {given!r}")


def kernels_of(choice: str) -> list[Kernel]:
    """The kernels of a choice, which was made by leave-one-out on development sets."""
    kernels: list[Kernel] = [
        *MoleculeKernel().parts,
        ShortestPathKernel(normalize="minmax", coding="fcfp"),
        PathKernel(6, normalize="minmax", coding="ogb"),
    ]
    return {"kernels": kernels, "descriptors": [DescriptorKernel()], "both": [*kernels, DescriptorKernel()]}[
        choice
    ]


def summed(parts: Sequence[Kernel]) -> Kernel:
    """The kernel that is the sum of some."""
    return reduce(add, parts)


def check_columns(features: str) -> None:
    """Refuse features of molecules that a kernel of the machine lacks a column in.

    Raises:
        ValueError: One does.
    """
    found = get_features(features)
    lacking = sorted({name for names in CODINGS.values() for name in names} - {*found.node_columns})
    if not found.descriptors:
        lacking.append("descriptors")
    if lacking:
        raise ValueError(
            f"features {features!r} lack {', '.join(lacking)}: a kernel machine needs {FEATURES!r}, or these "
            "with additions"
        )


def check_targets(data: PackedGraphs) -> None:
    """Refuse targets that a machine does not learn from.

    Raises:
        ValueError: They are ordered classes, or some are bounds.
    """
    if data.task == "ordinal":
        raise ValueError(
            f"target {names_of(data)[0]}: has {len(data.classes)} ordered classes, and a machine does not "
            "learn an order: take a network (model wl or stack)"
        )
    if data.censored is not None:
        raise ValueError(
            f"{int((data.censored != 0).sum()):,} targets are bounds, from which a machine does not learn: "
            "take a network (model wl or stack)"
        )


def about_training(data: PackedGraphs, one_class: bool = False) -> dict[str, Any]:
    """What is kept of training data: names of features, targets, task, metric, unit, descriptors; RDKit.

    Logs a warning of each target that is the same for all molecules.

    Args:
        data: The training molecules.
        one_class: A target may have one class alone.

    Raises:
        TypeError: ``data`` is not packed.
        ValueError: Less than two molecules, or a target without any value or, unless ``one_class``, with one
            class alone.
    """
    check_packed("data", data)
    if len(data) < 2:
        raise ValueError(f"a kernel machine needs at least 2 molecules, got {len(data)} sample(s)")
    about = about_data(data)
    check_targets(data)
    for name, value in constant_targets(data, one_class).items():
        learned = "nothing is learned" if about["task"] == "regression" else "its frequency is predicted"
        logger.warning(f"target {name}: all training molecules have {value:g}: {learned}")
    return about


def about_data(data: PackedGraphs) -> dict[str, Any]:
    """What a model says of its data: features, names of targets and classes, task, metric, RDKit, …"""
    about, task = data.description, data.task or "regression"
    result: dict[str, Any] = {
        "features": about.features,
        "target_names": names_of(data),
        "task": task,
        "metric": about.metric or DEFAULT_METRIC[task],
        "unit": about.unit,
        "name": about.name,
    }
    if len(data.classes) > 1:
        result["classes"] = [*data.classes]
    if about.smiles_columns:
        result["smiles_columns"] = [*about.smiles_columns]
    if about.features:
        result["rdkit"] = probed(about.features)
        if descriptors := get_features(about.features).descriptors:
            result["descriptors"] = [*descriptors]
    return result


def constant_targets(data: PackedGraphs, one_class: bool = False) -> dict[str, float]:
    """Targets that are the same for all training molecules, and their values.

    Raises:
        ValueError: A target without any value or, unless ``one_class``, with one class alone.
    """
    result = {}
    for name, column in zip(names_of(data), data.measured.numpy().T, strict=True):
        known = np.unique(column[~np.isnan(column)])
        if not len(known):
            raise ValueError(f"target {name}: no training molecule has a value of it")
        if len(known) > 1:
            continue
        if data.task == "classification" and not one_class:
            raise ValueError(f"target {name}: expected two classes, all training molecules have {known[0]:g}")
        result[name] = float(known[0])
    return result


def names_of(data: PackedGraphs) -> list[str]:
    """Names of the targets, by default y1, y2, …."""
    return [*data.description.target_names] or [f"y{t + 1}" for t in range(data.num_tasks)]


def targets_of(data: PackedGraphs, about: Mapping[str, Any]) -> np.ndarray:
    """Targets that a machine is fitted to ``[n, T]``, NaN where one is missing: of more than two classes each
    is a target, 0 or 1 (:func:`of_each`). ``about`` is that of the training.
    """
    y = data.measured.numpy()
    return of_each(y, len(about["classes"])) if about["task"] == "multiclass" else y


def places(choice: str) -> range:
    """Which parts of ``both`` a choice has."""
    first, both = len(kernels_of("kernels")), len(kernels_of("both"))
    return {"kernels": range(first), "descriptors": range(first, both), "both": range(both)}[choice]


def drawn_rows(y: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Rows of targets ``[n, T]``: all, or so many, drawn; of each target, as far as it has them, as many."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.random.RandomState(seed).permutation(len(y))
    # A row is as early as in the target in whose rows it comes first.
    place = np.full(len(y), len(y))
    for column in y.T:
        known = order[~np.isnan(column[order])]
        place[known] = np.minimum(place[known], np.arange(len(known)))
    return np.sort(order[np.argsort(place[order], kind="stable")[:most]])


def memory() -> int | None:
    """Bytes of this machine's memory; ``None`` where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
