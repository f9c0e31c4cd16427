"""Fit a kernel machine of a run folder, and say how well it does."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import LinearMachine, MoleculeMachine, save_machine
from wlkernelnn.machines.molecules import MODELS
from wlkernelnn.machines.parts import FEATURES, check_features
from wlkernelnn.utils.files import alone_in, write_text

from .metrics import get_metric, score
from .run import check_free
from .scoring import SPLITS, check_target_names, parts_of, rows_of, scored

#: Machines by the names that users give them.
MACHINES = (*MODELS, "linear")
Machine = MoleculeMachine | LinearMachine


def machine_named(model: str, seed: int) -> Machine:
    """An unfitted machine, of :data:`MACHINES`."""
    return (
        LinearMachine(random_state=seed) if model == "linear" else MoleculeMachine(model, random_state=seed)
    )


def features_for(model: str, features: str | None) -> str:
    """The features of molecules for a model, by default those that its machine, or its network, needs.

    Raises:
        ValueError: A kernel machine lacks a column in them.
    """
    if model.partition("+")[0] not in MODELS:
        return features or "ogb"
    features = features or FEATURES
    check_features(features)
    return features


def train_machine(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    *,
    model: str = "auto",
    metric: str | None = None,
    seed: int = 0,
) -> tuple[Machine, dict[str, Any]]:
    """Fit a machine to the training part, keep it in a folder, and score it.

    The folder then holds ``config.json``, ``model.safetensors``, of a kernel machine
    ``molecules.safetensors`` (the training molecules with their targets), ``README`` (what of the training
    molecules is there), ``splits.json``, ``valid_predictions.csv``, ``test_predictions.csv`` and
    ``metrics.json``, as a run of networks does: see :func:`train_run`.

    Args:
        data, split_idx, directory: See :func:`train_run`. The validation part is scored only.
        model: ``"auto"`` and ``"gp"`` of :class:`~wlkernelnn.machines.MoleculeMachine`, or ``"linear"``, a
            :class:`~wlkernelnn.machines.LinearMachine`.
        metric: In which it is scored; default the data set's own.
        seed: Of what is drawn.

    Returns:
        The machine and the content of ``metrics.json``, with the score of the training part's leave-one-out
        predictions.

    Raises:
        ValueError: A split as :func:`train_run` refuses it, an unknown metric, or data that
            the machine's ``fit`` refuses.
        FileExistsError, NotADirectoryError: As :func:`train_run`.
    """
    directory, parts = Path(directory), parts_of(data, split_idx)
    check_target_names(data.description.target_names)
    if metric is not None:
        get_metric(metric, data.task or "regression")
    with alone_in(directory):
        check_free(directory)
        write_text(directory / SPLITS, json.dumps(rows_of(parts)) + "\n")
        begin = time.perf_counter()
        machine = machine_named(model, seed).fit(parts["train"])
        seconds = time.perf_counter() - begin
        if metric is not None:
            machine.about["metric"] = metric
        left = score(machine.about["metric"], parts["train"].y.numpy(), machine.leave_one_out())
        save_machine(directory, machine)
        chosen = machine.num_iterations_ if isinstance(machine, LinearMachine) else machine.choice_
        more = {"leave_one_out": left, "choice": chosen, "errors": machine.errors_}
        return machine, scored(directory, machine, parts, seconds, **more)
