"""Score a trained run on texts with known labels, or on a text file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wlkernelnn.cli.data import one_column, score_text
from wlkernelnn.cli.options import VerbParser, add_options, check_outputs, pick

if TYPE_CHECKING:
    from wlkernelnn.machines import TextMachine
    from wlkernelnn.training import StringEnsemble

logger = logging.getLogger("wlkernelnn")


@dataclass
class TextEvaluateOptions:
    """What to score, and how.

    Args:
        data_path: A CSV, TSV or Parquet file of texts and labels; of a language model a plain text.
        model_path: A run folder of "wlkernelnn text train", or one network's folder in it.
        text_columns: The column of texts; by default the one called text.
        target_columns: The column of labels; by default the one of the training.
        on_invalid: Rows without a text, or with a label that is not a class of the run: "raise" an error, or
            "skip" them.
        metrics_path: JSON file for the scores, if it is given.
        rejects_path: CSV file for the rows that cannot be used, if it is given.
    """

    data_path: Path
    model_path: Path
    text_columns: list[str] | None = None
    target_columns: list[str] | None = None
    on_invalid: Literal["raise", "skip"] = "raise"
    metrics_path: Path | None = None
    rejects_path: Path | None = None


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("text evaluate", __doc__)
    add_options(parser, "Options", TextEvaluateOptions)
    options = TextEvaluateOptions(**pick(parser.parse_args(argv), TextEvaluateOptions))
    outputs = {"--metrics-path": options.metrics_path, "--rejects-path": options.rejects_path}
    check_outputs(outputs, [options.data_path])

    # Help does not wait for torch.
    from wlkernelnn.training import StringEnsemble, load_string_run, write_report

    model = load_string_run(options.model_path)
    if model.about["level"] == "vectors":
        raise ValueError(f"{options.model_path}: a model of signals, which are no texts; use it in Python")
    if isinstance(model, StringEnsemble) and model.about["task"] == "language":
        report = _language(model, options)
    else:
        report = _classes(model, options)
    if options.metrics_path is not None:
        write_report(options.metrics_path, report)


def _classes(model: StringEnsemble | TextMachine, options: TextEvaluateOptions) -> dict[str, Any]:
    """Print and give the scores of a classifier."""
    import numpy as np
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from wlkernelnn.datasets import texts_from
    from wlkernelnn.training import class_scores
    from wlkernelnn.training.classes import of_each_class
    from wlkernelnn.training.text.model import probabilities_of

    about = model.about
    texts = texts_from(
        options.data_path,
        text_column=one_column(options.text_columns, "--text-columns"),
        label_column=one_column(options.target_columns or about["target_names"], "--target-columns"),
        level=about["level"],
        max_length=about["max_length"],
        classes=about["classes"],
        on_invalid=options.on_invalid,
        rejects_path=options.rejects_path,
    )
    y = np.array([about["classes"].index(label) for label in texts.labels])
    probability = probabilities_of(model, texts.tokens)
    scores = class_scores(y, probability)
    each = of_each_class(y, probability, about["classes"])
    tokens, unknown = sum(map(len, texts.tokens)), model.num_unknown(texts.tokens)
    print(f"{texts.name}: {len(texts):,} texts, {unknown / tokens:.1%} of their tokens unknown")
    print(", ".join(f"{name} {score_text(value)}" for name, value in scores.items()))
    table = Table("class", *(Column(name, justify="right") for name in ("texts", "precision", "recall")))
    for name, found in each.items():
        cells = [score_text(found["precision"]), score_text(found["recall"])]
        table.add_row(escape(name), f"{found['count']:,}", *cells)
    Console().print(table)
    return {
        "texts": len(texts),
        "tokens": tokens,
        "unknown": unknown,
        "rejected": len(texts.rejects),
        **scores,
        "classes": each,
    }


def _language(model: StringEnsemble, options: TextEvaluateOptions) -> dict[str, Any]:
    """Print and give the perplexity of a text."""
    import math

    from wlkernelnn.datasets.files.download import read_text
    from wlkernelnn.datasets.files.table_chunks import is_table

    for name in ("text_columns", "target_columns", "rejects_path"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')}: the model is a language model, which reads a text")
    if options.data_path.is_dir():
        raise ValueError(f"--data-path: {options.data_path} is a folder: name the text in it to score")
    if is_table(str(options.data_path)):
        logger.warning(f"{options.data_path}: read as a plain text, with its header, commas and labels")
    text = read_text(options.data_path)
    report = model.scores_of_text(text)
    if report["tokens"] < 2:
        raise ValueError(f"--data-path: {options.data_path}: expected a text of two tokens or more")
    print(f"{options.data_path.name}: {report['tokens']:,} tokens, {report['unknown']:,} of them unknown")
    bits = math.log2(report["perplexity"])
    print(f"perplexity {score_text(report['perplexity'])}, {score_text(bits)} bits a token")
    return report | {"bits_per_token": bits}
