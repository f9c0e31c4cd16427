"""The page of an evaluation: scores, plots and errors of a run on molecules that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.training.classes import output_names
from wlkernelnn.training.molecules.columns import Model, kernel_machine
from wlkernelnn.utils.files import write_text

from .page import escaped, number, page, paragraph, tiles
from .repeat import dated
from .run import by_class, data_section
from .sections import (
    TITLES,
    Errors,
    Predicted,
    calibration,
    class_tables,
    predictions,
    quantile_table,
    score_tables,
)


def write_evaluation_page(
    path: Path,
    model: Model,
    data: PackedGraphs,
    columns: Sequence[str],
    mean: np.ndarray,
    std: np.ndarray | None,
    scores: dict[str, Any],
    model_path: str,
    note: str = "",
) -> Path:
    """Write the page.

    Args:
        path: Of the page.
        model: What predicted; a kernel machine knows its training molecules.
        data: The molecules with their targets.
        columns: Names of the targets.
        mean, std: Predictions and their deviations, ``[len(data), T]``.
        scores: ``mean`` and ``targets``, see :func:`~wlkernelnn.training.molecules.metrics.all_scores`, and
            ``quantiles``, if they are predicted, see :func:`~wlkernelnn.training.quantile_scores`.
        model_path: The run folder.
        note: What to know first.
    """
    about, several = model.about, model.about["task"] in SEVERAL_CLASSES
    task, unit = "regression" if about["task"] == "regression" else "classification", about.get("unit") or ""
    data, title = by_class(data, about), f"{', '.join(columns[:3])}{' …' if len(columns) > 3 else ''}"
    columns = output_names(about) if several else columns
    part = Predicted(data, data.measured.numpy(), mean, std)
    machine = kernel_machine(model)
    train = None if machine is None else machine.process_.X_train_
    if train is not None and list(about["target_names"]) != list(columns):
        train = None  # its targets are others, or in another order
    errors = Errors(columns, task, unit, part, train)
    figures = [(number(value), TITLES.get(name, name)) for name, value in list(scores["mean"].items())[:4]]
    top = tiles([*figures, (f"{len(data):,}", "molecules")])
    if note:
        top += f"<p><b>{escaped(note)}</b></p>"
    if len(scores["targets"]) > 1:
        top += paragraph(f"Scores are means over {len(columns)} targets.", soft=True)
    name = "molecules"
    sections = [
        ("", top),
        ("Scores", score_tables({name: scores}, name)),
        ("Data", data_section(data, {name: part}, about)),
        ("Predictions", class_tables(scores, name) + predictions(columns, task, unit, {name: part})),
        ("Calibration", calibration(columns, task, unit, part) + quantile_table(scores)),
        ("Worst predictions", errors.cards()),
        ("Applicability", errors.applicability()),
    ]
    title += f": {data.description.name}"
    write_text(path, page(title, dated(), sections, paragraph(f"Model: {model_path}")))
    return path
