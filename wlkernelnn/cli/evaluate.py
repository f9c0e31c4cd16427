"""Score trained networks on a table of SMILES with measured targets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from .data import DataOptions
from .options import PositiveInt, VerbParser, add_options, check_outputs, pick
from .scores import score_text

logger = logging.getLogger("wlkernelnn")

DATA_OPTIONS = ("data_path", "smiles_columns", "root", "on_invalid", "num_workers")


@dataclass
class EvaluateOptions:
    """What to score, and how.

    Args:
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        target_columns: Columns of targets: some that the networks were trained on, by default all, or as many
            of other names, in their order.
        metrics: Metrics; by default all that fit the task.
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
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from wlkernelnn import training

    ensemble = training.load_ensemble(options.model_path)
    task, names = ensemble.about["task"], ensemble.about["target_names"]
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
        features=ensemble.about["features"],
    ).load(options.rejects_path)
    prediction, _ = ensemble.predict(data, options.batch_size)
    prediction = prediction[:, [names.index(name) for name in targets]]
    target = data.y.numpy()

    scores = {name: training.score(name, target, prediction) for name in metrics}
    each = {name: training.score_tasks(name, target, prediction) for name in metrics}
    if np.isfinite(prediction).all():
        for what in filter(None, (training.unscored(name, columns, each[name]) for name in metrics)):
            logger.warning(f"{data.description.name}: {what}")
    print(f"{data.description.name}: {len(data):,} molecules")
    table = Table("target", *(Column(name, justify="right") for name in metrics))
    for i, column in enumerate(columns):
        table.add_row(escape(column), *(score_text(each[name][i]) for name in metrics))
    if len(columns) > 1:
        table.add_section()
        table.add_row("mean", *(score_text(scores[name]) for name in metrics))
    Console().print(table)
    if options.metrics_path is not None:
        report = {
            "molecules": len(data),
            "rejected": len(data.rejects),
            "mean": scores,
            "targets": {c: {name: float(each[name][i]) for name in metrics} for i, c in enumerate(columns)},
        }
        training.write_report(options.metrics_path, report)
