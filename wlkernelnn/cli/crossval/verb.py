"""Cross-validation of one model or several, by the options of ``train``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wlkernelnn.cli.before import check_run_folder
from wlkernelnn.cli.data import DataOptions, SplitOptions, score_text
from wlkernelnn.cli.options import VerbParser, config_text, pick

if TYPE_CHECKING:
    from wlkernelnn.datasets import PackedGraphs


def cross_validation(
    parser: VerbParser,
    parsed: Namespace,
    models: list[str],
    networks: Collection[str],
    features_of: Callable[[Namespace], str | None],
    train_model: Callable[..., tuple[Any, dict[str, Any]]],
    may_differ: Collection[str],
) -> None:
    """Cross-validate models, and print their table.

    Args:
        parser, parsed: The options of ``train``.
        models: Names of the models.
        networks: Those that take a validation part.
        features_of, train_model: The features of a model, and what trains it, by options with its name.
        may_differ: Options that may change when a run resumes.
    """
    from wlkernelnn.datasets import MOLECULE_SETS, cv_folds, split_groups
    from wlkernelnn.datasets.files.rejects import CHANGES, write_changes, write_rejects
    from wlkernelnn.report import PAGE, tried, write_cv_page
    from wlkernelnn.training.crossval import cross_validate
    from wlkernelnn.training.crossval.run import REPORT, TABLE, check_cv_folder, origin_of
    from wlkernelnn.utils.files import alone_in, write_text

    split = SplitOptions(**pick(parsed, SplitOptions))
    _check(parsed, split)
    directory = Path(parsed.output_dir)
    rejects_path = directory / "rejects.csv"
    # Folds are compared: all are of as many networks.
    may_differ = [name for name in may_differ if name != "ensemble_size"]
    check_run_folder(parser, parsed, directory, may_differ, (PAGE, REPORT, TABLE))
    with alone_in(directory):
        stores: dict[str | None, PackedGraphs] = {}

        def train(name: str, parts: dict[str, np.ndarray], folder: Path) -> dict[str, Any]:
            own = Namespace(**{**vars(parsed), "model": name})
            return train_model(own, stores[features_of(own)], parts, folder)[1]

        for name in models:
            features = features_of(Namespace(**{**vars(parsed), "model": name}))
            if features not in stores:
                options = DataOptions(**{**pick(parsed, DataOptions), "features": features})
                stores[features] = options.load(None if stores or parsed.resume else rejects_path)
        data = next(iter(stores.values()))
        rejects, changes = data.rejects, data.changes
        for other in stores.values():
            if not np.array_equal(other.row, data.row):
                raise ValueError(
                    f"{' and '.join(models)} reject different rows: their features do not compare"
                )
        published = split.published(data)
        if published is not None and len(published["test"]):
            print(
                f"{data.description.name}: the {len(published['test']):,} molecules of its published test "
                "part are in no fold; --split random, or another, folds all"
            )
            rest = np.setdiff1d(np.arange(len(data)), published["test"])
            stores = {features: store[rest] for features, store in stores.items()}
            data = next(iter(stores.values()))
        known = MOLECULE_SETS.get(data.description.name)
        kind: Any = parsed.split or (known.split if known else "random")
        clusters = split.of_clusters()
        folds = cv_folds(data, parsed.cv, parsed.repeats, kind, parsed.data_seed, **clusters)
        for name in (name for name in models if name not in networks):
            _check_folds(name, data, folds)
        given: dict[str, Any] = {
            "groups": split_groups(data, kind, **clusters),
            "validated": networks,
            "about": {"data": data.digest()},
            "seed": parsed.data_seed,
        }
        check_cv_folder(directory, origin_of(models, folds, **given), parsed.resume)
        resume, parsed.resume = parsed.resume, False
        if resume:  # not before the data are seen to be those of the folds
            write_rejects(rejects_path, rejects)
        if changes:
            write_changes(directory / CHANGES, changes)
        write_text(directory / "config.yaml", config_text(parsed))
        report = cross_validate(
            {name: partial(train, name) for name in models},
            folds,
            directory,
            **given,
            resume=resume,
        )
        page = tried(lambda: write_cv_page(directory, report, data.description.name, kind), f"no {PAGE}")
    unit = f", {data.description.unit}" if data.description.unit else ""
    print(
        f"{data.description.name}{unit}: mean ± standard deviation over {report['repeats']} × "
        f"{report['folds']} folds (split: {kind})"
    )
    _show(report)
    print(f"scores of every fold: {directory / 'cv.csv'}; no model is kept: train without --cv for one")
    if page is not None:
        print(f"report: {page}")


def _check(parsed: Namespace, split: SplitOptions) -> None:
    """Refuse options that go with one training alone."""
    if parsed.cv < 2:
        raise ValueError(f"--cv: expected at least 2 folds, got {parsed.cv}")
    for option, given in {
        "--splits-column": split.splits_column is not None,
        "--split time": split.split == "time",
        "--split-sizes": tuple(split.split_sizes) != SplitOptions.split_sizes,
        "--logger": parsed.logger is not None,
        "--devices": parsed.devices != 1,
        "--num-nodes": parsed.num_nodes != 1,
    }.items():
        if given:
            raise ValueError(f"{option} does not go with --cv, which splits and trains {parsed.cv} times")


def _check_folds(name: str, data: PackedGraphs, folds: np.ndarray) -> None:
    """Refuse targets without values, or with one class alone, outside a fold, before anything is trained."""
    from wlkernelnn.machines.parts import constant_targets

    for repeat, fold in product(range(len(folds)), range(int(folds.max()) + 1)):
        try:
            constant_targets(data[np.flatnonzero(folds[repeat] != fold)], not name.startswith("linear"))
        except ValueError as error:
            raise ValueError(f"{name}, repeat {repeat + 1}, fold {fold + 1}: {error}") from error


def _show(report: dict[str, Any]) -> None:
    """Print a table of the models and, of several, of their differences."""
    from rich.console import Console
    from rich.table import Column, Table

    metrics = [
        report["metric"],
        *(name for name in next(iter(report["models"].values())) if name != report["metric"]),
    ]
    console = Console()
    for begin in range(0, len(metrics), 3):
        some = metrics[begin : begin + 3]
        table = Table("model", *(Column(name, justify="right") for name in some))
        for model, scores in report["models"].items():
            each = (scores[metric] for metric in some)
            table.add_row(model, *(f"{score_text(s['mean'])} ± {score_text(s['std'])}" for s in each))
        console.print(table)
    if len(report["models"]) > 1:
        print("paired differences, corrected resampled t-test:")
        columns = ("mean", "std", "t", "p")
        table = Table("models", "metric", *(Column(name, justify="right") for name in columns))
        for each in report["differences"]:
            if each["metric"] in metrics[:4]:
                figures = (score_text(each[name]) for name in columns)
                table.add_row(f"{each['first']} − {each['second']}", each["metric"], *figures)
        console.print(table)
