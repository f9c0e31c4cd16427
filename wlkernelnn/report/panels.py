"""Plots of predictions beside measurements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.stats import norm
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from wlkernelnn.training.molecules.metrics import reliability
from wlkernelnn.training.molecules.uncertainty import error_by_deviation

from .page import escaped, figure, number
from .plots import Plot, span

#: So many points a plot shows, and so many targets have plots of their own.
MOST_POINTS, MOST_TARGETS = 2000, 12
#: Parts of the data in the colours of the page.
COLOURS = {"train": "three", "valid": "two", "test": "one"}
# Corners of a curve.
_CORNERS = 200


def drawn(count: int, most: int = MOST_POINTS) -> np.ndarray:
    """Positions of at most ``most`` of ``count`` values, drawn, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def histogram(
    title: str, xlabel: str, values: dict[str, np.ndarray], num_bins: int = 24, items: str = "molecules"
) -> str:
    """Shares of values by parts, as bars of the first part and lines of the others."""
    values = {name: each[np.isfinite(each)] for name, each in values.items()}
    values = {name: each for name, each in values.items() if len(each)}
    if not values:
        return ""
    edges = np.histogram_bin_edges(np.concatenate([*values.values()]), num_bins)
    heights = {name: np.histogram(each, edges)[0] / len(each) for name, each in values.items()}
    plot = Plot(title, xlabel, f"share of {items}", (edges[0], edges[-1]), (0, _top(heights.values())))
    for place, (name, each) in enumerate(heights.items()):
        kind = COLOURS.get(name, "one")
        if place == 0:
            plot.bars(edges, each, kind, name)
        else:
            plot.line(np.repeat(edges, 2)[1:-1], np.repeat(each, 2), kind, name)
    return figure(plot.svg())


def _top(heights: Iterable[np.ndarray]) -> float:
    """Room for a legend above the highest bar."""
    return 1.25 * max([float(each.max(initial=0)) for each in heights] or [0.0]) or 1.0


def classes(title: str, values: dict[str, np.ndarray]) -> str:
    """Counts of both classes, by parts."""
    names = list(values)
    ones = [int(np.nansum(each == 1)) for each in values.values()]
    zeros = [int(np.nansum(each == 0)) for each in values.values()]
    plot = Plot(title, "part", "share of class 1", (0, max(len(names), 1)), (0, 1))
    plot.xticks = [(place + 0.5, escaped(name)) for place, name in enumerate(names)]
    for place, name in enumerate(names):
        share = ones[place] / ((ones[place] + zeros[place]) or 1)
        plot.bars([place + 0.15, place + 0.85], [share], COLOURS.get(name, "one"))
    counts = "; ".join(
        f"{n}: {one:,} of {one + zero:,}" for n, one, zero in zip(names, ones, zeros, strict=True)
    )
    return figure(plot.svg(), f"class 1: {counts}")


def parity(
    title: str, y: np.ndarray, p: np.ndarray, unit: str, part: str, limits: tuple[float, float]
) -> str:
    """Predicted against measured ``[n]``, on axes from ``limits`` alone."""
    in_unit = f", {unit}" if unit else ""
    known = np.flatnonzero(np.isfinite(y) & np.isfinite(p))
    some = known[drawn(len(known))]
    plot = Plot(title, f"measured{in_unit}", f"predicted{in_unit}", limits, limits)
    plot.line(limits, limits, "even")
    plot.points(y[some], p[some], COLOURS.get(part, "one"))
    if not len(known):
        return figure(plot.svg(), "no measured values")
    error = np.sqrt(np.mean((y[known] - p[known]) ** 2))
    sampled = f"; {len(some):,} of them drawn" if len(some) < len(known) else ""
    return figure(plot.svg(), f"RMSE {number(float(error))}, {len(known):,} molecules{sampled}")


def curves(title: str, values: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """ROC and precision-recall curves of classes and probabilities ``[n]``, by parts."""
    roc = Plot(f"ROC: {title}", "false positive rate", "true positive rate", (0, 1), (0, 1))
    pr = Plot(f"precision and recall: {title}", "recall", "precision", (0, 1), (0, 1.02))
    share = np.nanmean(np.concatenate([y for y, _ in values.values()] or [np.zeros(1)]))
    roc.legend, pr.legend = (0.6, 0.25), ((0.05, 0.25) if share > 0.5 else (0.6, 0.95))
    roc.line((0, 1), (0, 1), "even")
    for part, (y, p) in values.items():
        known = np.isfinite(y) & np.isfinite(p)
        y, p = y[known], p[known]
        if len(np.unique(y)) < 2:
            continue
        kind = COLOURS.get(part, "one")
        false, true, _ = roc_curve(y, p)
        roc.line(*_thinned(false, true), kind, f"{part}: {number(float(roc_auc_score(y, p)))}")
        precision, recall, _ = precision_recall_curve(y, p)
        area = float(average_precision_score(y, p))
        pr.line(*_thinned(recall, precision), kind, f"{part}: {number(area)}")
    return [
        figure(roc.svg(), "behind each part: the area under its curve"),
        figure(pr.svg(), "behind each part: its average precision"),
    ]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve with few corners: the first and the last stay."""
    some = np.unique(np.linspace(0, len(x) - 1, _CORNERS).astype(int))
    return x[some], y[some]


def coverage(title: str, y: np.ndarray, p: np.ndarray, s: np.ndarray) -> str:
    """The share of targets ``[n]`` within intervals, for all probabilities."""
    nominal = np.linspace(0, 1, 51)[1:-1]
    bounds = norm.ppf(0.5 + nominal / 2)
    observed = [np.mean(np.abs(y - p) <= bound * s) for bound in bounds]
    plot = Plot(title, "probability that an interval should hold", "share of targets within", (0, 1), (0, 1))
    plot.line((0, 1), (0, 1), "even")
    plot.line(nominal, observed)
    marked = ", ".join(
        f"{np.mean(np.abs(y - p) <= norm.ppf(0.5 + q / 2) * s):.0%} of {q:.0%}" for q in (0.5, 0.9)
    )
    return figure(plot.svg(), f"within intervals: {marked}. Below the dashed line intervals are too narrow")


def by_deviation(title: str, unit: str, y: np.ndarray, p: np.ndarray, s: np.ndarray) -> str:
    """The error of parts of the molecules, from the least predicted deviations to the largest."""
    found = error_by_deviation(y, p, s, num_bins=min(10, max(1, len(y) // 5)))
    most = 1.08 * max([*found["deviation"], *found["rmse"], 0.0]) or 1.0
    in_unit = f", {unit}" if unit else ""
    plot = Plot(title, f"predicted deviation{in_unit}", f"RMSE{in_unit}", (0, most), (0, most))
    plot.line((0, most), (0, most), "even")
    plot.line(found["deviation"], found["rmse"])
    plot.points(found["deviation"], found["rmse"])
    return figure(
        plot.svg(), "parts of equal size, by predicted deviation; on the dashed line both are equal"
    )


def reliabilities(title: str, y: np.ndarray, p: np.ndarray, items: str = "molecules") -> str:
    """The share of class 1, by its predicted probability."""
    predicted, share, count = reliability(y, p)
    plot = Plot(title, "predicted probability of class 1", "share of class 1", (0, 1), (0, 1))
    plot.bars(np.linspace(0, 1, 11), _counts(p) / max(count.max(), 1) * 0.25, "three", items)
    plot.line((0, 1), (0, 1), "even")
    plot.line(predicted, share)
    plot.points(predicted, share)
    return figure(plot.svg(), f"on the dashed line probabilities are right; bars: how many {items} have each")


def _counts(p: np.ndarray) -> np.ndarray:
    return np.bincount(np.clip((p * 10).astype(int), 0, 9), minlength=10)


def learning(title: str, metric: str, history: dict[str, np.ndarray], kept: int | None) -> list[str]:
    """Losses and the validation score by epochs, which are counted from 1."""
    epochs = history["epoch"] + 1
    losses = {name: history[name] for name in ("train_loss", "valid_loss") if name in history}
    scores = {name: values for name, values in history.items() if name == f"valid_{metric}"}
    figures = []
    for ylabel, lines in (("loss", losses), (metric, scores)):
        if not lines:
            continue
        plot = Plot(f"{title}: {ylabel}", "epoch", ylabel, (1, float(epochs[-1])), span(*lines.values()))
        if kept is not None:
            plot.line((kept, kept), plot.y, "even")
        for name, values in lines.items():
            plot.line(epochs, values, COLOURS[name.partition("_")[0]], name.partition("_")[0])
        figures.append(figure(plot.svg(), f"dashed: epoch {kept}, whose weights were kept" if kept else ""))
    return figures
