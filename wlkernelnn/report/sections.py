"""Sections that pages of trained and of scored runs share: scores, predictions, calibration, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wlkernelnn.datasets import PackedGraphs

from .molecules import Nearest, nearest_training, sketch
from .page import Html, escaped, figure, number, paragraph, row, table
from .panels import MOST_TARGETS, by_deviation, coverage, curves, drawn, parity, reliabilities
from .plots import Plot, span

#: So many of the worst predictions are drawn, and molecules whose neighbours are looked for.
WORST, COMPARED = 8, 200
TITLES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "spearman": "Spearman",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "mcc": "MCC",
    "log_loss": "log loss",
    "brier": "Brier",
    "ece": "ECE",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
    "nll": "NLL",
    "quadratic_kappa": "quadratic κ",
}


class Predicted(NamedTuple):
    """Predictions of a part of the data.

    Attributes:
        data: The molecules.
        y: Measured ``[n, T]``, NaN = missing.
        mean: Predicted ``[n, T]``: values, or probabilities of class 1.
        std: Deviations of new measurements ``[n, T]``, or ``None``.
    """

    data: PackedGraphs
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray | None


def score_tables(scores: Mapping[str, Mapping[str, Any]], detailed: str = "") -> str:
    """All metrics of each part and, of several targets, of each target of the part ``detailed``."""
    metrics = list(next(iter(scores.values()))["mean"])
    titles = [TITLES.get(metric, metric) for metric in metrics]
    html = table(["part", *titles], ([part, *each["mean"].values()] for part, each in scores.items()))
    targets = scores[detailed]["targets"] if detailed else {}
    if len(targets) > 1:
        rows = ([name, *(each[metric] for metric in metrics)] for name, each in targets.items())
        html += f"<h3>{escaped(detailed)}, by target</h3>" + table(["target", *titles], rows)
    return html


def class_tables(scores: Mapping[str, Any], part: str, items: str = "molecules") -> str:
    """Of classes with names: how well each is found, and how many of each are predicted as each."""
    if "classes" not in scores:
        return ""
    each, names = scores["classes"], list(scores["classes"])
    found = table(
        ["class", items, "precision", "recall"],
        [(name, one["count"], one["precision"], one["recall"]) for name, one in each.items()],
    )
    most = max(map(max, scores["confusion"])) or 1
    rows = [
        (name, *(Html(_shaded(count, count / most)) for count in counts))
        for name, counts in zip(names, scores["confusion"], strict=True)
    ]
    confused = table(["measured \\ predicted", *names], rows)
    titled = ((f"Classes: {part}", found), (f"Confusion: {part}", confused))
    return row(f"<div><h3>{escaped(title)}</h3>{each}</div>" for title, each in titled)


def _shaded(count: int, share: float) -> str:
    return f'<span style="background:rgba(90,130,200,{0.6 * share:.2f});padding:2px 8px">{count:,}</span>'


def predictions(names: Sequence[str], task: str, unit: str, parts: Mapping[str, Predicted]) -> str:
    """Parity plots or ROC and precision-recall curves of every part, for the first targets."""
    html = ""
    for t, name in enumerate(names[:MOST_TARGETS]):
        values = {part: (each.y[:, t], each.mean[:, t]) for part, each in parts.items()}
        if task == "classification":
            html += row(curves(name, values))
        else:
            limits = span(*(each for pair in values.values() for each in pair))
            html += row(
                parity(f"{part}: {name}", y, p, unit, part, limits) for part, (y, p) in values.items()
            )
    return html + _and_more(names)


def calibration(names: Sequence[str], task: str, unit: str, predicted: Predicted) -> str:
    """Whether deviations, or probabilities, are right, for the first targets."""
    html = ""
    for t, name in enumerate(names[:MOST_TARGETS]):
        y, p = predicted.y[:, t], predicted.mean[:, t]
        known = np.isfinite(y) & np.isfinite(p)
        if task == "classification":
            if known.any():
                html += row([reliabilities(name, y[known], p[known])])
        elif predicted.std is not None:
            s = predicted.std[:, t]
            known &= np.isfinite(s)
            y, p, s = y[known], p[known], s[known]
            if len(y):
                html += row([coverage(name, y, p, s), by_deviation(name, unit, y, p, s)])
    return html + _and_more(names) if html else ""


def quantile_table(report: Mapping[str, Any]) -> str:
    """Of networks that predict quantiles: their loss, and how many targets lie below each."""
    if (found := report.get("quantiles")) is None:
        return ""
    levels, expected = [f"≤ q{level:g}" for level in found["levels"]], number(found["expected"])
    titles = ["target", "pinball loss", f"between the outer ones (expected {expected})", "their distance"]
    rows = [
        (name, each["pinball"], each["coverage"], each["width"], *each["below"])
        for name, each in found["targets"].items()
    ]
    return "<h3>Quantiles</h3>" + table([*titles, *levels], rows)


def _and_more(names: Sequence[str]) -> str:
    left = len(names) - MOST_TARGETS
    return (
        paragraph(f"Plots show the first {MOST_TARGETS} of {len(names)} targets.", soft=True)
        if left > 0
        else ""
    )


def _smiles(data: PackedGraphs, place: int) -> str:
    """Of one molecule: a list of all would take long to make."""
    return str(data[place : place + 1].smiles[0])


class Errors:
    """The errors of a part: the worst predictions, and how errors depend on the training molecules.

    Args:
        names, task, unit: Of the targets.
        predicted: The part.
        train: The training molecules with their targets; ``None`` where they are not known.
    """

    def __init__(
        self, names: Sequence[str], task: str, unit: str, predicted: Predicted, train: PackedGraphs | None
    ) -> None:
        self.names, self.task, self.unit, self.predicted, self.train = names, task, unit, predicted, train
        self.each = self._errors()
        # Of several targets the largest error counts.
        self.largest = np.where(np.isnan(self.each), -np.inf, self.each).max(axis=1, initial=-np.inf)
        self.worst = np.argsort(-self.largest, kind="stable")[
            : min(WORST, int(np.isfinite(self.largest).sum()))
        ]
        self.sample = drawn(len(self.largest), COMPARED)
        self.nearest: dict[int, tuple[float, int]] = {}
        self.compared = 0
        if train is not None and len(predicted.data):
            places = np.union1d(self.worst, self.sample).astype(int)
            found: Nearest = nearest_training(predicted.data[places], train)
            self.compared = found.compared
            pairs = zip(found.similarity.tolist(), found.place.tolist(), strict=True)
            self.nearest = dict(zip(places.tolist(), pairs, strict=True))

    def _errors(self) -> np.ndarray:
        """Absolute errors, of several targets in units of the target's deviation; of classes log losses."""
        y, p = self.predicted.y, self.predicted.mean
        if self.task == "classification":
            return np.asarray(-np.log(np.clip(np.where(y > 0.5, p, 1 - p), 1e-12, 1)) + 0 * y)
        error = np.abs(y - p)
        if len(self.names) > 1:
            known = [column[np.isfinite(column)] for column in y.T]
            scale = np.array([column.std() if len(column) else 1.0 for column in known])
            error = error / np.where(scale > 0, scale, 1)
        return np.asarray(error)

    def cards(self) -> str:
        """The worst predictions, drawn, each above its nearest training molecule."""
        if not len(self.worst) or not self.predicted.data[:1].smiles:
            return ""
        what = "of the largest log loss" if self.task == "classification" else "with the largest errors"
        several = ", in units of the target's standard deviation" if len(self.names) > 1 else ""
        intro = f"The {len(self.worst)} predictions {what}{several if self.task == 'regression' else ''}."
        if self.nearest:
            intro += " Below each, the most similar training molecule and its measured value."
        cards = "".join(f'<div class="card">{self._card(int(place))}</div>' for place in self.worst)
        return paragraph(intro) + f'<div class="cards">{cards}</div>'

    def _card(self, place: int) -> str:
        data, smiles = self.predicted.data, _smiles(self.predicted.data, place)
        t = int(np.nanargmax(self.each[place]))
        std = None if self.predicted.std is None else self.predicted.std[place, t]
        deviation = f" ± {number(float(std))}" if std is not None and np.isfinite(std) else ""
        unit = f" {self.unit}" if self.unit else ""
        name = f"{self.names[t]}: " if len(self.names) > 1 else ""
        html = (
            f"{sketch(smiles)}<b>row {int(data.row[place]) + 1:,}</b><br>{escaped(name)}measured "
            f"{number(float(self.predicted.y[place, t]))}, predicted "
            f"{number(float(self.predicted.mean[place, t]))}{deviation}{escaped(unit)}"
            f'<div class="smiles">{escaped(smiles)}</div>'
        )
        if place in self.nearest and self.train is not None:
            similarity, nearest = self.nearest[place]
            of_train = _smiles(self.train, nearest)
            value = number(float(self.train[nearest : nearest + 1].measured[0, t]))
            html += (
                f"<hr>{sketch(of_train)}<b>training row {int(self.train.row[nearest]) + 1:,}</b>, similarity "
                f"{similarity:.2f}<br>measured {value}{escaped(unit)}"
                f'<div class="smiles">{escaped(of_train)}</div>'
            )
        return html

    def applicability(self) -> str:
        """How similar molecules are to the nearest training molecule, and errors by that."""
        if not self.nearest:
            return ""
        similarity = np.array([self.nearest[place][0] for place in self.sample.tolist()])
        error = self.largest[self.sample]
        known = np.isfinite(error)
        counts = np.histogram(similarity, np.linspace(0, 1, 11))[0]
        much = Plot(
            "Similarity",
            "similarity of the nearest training molecule",
            "molecules",
            (0, 1),
            (0, 1.1 * counts.max()),
        )
        much.bars(np.linspace(0, 1, 11), counts)
        what = (
            "log loss" if self.task == "classification" else f"error{f', {self.unit}' if self.unit else ''}"
        )
        figures, (low, high) = [figure(much.svg())], span(error[known])
        if known.any():
            plot = Plot(
                "Errors by similarity",
                "similarity of the nearest training molecule",
                what,
                (0, 1),
                (min(low, 0), high),
            )
            plot.points(similarity[known], error[known])
            figures.append(figure(plot.svg(), "a rise to the left: such molecules are predicted worse"))
            figures.append(self._by_similarity(similarity[known], error[known], what))
        intro = (
            "Similarity is the min-max kernel of Weisfeiler-Lehman colours (0 to 2 bonds around every atom): "
            "1 for equal counts of all atom environments, 0 where nothing is shared."
        )
        if len(self.sample) < len(self.largest):
            intro += f" {len(self.sample):,} of {len(self.largest):,} molecules were drawn for it."
        if self.train is not None and self.compared < len(self.train):
            intro += (
                f" They are compared with {self.compared:,} of {len(self.train):,} training molecules, drawn."
            )
        return paragraph(intro, soft=True) + row(figures)

    def _by_similarity(self, similarity: np.ndarray, error: np.ndarray, what: str) -> Html:
        """Median and 90 % quantile of errors, for three parts of equal size."""
        order = np.argsort(similarity, kind="stable")
        parts = [part for part in np.array_split(order, 3) if len(part)]
        rows = [
            (
                f"{similarity[part].min():.2f} to {similarity[part].max():.2f}",
                len(part),
                float(np.median(error[part])),
                float(np.quantile(error[part], 0.9)),
            )
            for part in parts
        ]
        return Html(table(["similarity", "molecules", f"median {what}", "nine of ten below"], rows))
