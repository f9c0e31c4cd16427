"""The parts of a run's data, and what is written of their predictions and scores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wlkernelnn.datasets import PackedGraphs, molecule_ids, shared_molecules
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.training.classes import decided, of_all_classes, probability_columns
from wlkernelnn.training.folder import REPORT, write_report
from wlkernelnn.utils.checks import repeated
from wlkernelnn.utils.files import atomic_path

from .columns import Forecast, Model, forecast, has_deviations, levels_of, quantile_columns
from .metrics import all_scores, score, score_tasks, unscored
from .trained_on import write_training_ids
from .uncertainty import quantile_scores, uncertainty

logger = logging.getLogger("wlkernelnn")


def parts_of(data: PackedGraphs, split_idx: dict[str, np.ndarray]) -> dict[str, PackedGraphs]:
    """The parts that are there, in the order of ``PARTS``; warns of molecules in two of them, and of classes
    that the training part lacks.

    Raises:
        ValueError: The training part is missing, a part is unknown, or two parts share graphs.
    """
    if unknown := set(split_idx) - set(PARTS):
        raise ValueError(
            f"split_idx: expected parts {', '.join(PARTS)}, got {', '.join(sorted(unknown))} too"
        )
    parts = {name: data[split_idx[name]] for name in PARTS if len(split_idx.get(name, ()))}
    if "train" not in parts:
        raise ValueError("the split has no training part")
    for (name, part), (other, others) in combinations(parts.items(), 2):
        if len(both := np.intersect1d(part.index, others.index)):
            raise ValueError(f"split_idx: {len(both):,} graphs are in {name} and in {other}; expected none")
    if said := shared_molecules(data.smiles, split_idx):
        logger.warning(f"the parts are not apart: {said}. Their scores flatter the model")
    there = np.unique(parts["train"].measured.numpy()).tolist()
    if without := [name for number, name in enumerate(data.classes) if number not in there]:
        logger.warning(
            f"no training graph is of class {', '.join(without)}: what is predicted of it means nothing"
        )
    return parts


def rows_of(parts: dict[str, PackedGraphs]) -> dict[str, list[int]]:
    """Input rows of each part, counted from 0."""
    return {name: part.row.tolist() for name, part in parts.items()}


def scored(
    directory: Path,
    model: Model,
    parts: dict[str, PackedGraphs],
    seconds: float,
    train_prediction: np.ndarray | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Write predictions of all parts, and the report of their scores.

    Args:
        directory: The run folder.
        model: What was trained.
        parts: Of its data.
        seconds: Of the training.
        train_prediction: Predictions of the training molecules by what was fitted to others ``[n, T]``, NaN
            where there are none; by default the model itself predicts them.
        more: Entries of the report.

    Returns:
        The report. ``scores`` has all metrics of each part, see :func:`all_scores`; ``train_predictions``
        says whether those of the training part are ``"fitted"`` or ``"left out"``; ``in_training`` counts the
        rows of other parts whose molecules stand in the training part, if there are any. ``uncertainty`` and
        ``quantiles`` are those of the test part, where predictions have deviations, or quantiles.
    """
    bounds = {
        name: int((part.censored != 0).sum()) for name, part in parts.items() if part.censored is not None
    }
    metric, names = model.about["metric"], model.about["target_names"]
    classes, ordered = model.about.get("classes", ()), model.about["task"] == "ordinal"
    report: dict[str, Any] = {
        "metric": metric,
        "parameters": model.num_parameters,
        "seconds": round(seconds, 1),
        "counts": {name: len(part) for name, part in parts.items()},
        **more,
    }
    if bounds:
        report["censored"] = bounds
        shown = ", ".join(f"{count:,} of {name}" for name, count in bounds.items())
        logger.info(f"scores are of measured values; bounds, which are left out: {shown}")
    if len(names) > 1:
        report["targets"] = {}
    report |= {"train_predictions": "fitted" if train_prediction is None else "left out", "scores": {}}
    if shared := _shared(parts):
        report["in_training"] = shared
    write_training_ids(directory, parts["train"].smiles)
    for name, part in parts.items():
        target = part.measured.numpy()
        if name == "train":
            mean = forecast(model, part).mean if train_prediction is None else train_prediction
            found = Forecast(mean)
            target = np.where(np.isnan(mean[:, : len(names)]), np.nan, target)  # not all are left out
        else:
            mean, std, quantiles = found = forecast(model, part)
        report["scores"][name] = all_scores(model.about["task"], names, target, mean, classes)
        with atomic_path(directory / f"{name}_predictions.csv") as temporary:
            levels = levels_of(model)
            table = _predictions(part, names, found, levels, name != "train", classes, ordered)
            table.to_csv(temporary, index=False)
        if name == "train":
            continue
        report[name] = score(metric, target, mean, ordered)
        each = score_tasks(metric, target, mean, ordered)
        if len(names) > 1:
            report["targets"][name] = dict(zip(names, each.tolist(), strict=True))
        if (what := unscored(metric, names, each)) and np.isfinite(mean).all():
            logger.warning(f"{name}: {what}")
        if name == "test" and std is not None and has_deviations(model):
            report["uncertainty"] = uncertainty(names, target, mean, std)
        if name == "test" and quantiles is not None:
            report["quantiles"] = quantile_scores(names, target, quantiles, levels)
    write_report(directory / REPORT, report)
    return report


def _shared(parts: dict[str, PackedGraphs]) -> dict[str, int]:
    """Rows of each other part whose molecules stand in the training part, where there are any."""
    ids = {name: molecule_ids(part.smiles) for name, part in parts.items()}
    counts = {name: int(np.isin(ids[name], ids["train"]).sum()) for name in ids if name != "train"}
    return {name: count for name, count in counts.items() if count}


def check_target_names(
    names: Sequence[str], classes: Sequence[str] = (), quantiles: Sequence[float] = ()
) -> None:
    """Refuse names of targets by which columns of the files of predictions could not be told."""
    columns = ["row", "smiles", *(f"{name}{end}" for name in names for end in ("", "_pred", "_std"))]
    for name in names:
        columns += [*probability_columns(name, classes), *quantile_columns(name, quantiles)]
    if twice := repeated(columns):
        raise ValueError(
            f"targets {', '.join(names)}: files of predictions have columns row, smiles, and of every target "
            f"<target>, <target>_pred and <target>_std; {', '.join(twice)} would be there twice"
        )


def _predictions(
    data: PackedGraphs,
    names: list[str],
    found: Forecast,
    levels: Sequence[float],
    with_smiles: bool,
    classes: Sequence[str],
    ordered: bool,
) -> pd.DataFrame:
    """Of the training part without SMILES: networks and linear machines keep no training molecules.

    Classes with names stand there by their names, and the probability of each.
    """
    mean, std, quantiles = found
    columns: dict[str, Any] = {"row": data.row.numpy() + 1}
    if with_smiles and (smiles := data.smiles):
        columns["smiles"] = smiles
    if classes:
        probability, known = of_all_classes(mean), np.isfinite(mean).all(axis=1)
        for name, code, there in (
            (names[0], data.measured[:, 0].numpy(), ~data.measured[:, 0].isnan().numpy()),
            (f"{names[0]}_pred", decided(probability, ordered), known),
        ):
            columns[name] = [classes[int(c)] if k else None for c, k in zip(code, there, strict=True)]
        columns |= dict(zip(probability_columns(names[0], classes), probability.T, strict=True))
        return pd.DataFrame(columns)
    for task, name in enumerate(names):
        columns[name] = data.measured[:, task].numpy()
        columns[f"{name}_pred"] = mean[:, task]
        if std is not None:
            columns[f"{name}_std"] = std[:, task]
        if quantiles is not None:
            columns |= dict(zip(quantile_columns(name, levels), quantiles[:, task].T, strict=True))
    return pd.DataFrame(columns)
