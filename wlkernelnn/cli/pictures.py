"""Pictures of how far predicted deviations and probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from wlkernelnn.training.classes import output_names, probability_columns
from wlkernelnn.training.molecules.metrics import reliability
from wlkernelnn.training.molecules.uncertainty import error_by_deviation
from wlkernelnn.utils.files import atomic_path

if TYPE_CHECKING:
    from optuna import Study

# In a run folder.
PICTURE = "test_calibration.svg"
# So many targets are drawn, the first ones.
_MOST = 12
# More points are drawn as pixels.
_MANY = 2000
_MARKED = (0.5, 0.8, 0.9, 0.95)


def draw_run(directory: Path, about: dict[str, Any], report: dict[str, Any]) -> Path | None:
    """A picture of the test part of a run, ``test_calibration.svg`` beside its predictions.

    Args:
        directory: The run folder.
        about: Of its model.
        report: Its scores.

    Returns:
        Where it is; ``None`` without a test part, or without deviations.
    """
    source, path, names = directory / "test_predictions.csv", directory / PICTURE, about["target_names"]
    classes = about["task"] != "regression"
    if "test" not in report or not (classes or "uncertainty" in report):
        return None
    table = pd.read_csv(source)
    if "classes" in about:
        outputs = output_names(about)
        named = [*zip(about["classes"], probability_columns(names[0], about["classes"]), strict=True)]
        measured = pd.read_csv(source, dtype=str, keep_default_na=False)[names[0]]
        truth = [np.where(measured == "", np.nan, measured == name) for name, _ in named]
        both = np.stack(truth, axis=1), table[[column for _, column in named]].to_numpy(float)
        draw_reliability(path, outputs, *(each[:, -len(outputs) :] for each in both))
        return path
    target, mean = (table[[f"{name}{end}" for name in names]].to_numpy(float) for end in ("", "_pred"))
    if classes:
        draw_reliability(path, names, target, mean)
    else:
        std = table[[f"{name}_std" for name in names]].to_numpy(float)
        draw_deviations(path, names, target, mean, std, about.get("unit", ""))
    return path


def draw_deviations(
    path: Path, names: Sequence[str], target: np.ndarray, mean: np.ndarray, std: np.ndarray, unit: str = ""
) -> None:
    """A row of panels for each of the first 12 targets: coverage, error by deviation, parity with error bars.

    Args:
        path: A .png, .svg or .pdf file.
        names: Of the targets.
        target, mean, std: ``[G, tasks]``, NaN = missing.
        unit: Of the targets.
    """
    names = names[:_MOST]
    figure = Figure(figsize=(12, 4 * len(names)), layout="constrained")
    rows = figure.subplots(len(names), 3, squeeze=False)
    in_unit = f", {unit}" if unit else ""
    for t, (name, axes) in enumerate(zip(names, rows, strict=True)):
        known = ~np.isnan(target[:, t]) & ~np.isnan(std[:, t])
        y, p, s = target[known, t], mean[known, t], std[known, t]
        _coverage(axes[0], y, p, s)
        _by_deviation(axes[1], y, p, s)
        _parity(axes[2], y, p, s)
        axes[0].set(title=name)
        axes[1].set(xlabel=f"predicted deviation{in_unit}", ylabel=f"RMSE{in_unit}")
        axes[2].set(xlabel=f"measured{in_unit}", ylabel=f"predicted, ± deviation{in_unit}")
    _save(figure, path)


def _coverage(axis: Axes, y: np.ndarray, p: np.ndarray, s: np.ndarray) -> None:
    """The share of targets within intervals, for all probabilities."""
    nominal = np.linspace(0, 1, 101)[1:-1]
    bounds = norm.ppf(0.5 + nominal / 2)
    observed = [np.mean(np.abs(y - p) <= bound * s) if len(y) else np.nan for bound in bounds]
    axis.plot((0, 1), (0, 1), color="0.6", linewidth=1)
    axis.plot(nominal, observed)
    axis.plot(_MARKED, np.interp(_MARKED, nominal, observed), "oC0", markersize=4)
    axis.set(xlabel="nominal probability of intervals", ylabel="share of targets within", aspect="equal")


def _by_deviation(axis: Axes, y: np.ndarray, p: np.ndarray, s: np.ndarray) -> None:
    """The error of ten parts of the molecules, by their deviations."""
    found = error_by_deviation(y, p, s, num_bins=min(10, max(1, len(y) // 5)))
    most = 1.05 * max([*found["deviation"], *found["rmse"], 0.0]) or 1.0
    axis.plot((0, most), (0, most), color="0.6", linewidth=1)
    axis.plot(found["deviation"], found["rmse"], "o-", markersize=4)
    axis.set(xlim=(0, most), ylim=(0, most), aspect="equal")


def _parity(axis: Axes, y: np.ndarray, p: np.ndarray, s: np.ndarray) -> None:
    """Predictions with error bars of one deviation."""
    axis.axline((0, 0), slope=1, color="0.6", linewidth=1)
    many = len(y) > _MANY
    axis.errorbar(y, p, s, fmt="o", markersize=3, elinewidth=0.6, alpha=0.5, rasterized=many)


def draw_reliability(path: Path, names: Sequence[str], target: np.ndarray, probability: np.ndarray) -> None:
    """A row of panels for each of the first 12 targets: the share of class 1 by its probability, and counts.

    Args:
        path: A .png, .svg or .pdf file.
        names: Of the targets.
        target: 0 and 1 ``[G, tasks]``, NaN = missing.
        probability: Of class 1, ``[G, tasks]``.
    """
    names = names[:_MOST]
    figure = Figure(figsize=(8, 4 * len(names)), layout="constrained")
    for t, (name, axes) in enumerate(zip(names, figure.subplots(len(names), 2, squeeze=False), strict=True)):
        known = ~np.isnan(target[:, t])
        predicted, share, count = reliability(target[known, t], probability[known, t])
        axes[0].plot((0, 1), (0, 1), color="0.6", linewidth=1)
        axes[0].plot(predicted, share, "o-", markersize=4)
        axes[0].set(title=name, xlabel="predicted probability", ylabel="share of class 1", aspect="equal")
        axes[1].bar(predicted, count, width=0.06)
        axes[1].set(xlabel="predicted probability", ylabel="molecules", xlim=(0, 1))
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    for axis in figure.axes:
        axis.grid(linewidth=0.3)
        for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
            text.set_parse_math(False)  # dollars in names and units are no TeX
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}), atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=120)


def draw_study(path: Path, study: Study, metric: str) -> None:
    """A picture of a search: the score of every trial, the best one so far, and how much each option matters.

    Args:
        path: A .png, .svg or .pdf file.
        study: Of Optuna.
        metric: Name of the score.
    """
    from optuna.importance import get_param_importances
    from optuna.study import StudyDirection
    from optuna.trial import TrialState

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    complete = study.get_trials(states=[TrialState.COMPLETE])
    numbers, values = zip(*((trial.number, trial.values[0]) for trial in complete), strict=True)
    best = np.maximum if study.direction == StudyDirection.MAXIMIZE else np.minimum
    left.plot(numbers, values, "o", label="complete")
    left.step(numbers, best.accumulate(values), where="post", label="best so far")
    for state, mark in ((TrialState.PRUNED, "|"), (TrialState.FAIL, "x")):
        others = [trial.number for trial in study.get_trials(states=[state])]
        if others:
            left.plot(others, [max(values)] * len(others), mark, label=state.name.lower())
    left.set(xlabel="trial", ylabel=f"{metric} of the validation part", title="Trials")
    left.legend()
    if len(set(values)) > 1:
        importance = get_param_importances(study)
        names = [*importance][::-1]
        right.barh(names, [importance[name] for name in names])
    right.set(xlabel="share of the variation of scores", title="Options that matter (few trials say little)")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=120)
