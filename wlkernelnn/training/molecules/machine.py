"""Fit a kernel machine of a run folder, and say how well it does."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import MoleculeMachine, save_machine
from wlkernelnn.utils.files import alone_in, write_text

from .metrics import get_metric, score
from .run import check_free
from .scoring import SPLITS, check_target_names, parts_of, rows_of, scored


def train_machine(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    *,
    model: str = "auto",
    metric: str | None = None,
    seed: int = 0,
) -> tuple[MoleculeMachine, dict[str, Any]]:
    """Fit a kernel machine to the training part, keep it in a folder, and score it.

    The folder then holds ``config.json``, ``model.safetensors``, ``molecules.safetensors`` (the training
    molecules with their targets, see ``README`` there), ``splits.json``, ``valid_predictions.csv``,
    ``test_predictions.csv`` and ``metrics.json``, as a run of networks does: see :func:`train_run`.

    Args:
        data, split_idx, directory: See :func:`train_run`. The validation part is scored only.
        model: See :class:`~wlkernelnn.machines.MoleculeMachine`.
        metric: In which it is scored; default the data set's own.
        seed: Of what is drawn.

    Returns:
        The machine and the content of ``metrics.json``, with the score of the training part's leave-one-out
        predictions.

    Raises:
        ValueError: A split as :func:`train_run` refuses it, an unknown metric, or data that
            :meth:`MoleculeMachine.fit` refuses.
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
        machine = MoleculeMachine(model, random_state=seed).fit(parts["train"])
        seconds = time.perf_counter() - begin
        if metric is not None:
            machine.about["metric"] = metric
        left = score(machine.about["metric"], parts["train"].y.numpy(), machine.leave_one_out())
        save_machine(directory, machine)
        chosen = {"leave_one_out": left, "choice": machine.choice_, "errors": machine.errors_}
        return machine, scored(directory, machine, parts, seconds, **chosen)
