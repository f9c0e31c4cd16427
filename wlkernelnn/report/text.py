"""The page of a training on texts: of classifiers, and of language models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wlkernelnn.datasets.splits.parts import SplitIndex
from wlkernelnn.datasets.text.texts import Texts
from wlkernelnn.machines import TextMachine
from wlkernelnn.training.classes import confusion, of_each_class, probability_columns
from wlkernelnn.training.folder import network_folders
from wlkernelnn.training.text.model import StringEnsemble
from wlkernelnn.utils.files import write_text

from .page import escaped, number, page, paragraph, row, table, tiles
from .panels import MOST_TARGETS, curves, histogram, reliabilities
from .repeat import dated, learning_curves, repeat
from .run import PAGE
from .sections import TITLES, class_tables

# Worst predictions that are shown, characters of each, and tokens that a language model writes.
_WORST, _CHARACTERS, _WRITTEN = 10, 500, 60


class _Part(NamedTuple):
    """Predictions of a part: the texts, their classes ``[n]``, probabilities ``[n, C]``, and input rows."""

    texts: list[str]
    y: np.ndarray
    probability: np.ndarray
    rows: np.ndarray


def write_text_page(
    directory: str | os.PathLike[str],
    model: StringEnsemble | TextMachine,
    report: Mapping[str, Any],
    texts: Texts | None = None,
    split_idx: SplitIndex | None = None,
    *,
    command: str = "",
    config: str = "",
) -> Path:
    """Write ``report.html`` into a run folder: one file, without scripts, that needs no network.

    Args:
        directory: The folder of :func:`~wlkernelnn.training.train_texts`, ``train_text_machine`` or
            ``train_language``.
        model: What was trained.
        report: The content of ``metrics.json``.
        texts, split_idx: Of classifiers: the whole set, and positions of each part in it.
        command, config: What repeats the run: a command line, and its options as YAML.

    Returns:
        Where the page is.
    """
    directory, about = Path(directory), model.about
    part = next((name for name in ("test", "valid") if name in report), "")
    first: dict[str, str] = {"": _top(report, part)}
    shown: dict[str, str] = {}
    if texts is None or split_idx is None:
        first["Scores"] = _perplexities(report)
        assert isinstance(model, StringEnsemble)
        with suppress(ValueError):  # it knows no line ends to begin with
            written = escaped(model.generate("", _WRITTEN, seed=0))
            shown["A sample"] = paragraph("The model writes by itself:", soft=True) + f"<pre>{written}</pre>"
    else:
        parts = {name: _predicted(directory / f"{name}_predictions.csv", about) for name in report["scores"]}
        first["Scores"] = _scores(report)
        first["Data"] = _data(texts, split_idx, about)
        shown["Predictions"] = _predictions(parts, about["classes"], part)
        if part:
            shown["Calibration"] = row(
                reliabilities(
                    name, (parts[part].y == k).astype(float), parts[part].probability[:, k], "texts"
                )
                for k, name in _plotted(about["classes"])
            )
            shown["Worst predictions"] = _worst(parts[part], about["classes"])
    if isinstance(model, TextMachine):
        first["Model"] = _machine(model)
    else:
        kind, vocabulary = type(model.networks[0]).__name__, f"{report['vocabulary']:,} tokens"
        said = f"{len(model.networks)} × {kind} on {about['level']}; it knows {vocabulary}."
        first["Model"] = paragraph(said)
        first["Learning curves"] = learning_curves(
            network_folders(directory), report["metric"], report["metric"] == "accuracy"
        )
    shown["Repeat"] = repeat(command, config, report)
    foot = "This page shows texts of the data: if they are confidential, so is the page."
    title = f"{', '.join(about['target_names'])}: {about['name']}"
    sections = [*first.items(), *shown.items()]
    write_text(directory / PAGE, page(title, dated(), sections, foot))
    return directory / PAGE


def _machine(model: TextMachine) -> str:
    """What a machine is, and the runs that speak most for each class."""
    counts = ", ".join(f"{len(runs):,} runs of {part}" for part, runs in model.spectrum_.runs_.items())
    html = paragraph(f"Logistic regression on {counts}; C = {model.penalty_:g}.")
    if model.errors_:
        losses = [(f"{penalty:g}", error) for penalty, error in model.errors_.items()]
        html += table(["C", "log loss of training texts left out"], losses)
    blank = "␣" if model.spectrum_.level == "characters" else " "
    strongest = zip(model.about["classes"], model.strongest(_WORST), strict=True)
    rows = [(name, " · ".join(run.replace(" ", blank) for run in runs)) for name, runs in strongest]
    return html + table(["class", f"runs of {model.spectrum_.level} that speak most for it"], rows, text=2)


def _top(report: Mapping[str, Any], part: str) -> str:
    """The scores that matter most."""
    figures = [
        (f"{report['counts']['train']:,}", "training texts" if "scores" in report else "training tokens")
    ]
    if not part:
        return tiles(figures) + paragraph("Training saw all parts: scores say little of new texts.")
    names = ("accuracy", "balanced_accuracy", "roc_auc") if "scores" in report else ("perplexity",)
    values = report["scores"][part] if "scores" in report else {"perplexity": report[part]}
    return tiles([*((number(values[name]), f"{TITLES.get(name, name)}, {part}") for name in names), *figures])


def _perplexities(report: Mapping[str, Any]) -> str:
    """Of a language model."""
    rows = [(part, count, report.get(part)) for part, count in report["counts"].items()]
    return table(["part", "tokens", "perplexity"], rows) + paragraph(
        f"Choosing among all {report['vocabulary']:,} tokens alike has perplexity {report['vocabulary']:,}.",
        soft=True,
    )


def _scores(report: Mapping[str, Any]) -> str:
    """All metrics of each part of a classifier."""
    if not report["scores"]:
        return ""
    names = [name for name in next(iter(report["scores"].values())) if name != "classes"]
    rows = [(part, *(each[name] for name in names)) for part, each in report["scores"].items()]
    return table(["part", *(TITLES.get(name, name) for name in names)], rows)


def _data(texts: Texts, split_idx: SplitIndex, about: Mapping[str, Any]) -> str:
    """Rows, rejects, lengths, and the classes of each part."""
    index = {part: rows for part, rows in split_idx.items() if len(rows)}
    total = len(texts) + len(texts.rejects)
    facts = [
        ("table", texts.name),
        ("rows", f"{total:,} = {len(texts):,} texts + {len(texts.rejects):,} rejected"),
        ("split", ", ".join(f"{part} {len(rows):,}" for part, rows in index.items())),
    ]
    lengths = np.array([len(tokens) for tokens in texts.tokens])
    plot = histogram(
        "length", f"{about['level']} of a text", {p: lengths[r] for p, r in index.items()}, 24, "texts"
    )
    labels = np.array(texts.labels, dtype=object)
    counts = [
        (name, *(int((labels[rows] == name).sum()) for rows in index.values())) for name in about["classes"]
    ]
    html = row([table(["what", "value"], facts, text=2), plot, table(["class", *index], counts)])
    if texts.rejects:
        rejected = [(reject.row + 1, reject.reason) for reject in texts.rejects[:_WORST]]
        html += "<h3>Rejected rows</h3>" + table(["row", "reason"], rejected, text=2)
        if len(texts.rejects) > _WORST:
            html += paragraph("All are in rejects.csv.", soft=True)
    return html


def _predicted(path: Path, about: Mapping[str, Any]) -> _Part:
    """Predictions that lie in a run folder."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    name, classes = about["target_names"][0], about["classes"]
    y = np.array([classes.index(label) for label in frame[name]], dtype=np.int64)
    probability = frame[probability_columns(name, classes)].to_numpy(float)
    return _Part(frame["text"].tolist(), y, probability, frame["row"].to_numpy(int))


def _plotted(classes: list[str]) -> list[tuple[int, str]]:
    """The classes that have plots: of two the second alone."""
    return [*enumerate(classes)][1 if len(classes) == 2 else 0 : MOST_TARGETS]


def _predictions(parts: Mapping[str, _Part], classes: list[str], part: str) -> str:
    """Confusion, and curves of each class against all others."""
    if not part:
        return ""
    y, probability = parts[part].y, parts[part].probability
    tables = {
        "classes": of_each_class(y, probability, classes),
        "confusion": confusion(y, probability).tolist(),
    }
    html = class_tables(tables, part, "texts")
    for k, name in _plotted(classes):
        html += row(
            curves(name, {p: ((e.y == k).astype(float), e.probability[:, k]) for p, e in parts.items()})
        )
    return html


def _worst(part: _Part, classes: list[str]) -> str:
    """The texts whose classes had the smallest probabilities."""
    own = part.probability[np.arange(len(part.y)), part.y]
    rows = []
    for i in np.argsort(own, kind="stable")[:_WORST].tolist():
        text = part.texts[i]
        cut = text[:_CHARACTERS] + (" …" if len(text) > _CHARACTERS else "")
        predicted = classes[int(part.probability[i].argmax())]
        rows.append((str(part.rows[i]), classes[part.y[i]], predicted, cut, float(own[i])))
    columns = ["row", "class", "predicted", "text", "probability of the class"]
    return paragraph("The texts whose classes had the smallest probabilities.") + table(columns, rows, text=4)
