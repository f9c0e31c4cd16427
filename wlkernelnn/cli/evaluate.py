"""Score a trained run on a table of SMILES with measured targets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .data import DataOptions
from .options import PositiveInt, VerbParser, add_options, check_outputs, pick
from .scores import score_text

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger("wlkernelnn")

DATA_OPTIONS = ("data_path", "smiles_columns", "root", "on_invalid", "num_workers")


@dataclass
class EvaluateOptions:
    """What to score, and how.

    Args:
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        target_columns: Columns of targets: some that the run was trained on, by default all, or as many
            of other names, in their order.
        metrics: Metrics; by default all that fit the task, and of a kernel machine of numbers the shares of
            targets within the intervals that should hold 50, 80, 90 and 95 % of them, and the mean negative
            log-likelihood, "nll".
        metrics_path: JSON file for the scores, if it is given.
        rejects_path: CSV file for the rows that gave no molecule, if it is given.
        batch_size: Molecules at once.
    """

    model_path: Path
    target_columns: list[str] | None = None
    metrics: list[str] | None = None
    metrics_path: Path | None = None
    rejects_path: Path | None = None
    batch_size: PositiveInt = 512


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("evaluate", __doc__)
    add_options(parser, "Data", DataOptions, DATA_OPTIONS)
    add_options(parser, "Options", EvaluateOptions)
    parsed = parser.parse_args(argv)
    options = EvaluateOptions(**pick(parsed, EvaluateOptions))
    outputs = {"--metrics-path": options.metrics_path, "--rejects-path": options.rejects_path}
    check_outputs(outputs, [Path(parsed.data_path)])

    # Help does not wait for torch.
    import numpy as np

    from wlkernelnn import training
    from wlkernelnn.machines import MoleculeMachine

    model = training.load_run(options.model_path)
    task, names = model.about["task"], model.about["target_names"]
    metrics = options.metrics or [name for name, metric in training.METRICS.items() if metric.task == task]
    for name in metrics:
        training.get_metric(name, task)
    targets, columns = names, options.target_columns or names
    if {*columns} <= {*names} and len({*columns}) == len(columns):
        # Columns of these names are those targets, in whatever order they are given; some will do.
        targets = columns = [name for name in names if name in columns]
    elif len(columns) != len(names):
        raise ValueError(
            f"--target-columns: expected some of {', '.join(names)}, or {len(names)} columns of other names; "
            f"got {', '.join(columns)}"
        )
    for column, name in zip(columns, targets, strict=True):
        if column != name and column in names:
            raise ValueError(
                f"--target-columns: expected a column for each of {', '.join(names)}, in this order; got "
                f"{', '.join(columns)}, where {column} stands in the place of {name}"
            )
    data = DataOptions(
        **pick(parsed, DataOptions, DATA_OPTIONS),
        target_columns=columns,
        task_type=task,
        features=model.about["features"],
    ).load(options.rejects_path)
    place = [names.index(name) for name in targets]
    prediction, std = training.mean_and_std(model, data, options.batch_size)
    prediction, target = prediction[:, place], data.y.numpy()

    scores = {name: training.score(name, target, prediction) for name in metrics}
    each = {name: training.score_tasks(name, target, prediction) for name in metrics}
    if np.isfinite(prediction).all():
        for what in filter(None, (training.unscored(name, columns, each[name]) for name in metrics)):
            logger.warning(f"{data.description.name}: {what}")
    shares: dict[str, np.ndarray] = {}
    if std is not None and not options.metrics and isinstance(model, MoleculeMachine):
        shares = training.calibration(target, prediction, std[:, place])
    print(f"{data.description.name}: {len(data):,} molecules")
    _show("", columns, each, scores)
    if shares:
        means = {name: float(np.nanmean(values)) for name, values in shares.items()}
        _show("targets within their intervals, and negative log-likelihood", columns, shares, means)
        each, scores = each | shares, scores | means
    if options.metrics_path is not None:
        report = {
            "molecules": len(data),
            "rejected": len(data.rejects),
            "mean": scores,
            "targets": {c: {name: float(each[name][i]) for name in each} for i, c in enumerate(columns)},
        }
        training.write_report(options.metrics_path, report)


def _show(title: str, targets: list[str], each: dict[str, np.ndarray], means: dict[str, float]) -> None:
    """Print a table: a row for each target and, of several, for their means."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table("target", *(Column(name, justify="right") for name in each), title=title or None)
    for i, target in enumerate(targets):
        table.add_row(escape(target), *(score_text(values[i]) for values in each.values()))
    if len(targets) > 1:
        table.add_section()
        table.add_row("mean", *map(score_text, means.values()))
    Console().print(table)
