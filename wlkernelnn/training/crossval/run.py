"""Train models on all folds but one, again and again, and keep what each fold gave."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wlkernelnn.datasets import random_split
from wlkernelnn.training.folder import FOLDS_FILE, write_report
from wlkernelnn.utils.files import alone_in, atomic_path, json_text, read_json, write_text

from .summary import summary

#: In the folder: scores and differences; those of every fold. The fold of every molecule is in FOLDS_FILE.
REPORT, TABLE = "cv.json", "cv.csv"
#: Of the training molecules of a fold, those that validate a network.
VALID = 0.1

Train = Callable[[dict[str, np.ndarray], Path], Mapping[str, Any]]
logger = logging.getLogger("wlkernelnn")


def cross_validate(
    models: Mapping[str, Train],
    folds: np.ndarray,
    directory: str | os.PathLike[str],
    *,
    groups: np.ndarray | None = None,
    validated: Collection[str] = (),
    about: Mapping[str, Any] | None = None,
    seed: int = 0,
    resume: bool = False,
) -> dict[str, Any]:
    """Train every model on all folds but one, and score it on that one.

    The folder then holds ``cv.json`` (what this returns), ``cv.csv`` (the scores of every fold),
    ``folds.json`` (the fold of every molecule) and, in ``folds``, the scores and predictions of each model
    and fold. No model is kept.

    Args:
        models: By name, what trains one: called with positions of the parts and an empty folder, it leaves
            ``test_predictions.csv`` there and returns a report as :func:`train_run` does.
        folds: The fold of every molecule in each repeat, ``[repeats, n]``, see
            :func:`~wlkernelnn.datasets.cv_folds`.
        directory: Where results are kept.
        groups: Groups of molecules that stay together, ``[n]``, see
            :func:`~wlkernelnn.datasets.split_groups`.
        validated: Models that take a validation part: a tenth of the training molecules, in whole groups.
        about: What else says of what data and options this is; a run that resumes must have the same.
        seed: Of what is drawn.
        resume: Take the folds that are finished as they are.

    Returns:
        ``metric``, ``folds``, ``repeats``, ``molecules``, and ``models`` and ``differences`` of the scores:
        of each model and metric ``mean``, ``std`` and ``folds``; of each pair also ``t`` and ``p``.

    Raises:
        FileExistsError: The folder holds a cross-validation, and ``resume`` is off.
        ValueError: The one to resume is of other data, folds or options; or a training fails.
    """
    directory = Path(directory)
    with alone_in(directory):
        origin = origin_of(models, folds, groups=groups, validated=validated, about=about, seed=seed)
        check_cv_folder(directory, origin, resume)
        write_text(directory / FOLDS_FILE, json_text(origin))
        records = []
        for repeat, fold_of in enumerate(folds):
            for fold in range(int(folds.max()) + 1):
                test, rest = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
                for name, train in models.items():
                    parts = {"train": rest, "test": test}
                    if name in validated:
                        of_rest = random_split(
                            len(rest), (1 - VALID, VALID, 0.0), seed, None if groups is None else groups[rest]
                        )
                        parts = {part: rest[of_rest[part]] for part in ("train", "valid")} | {"test": test}
                    place = directory / "folds" / f"{name}_repeat{repeat + 1}_fold{fold + 1}.json"
                    records.append(_record(place, train, parts, name, repeat + 1, fold + 1))
        return _written(directory, records, folds)


def origin_of(
    models: Collection[str],
    folds: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    validated: Collection[str] = (),
    about: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """What a cross-validation is of, as its folder says it: of arguments of :func:`cross_validate`."""
    return {
        "about": dict(about or {}),
        "models": [*models],
        "validated": sorted(validated),
        "groups": None if groups is None else [*map(str, groups)],
        "seed": int(seed),
        "folds": folds.tolist(),
    }


def check_cv_folder(directory: Path, origin: Mapping[str, Any], resume: bool) -> None:
    """Raise an error if the folder holds a cross-validation that is not to be resumed, or another one."""
    path = directory / FOLDS_FILE
    if path.is_file() and not resume:
        raise FileExistsError(
            f"{directory} holds a cross-validation already: resume it, or choose another folder"
        )
    if path.is_file() and read_json(path) != json.loads(json.dumps(origin)):
        raise ValueError(
            f"{path}: the cross-validation to resume is of other data, models, folds or validation parts"
        )


def _record(
    place: Path, train: Train, parts: dict[str, np.ndarray], name: str, repeat: int, fold: int
) -> dict[str, Any]:
    """What a fold gave: read, if it is finished, or trained for."""
    if place.is_file():
        return dict(read_json(place))
    working = place.parent / "training"
    shutil.rmtree(working, ignore_errors=True)  # of a run that was interrupted
    working.mkdir(parents=True)
    try:
        report = train(parts, working)
    except ValueError as error:
        raise ValueError(f"{name}, repeat {repeat}, fold {fold}: {error}") from error
    with atomic_path(place.with_suffix(".csv")) as temporary:
        shutil.copyfile(working / "test_predictions.csv", temporary)
    record = {
        "model": name,
        "repeat": repeat,
        "fold": fold,
        "train": sum(len(part) for part in parts.values()) - len(parts["test"]),
        "test": len(parts["test"]),
        "seconds": report["seconds"],
        "metric": report["metric"],
        "scores": report["scores"]["test"]["mean"],
    }
    write_report(place, record)  # last: a fold with a report is finished
    shutil.rmtree(working)
    score = record["scores"][record["metric"]]
    logger.info(f"repeat {repeat}, fold {fold}, {name}: {record['metric']} {score:.4g}")
    return record


def _written(directory: Path, records: list[dict[str, Any]], folds: np.ndarray) -> dict[str, Any]:
    metric = records[0]["metric"]
    first = [metric, *(name for name in records[0]["scores"] if name != metric)]
    records = [{**each, "scores": {name: each["scores"][name] for name in first}} for each in records]
    rows = [
        {**{k: v for k, v in each.items() if k not in ("metric", "scores")}, **each["scores"]}
        for each in records
    ]
    with atomic_path(directory / TABLE) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    report = {
        "metric": metric,
        "folds": int(folds.max()) + 1,
        "repeats": len(folds),
        "molecules": folds.shape[1],
        **summary(records),
    }
    write_report(directory / REPORT, report)
    return report
