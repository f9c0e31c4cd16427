"""Score a trained run on a table of SMILES with measured targets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .data import DataOptions, score_text
from .options import PositiveInt, VerbParser, add_options, check_outputs, pick

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger("wlkernelnn")

PICTURES = (".png", ".svg", ".pdf")
# Columns for more classes do not fit into 80 characters.
_MOST_CLASSES = 5
DATA_OPTIONS = (
    "data_path",
    "smiles_columns",
    "censored",
    "root",
    "on_invalid",
    "max_length",
    "num_workers",
    "cache",
)


@dataclass
class EvaluateOptions:
    """What to score, and how.

    Args:
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        target_columns: Columns of targets: some that the run was trained on, by default all, or as many
            of other names, in their order.
        metrics: Metrics; by default all that fit the task. Of predictions with deviations also the shares of
            targets within the intervals that should hold 50, 80, 90 and 95 % of them, the mean negative
            log-likelihood, "nll", the rank correlation of errors and deviations, and errors by deviation;
            of predicted quantiles the pinball loss and the share of targets between the outer ones.
        metrics_path: JSON file for the scores, if it is given.
        plot_path: Picture, .png, .svg or .pdf, if it is given: coverage, error by deviation, and predicted
            against measured; of classes how often they are right, by their probability.
        report_path: HTML page for all of it, with the worst predictions drawn, if it is given.
        rejects_path: CSV file for the rows that gave no molecule, if it is given.
        batch_size: Molecules at once.
    """

    model_path: Path
    target_columns: list[str] | None = None
    metrics: list[str] | None = None
    metrics_path: Path | None = None
    plot_path: Path | None = None
    report_path: Path | None = None
    rejects_path: Path | None = None
    batch_size: PositiveInt = 512


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("evaluate", __doc__)
    add_options(parser, "Data", DataOptions, DATA_OPTIONS)
    add_options(parser, "Options", EvaluateOptions)
    parsed = parser.parse_args(argv)
    options = EvaluateOptions(**pick(parsed, EvaluateOptions))
    outputs = {
        "--metrics-path": options.metrics_path,
        "--plot-path": options.plot_path,
        "--report-path": options.report_path,
        "--rejects-path": options.rejects_path,
    }
    check_outputs(outputs, [Path(parsed.data_path)])
    if options.plot_path is not None and options.plot_path.suffix not in PICTURES:
        raise ValueError(f"--plot-path: expected a name in {', '.join(PICTURES)}, got {options.plot_path}")

    # Help does not wait for torch.
    from wlkernelnn import training
    from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
    from wlkernelnn.machines.classifier import of_each
    from wlkernelnn.training.classes import output_names
    from wlkernelnn.training.molecules.columns import NOT_RECALIBRATED, columns_read, doubts, levels_of
    from wlkernelnn.training.molecules.trained_on import in_training

    model = training.load_run(options.model_path)
    task, names = model.about["task"], model.about["target_names"]
    for name in options.metrics or ():
        training.get_metric(name, task)
    if without := task == "regression" and not training.has_deviations(model):
        if options.plot_path is not None:
            raise ValueError(f"--plot-path: {NOT_RECALIBRATED}")
        logger.info(f"no figures of deviations: {NOT_RECALIBRATED}")
    elif warning := doubts(model):
        logger.warning(warning)
    classes = None if task == "regression" else tuple(model.about.get("classes", ()))
    targets, columns = _columns(names, options.target_columns or names)
    read = columns_read(model, parsed.smiles_columns)
    data = DataOptions(
        **pick(parsed, DataOptions, DATA_OPTIONS)
        | {"smiles_columns": [read] if isinstance(read, str) else read},
        join_smiles=isinstance(read, list),
        target_columns=columns,
        task_type="classification" if task == "multiclass" else task,
        features=model.about["features"],
    ).load(options.rejects_path, classes=classes)
    place = [names.index(name) for name in targets]
    mean, std, quantiles = training.forecast(model, data, options.batch_size)
    several = task in SEVERAL_CLASSES
    mean, target = mean if several else mean[:, place], data.measured.numpy()
    std = None if std is None or without or task != "regression" else std[:, place]

    known = in_training(options.model_path, model, data.smiles)

    bounds = 0 if data.censored is None else int((data.censored != 0).sum())
    left_out = f"; {bounds:,} bounds have no score" if bounds else ""
    print(f"{data.description.name}: {len(data):,} molecules{left_out}")
    report = _scores(task, columns, target, mean, options.metrics, classes or ())
    metrics = list(report["mean"])
    shown = list(metrics)
    if with_std := std is not None and not options.metrics:
        more = training.uncertainty(columns, target, mean, std)
        report = {
            "mean": report["mean"] | more["mean"],
            "targets": {name: each | more["targets"][name] for name, each in report["targets"].items()},
        }
        shown += ["nll", "error_spearman"]
    _show("", shown, report)
    if with_std:
        coverage = [name for name in report["mean"] if name.startswith("coverage")]
        _show("share of targets within intervals of 50, 80, 90 and 95 %", coverage, report)
        _show_by_deviation(report)
    if quantiles is not None and not options.metrics:
        found = training.quantile_scores(columns, target, quantiles[:, place], levels_of(model))
        report["quantiles"] = found
        low, high = found["levels"][0], found["levels"][-1]
        title = f"targets from q{low:g} to q{high:g}: {found['expected']:g} expected"
        _show(title, list(found["mean"]), found)
    if classes:
        _show_classes(report, classes)
    for what in _unscored(metrics, report, mean):
        logger.warning(f"{data.description.name}: {what}")
    counts, note = {"molecules": len(data), "rejected": len(data.rejects)}, ""
    if bounds:
        counts["censored"] = bounds
    if known is not None:
        counts["in_training"] = int(known.sum())
    if known is not None and known.any():
        note = (
            f"{known.sum():,} of {len(data):,} rows are of molecules that the model was trained on, and say "
            "little of others"
        )
        logger.warning(f"{data.description.name}: {note}")
        if not known.all():
            report["new"] = _scores(task, columns, target[~known], mean[~known], options.metrics)
            print(f"the {len(data) - known.sum():,} rows of other molecules:")
            _show("", metrics, report["new"])
    if options.metrics_path is not None:
        training.write_report(options.metrics_path, counts | report)
    if options.plot_path is not None:
        from .pictures import draw_deviations, draw_reliability

        if std is None:
            truth = of_each(target, mean.shape[1]) if several else target
            draw_reliability(
                options.plot_path, output_names(model.about) if several else columns, truth, mean
            )
        else:
            draw_deviations(options.plot_path, columns, target, mean, std, model.about.get("unit", ""))
        print(f"plot: {options.plot_path}")
    if (path := options.report_path) is not None:
        from wlkernelnn.report import write_evaluation_page

        everything = _scores(task, columns, target, mean, classes=classes or ())
        everything |= {name: report[name] for name in ("quantiles",) if name in report}
        write_evaluation_page(
            path, model, data, columns, mean, std, everything, str(options.model_path), note
        )
        print(f"report: {path}")


def _columns(names: list[str], given: list[str]) -> tuple[list[str], list[str]]:
    """The targets that are scored, and the column of each."""
    if {*given} <= {*names} and len({*given}) == len(given):
        # Columns of these names are those targets, in whatever order they are given; some will do.
        targets = [name for name in names if name in given]
        return targets, targets
    if len(given) != len(names):
        raise ValueError(
            f"--target-columns: expected some of {', '.join(names)}, or {len(names)} columns of other names; "
            f"got {', '.join(given)}"
        )
    for column, name in zip(given, names, strict=True):
        if column != name and column in names:
            raise ValueError(
                f"--target-columns: expected a column for each of {', '.join(names)}, in this order; got "
                f"{', '.join(given)}, where {column} stands in the place of {name}"
            )
    return names, given


def _scores(
    task: str,
    columns: list[str],
    target: np.ndarray,
    mean: np.ndarray,
    metrics: list[str] | None = None,
    classes: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """The chosen metrics, by default all, of each target and in the mean."""
    from wlkernelnn.training.molecules.metrics import all_scores

    report = all_scores(task, columns, target, mean, classes)
    if metrics:
        report["mean"] = {name: report["mean"][name] for name in metrics}
        for column, each in report["targets"].items():
            report["targets"][column] = {name: each[name] for name in metrics}
    return report


def _unscored(metrics: list[str], report: dict[str, Any], prediction: np.ndarray) -> Iterator[str]:
    """What to say of targets that have no score."""
    import numpy as np

    from wlkernelnn.training import unscored

    if np.isfinite(prediction).all():
        targets = report["targets"]
        for metric in metrics:
            each = np.array([scores[metric] for scores in targets.values()])
            if what := unscored(metric, list(targets), each):
                yield what


def _show(title: str, figures: list[str], report: dict[str, Any]) -> None:
    """Print tables: a row for each target and, of several, for their means."""
    targets = report["targets"]
    # More columns than that do not fit into 80 characters.
    for begin in range(0, len(figures), 5):
        some = figures[begin : begin + 5]
        rows = {name: [score_text(each[figure]) for figure in some] for name, each in targets.items()}
        mean = [score_text(report["mean"][figure]) for figure in some] if len(rows) > 1 else []
        _print(title, some, rows, mean)


def _show_classes(report: dict[str, Any], classes: Sequence[str]) -> None:
    """Print how well each class is found and, of few, as which it is predicted."""
    figures = ["molecules", "precision", "recall"]
    rows = {
        name: [f"{each['count']:,}", score_text(each["precision"]), score_text(each["recall"])]
        for name, each in report["classes"].items()
    }
    if len(classes) <= _MOST_CLASSES:
        figures += [f"as {name}" for name in classes]
        for cells, counts in zip(rows.values(), report["confusion"], strict=True):
            cells += [f"{count:,}" for count in counts]
    _print("", figures, rows, first="class")


def _show_by_deviation(report: dict[str, Any]) -> None:
    """Print errors beside deviations of molecules with small and with large deviations."""
    rows, most = {}, 0
    for name, each in report["targets"].items():
        found = each["by_deviation"]
        pairs = zip(found["rmse"], found["deviation"], strict=True)
        rows[name] = [f"{score_text(rmse)} ({score_text(deviation)})" for rmse, deviation in pairs]
        most = max(most, len(rows[name]))
    if most > 1:
        titles = [f"{place} of {most}" for place in range(1, most + 1)]
        title = "RMSE (predicted deviation), in parts of equal size by predicted deviation"
        _print(title, titles, {name: row + [""] * (most - len(row)) for name, row in rows.items()})


def _print(
    title: str,
    columns: list[str],
    rows: dict[str, list[str]],
    last: Sequence[str] = (),
    first: str = "target",
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(first, *(Column(escape(name), justify="right") for name in columns), title=title or None)
    for target, cells in rows.items():
        table.add_row(escape(target), *cells)
    if last:
        table.add_section()
        table.add_row("mean", *last)
    Console().print(table)
