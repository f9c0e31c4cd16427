"""The page of a cross-validation: its table, its differences and how to read them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wlkernelnn.utils.files import write_text

from .page import number, page, paragraph, table
from .repeat import dated
from .run import PAGE
from .sections import TITLES


def write_cv_page(directory: str | os.PathLike[str], report: Mapping[str, Any], name: str, kind: str) -> Path:
    """Write ``report.html`` into the folder of a cross-validation.

    Args:
        directory: The folder.
        report: What :func:`~wlkernelnn.training.crossval.cross_validate` returns.
        name: Of the data set.
        kind: What the split is called.
    """
    metrics = list(next(iter(report["models"].values())))
    titles = [TITLES.get(metric, metric) for metric in metrics]
    scores = [
        [model, *(f"{number(each[metric]['mean'])} ± {number(each[metric]['std'])}" for metric in metrics)]
        for model, each in report["models"].items()
    ]
    differences = [
        [
            f"{each['first']} − {each['second']}",
            TITLES.get(each["metric"], each["metric"]),
            *(each[key] for key in ("mean", "std", "t", "p")),
        ]
        for each in report["differences"]
    ]
    what = (
        f"{report['molecules']:,} molecules, {report['folds']} folds, {report['repeats']} repeats, split: "
        f"{kind}. Means and standard deviations over all folds of all repeats; scores of every fold are in "
        "cv.csv."
    )
    how = (
        "The mean of the first model minus the second on the same folds, with t and two-sided p of the "
        "corrected resampled t-test (Nadeau and Bengio 2003): folds share training molecules, which the "
        "plain test ignores."
    )
    sections = [("", paragraph(what)), ("Scores", table(["model", *titles], scores))]
    if differences:
        columns = ["models", "metric", "mean", "std", "t", "p"]
        sections.append(("Differences", paragraph(how) + table(columns, differences, text=2)))
    path = Path(directory) / PAGE
    write_text(path, page(f"Cross-validation: {name}", dated(), sections))
    return path
