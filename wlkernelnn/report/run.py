"""The page of a training: data, model, scores, predictions, errors, and how to repeat it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.files.rejects import CHANGES, counted
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.machines.classifier import of_each
from wlkernelnn.training.classes import output_names, probability_columns
from wlkernelnn.training.folder import NETWORKS, network_folders
from wlkernelnn.training.molecules.columns import Model
from wlkernelnn.training.molecules.joint import JointModel
from wlkernelnn.training.molecules.metrics import METRICS, score
from wlkernelnn.utils.files import write_text

from .model import explained
from .page import Html, escaped, number, page, paragraph, row, table, tiles
from .panels import MOST_TARGETS, classes, histogram
from .repeat import dated, learning_curves, repeat
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

#: In a run folder.
PAGE = "report.html"
# Scores at the top of the page, beside the metric.
_IMPORTANT = {
    "regression": ("rmse", "r2"),
    "classification": ("roc_auc", "average_precision"),
    "multiclass": ("accuracy", "f1", "roc_auc"),
    "ordinal": ("mae", "quadratic_kappa", "accuracy"),
}
# Reasons of rejects that are shown.
_REASONS = 12


def write_run_page(
    directory: str | os.PathLike[str],
    model: Model,
    data: PackedGraphs,
    split_idx: Mapping[str, np.ndarray],
    report: Mapping[str, Any],
    *,
    split_name: str = "",
    command: str = "",
    config: str = "",
) -> Path:
    """Write ``report.html`` into a run folder: one file, without scripts, that needs no network.

    Args:
        directory: The folder of :func:`~wlkernelnn.training.train_run`, ``train_machine`` or ``train_joint``.
        model: What was trained.
        data: The whole data set, in memory as it was trained on.
        split_idx: Positions of each part in it.
        report: The content of ``metrics.json``.
        split_name: What the split is called.
        command, config: What repeats the run: a command line, and its options as YAML.

    Returns:
        Where the page is.
    """
    directory, about = Path(directory), model.about
    names, unit = output_names(about), about.get("unit") or ""
    data, task = by_class(data, about), "regression" if about["task"] == "regression" else "classification"
    parts = {
        part: _predicted(directory / f"{part}_predictions.csv", data[split_idx[part]], about)
        for part in report["counts"]
    }
    apart = [part for part in ("test", "valid") if part in parts]
    shown: dict[str, str] = {"Data": data_section(data, parts, about, split_name)}
    shown["Model"] = explained(model, report)
    folders = network_folders(directory / NETWORKS if isinstance(model, JointModel) else directory)
    shown["Learning curves"] = learning_curves(folders, metric := report["metric"], METRICS[metric].maximize)
    first = apart[0] if apart else "train"
    tables = class_tables(report["scores"][first], first)
    shown["Predictions"] = (
        paragraph(about_train(report), soft=True) + tables + predictions(names, task, unit, parts)
    )
    if apart:
        part = apart[0]
        shown["Calibration"] = calibration(names, task, unit, parts[part]) + quantile_table(report)
        errors = Errors(names, task, unit, parts[part], parts["train"].data)
        shown["Worst predictions"] = errors.cards()
        shown["Applicability"] = errors.applicability()
    shown["Repeat"] = repeat(command, config, report)
    top = _top(parts, report, about, unit, apart)
    path = directory / PAGE
    targets = about["target_names"]
    title = f"{', '.join(targets[:3])}{' …' if len(targets) > 3 else ''}: {data.description.name}"
    foot = (
        "This page shows molecules and targets of the data, some training molecules among them: if they are "
        "confidential, so is the page."
    )
    scores = score_tables(report["scores"], first)
    write_text(path, page(title, dated(), [("", top), ("Scores", scores), *shown.items()], foot))
    return path


def by_class(data: PackedGraphs, about: Mapping[str, Any]) -> PackedGraphs:
    """The graphs with a target 0 or 1 for each class of a multiclass target; other graphs as they are."""
    if about["task"] not in SEVERAL_CLASSES:
        return data
    store = data if data.whole else data.compact()
    y, names = of_each(store.arrays.y.numpy(), len(about["classes"])), tuple(output_names(about))
    return store.with_targets(y, task="classification", target_names=names)


def _predicted(path: Path, data: PackedGraphs, about: Mapping[str, Any]) -> Predicted:
    """Predictions that lie in a run folder, of these molecules."""
    predictions, names = pd.read_csv(path), about["target_names"]
    if "classes" in about:
        columns = probability_columns(names[0], about["classes"])[-data.num_tasks :]
        mean = predictions[columns].to_numpy(float)
        return Predicted(data, data.measured.numpy(), mean, None)
    mean = predictions[[f"{name}_pred" for name in names]].to_numpy(float)
    ends = [f"{name}_std" for name in names]
    std = predictions[ends].to_numpy(float) if {*ends} <= {*predictions.columns} else None
    return Predicted(data, data.measured.numpy(), mean, std)


def _top(
    parts: Mapping[str, Predicted],
    report: Mapping[str, Any],
    about: Mapping[str, Any],
    unit: str,
    apart: list[str],
) -> str:
    """The scores that matter most, beside those of the simplest prediction."""
    part, names, task = apart[0] if apart else "train", about["target_names"], about["task"]
    metric, means = report["metric"], report["scores"][part]["mean"]
    chosen = dict.fromkeys([metric, *_IMPORTANT[task]])
    of_mean = f", mean of {len(names)} targets" if len(names) > 1 else ""
    in_unit = {name: f", {unit}" if unit and name in ("rmse", "mae") else "" for name in chosen}
    figures = [
        (number(means[name]), f"{TITLES.get(name, name)}, {part}{in_unit[name]}{of_mean}") for name in chosen
    ]
    figures.append((f"{report['counts'][part]:,}", f"{part} molecules"))
    html = tiles([*figures, (f"{report['counts']['train']:,}", "training molecules")])
    if count := report.get("in_training", {}).get(part):
        text = (
            f"{count:,} rows of the {part} part are of molecules that the training part has too, whose "
            "scores flatter the model."
        )
        html += f"<p><b>{escaped(text)}</b></p>"
    simple = np.nanmean(parts["train"].y, axis=0) if apart else None
    if simple is None:
        return html + paragraph("Training saw all parts: scores say little of new molecules.")
    y = parts[part].y
    if task in SEVERAL_CLASSES:
        y = np.where(np.isnan(y[:, :1]), np.nan, y.argmax(1)[:, None])
    constant = score(
        metric, y, np.nan_to_num(np.broadcast_to(simple, parts[part].y.shape)), task == "ordinal"
    )
    if not np.isfinite(constant):
        return html
    simplest = "the mean of the training targets"
    if task in SEVERAL_CLASSES:
        simplest = "the frequencies of the training classes"
    better = means[metric] > constant if METRICS[metric].maximize else means[metric] < constant
    text = (
        f"Always predicting {simplest} would have {TITLES.get(metric, metric)} "
        f"{number(constant)} on these molecules"
    )
    if better:
        return html + paragraph(f"{text}.")
    return html + f"<p><b>{escaped(text)}: the model is not better. Do not rely on its predictions.</b></p>"


def data_section(
    data: PackedGraphs, parts: Mapping[str, Predicted], about: Mapping[str, Any], split_name: str = ""
) -> str:
    """Rows, rejects with their reasons, targets and split; ``about`` is that of the model."""
    total, unit, task = len(data) + len(data.rejects), about.get("unit") or "", about["task"]
    names = targets = data.description.target_names
    if task in SEVERAL_CLASSES:  # each is a target of the data
        targets = (f"{about['target_names'][0]}: {', '.join(about['classes'])}",)
    counts = ", ".join(f"{part} {len(each.data):,}" for part, each in parts.items())
    missing = int(np.isnan(data.y.numpy()).sum())
    facts: list[tuple[str, object]] = [
        ("table", data.description.name),
        ("rows", f"{total:,} = {len(data):,} molecules + {len(data.rejects):,} rejected"),
        ("targets", f"{', '.join(targets)} ({task}{f', {unit}' if unit else ''})"),
        ("features", data.description.features or "–"),
    ]
    if len(parts) > 1:
        facts.append(("split", f"{split_name}: {counts}" if split_name else counts))
    if data.changes:
        facts.append((CHANGES.removesuffix(".csv"), counted(data.changes, len(data)).partition(": ")[2]))
    if missing:
        facts.append(("missing targets", f"{missing:,} of {data.y.numel():,}"))
    html = ""
    if data.rejects:
        reasons = Counter(reject.reason for reject in data.rejects)
        first = {reject.reason: reject for reject in reversed(data.rejects)}
        rows = [
            (
                reason,
                count,
                first[reason].row + 1,
                Html(f'<span class="smiles">{escaped(first[reason].smiles)}</span>'),
            )
            for reason, count in reasons.most_common(_REASONS)
        ]
        html = "<h3>Rejected rows</h3>" + table(["reason", "rows", "first row", "what stands there"], rows)
        if len(reasons) > _REASONS:
            html += paragraph(f"and {len(reasons) - _REASONS:,} more reasons: see rejects.csv", soft=True)
    figures = [table(["what", "value"], facts, text=2)]
    for t, name in enumerate(names[:MOST_TARGETS]):
        values = {part: each.y[:, t] for part, each in parts.items()}
        figures.append(
            histogram(name, f"measured{f', {unit}' if unit else ''}", values)
            if task == "regression"
            else classes(name, values)
        )
    return row(figures) + html


def about_train(report: Mapping[str, Any]) -> str:
    """How the training molecules were predicted."""
    if report["train_predictions"] == "fitted":
        return "Training molecules are predicted by the model that learned from them."
    return "Each training molecule is predicted by what was fitted to others."
