"""Runs of the molecule tables: a network or another method on one split, its record, and ensembles."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC
from wlkernelnn.datasets.splits.parts import PARTS, SplitIndex
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training import DivergedError, FitOptions, fit, predict, score
from wlkernelnn.utils.files import atomic_path, json_digest, write_text

from .cells import Cell, Record, cell, survivors
from .parameters import count_parameters
from .runs import MADE_WITH, made_with
from .trained import kept


@dataclass(frozen=True)
class Split:
    """A data set and its parts."""

    data: PackedGraphs  # all graphs, with targets
    kind: str  # how it was split, for people: "random", "scaffold", …
    index: SplitIndex  # positions of "train", "valid" and, unless it must not be seen, "test"

    def __getitem__(self, part: str) -> PackedGraphs:
        return self.data[self.index[part]]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in PARTS if part in self.index)

    @property
    def metric(self) -> str:
        return self.data.metric or DEFAULT_METRIC[self.data.task or "regression"]

    @cached_property
    def rows(self) -> str:
        """The input rows of every part, counted from 0, as JSON."""
        return json.dumps({part: self[part].row.tolist() for part in self.parts}) + "\n"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.rows.encode()).hexdigest()

    def write(self, folder: Path) -> Path:
        """Write the rows into a file of ``folder`` that is named after the data set and their SHA-256."""
        path = folder / f"{self.data.description.name}-{self.kind}-{self.sha256[:12]}.json"
        if not path.is_file():
            write_text(path, self.rows)
        return path


@dataclass(frozen=True)
class Fitted:
    """The result of fitting a method to a split."""

    predictions: dict[str, np.ndarray]  # by part [G, tasks]: values or probabilities; none if it diverged
    parameters: int  # how many numbers were fitted
    seconds: float
    epochs: int = 0
    more: Record = field(default_factory=dict)  # for its record


def run_method(
    model: str,
    split: Split,
    fit_method: Callable[[Path], Fitted],
    folder: Path,
    *,
    seed: int = 0,
    decided_by: Mapping[str, Any] | None = None,
    epochs: int = 0,
    recipe_epochs: int = 0,
    metrics: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
) -> Record:
    """Fit a method, score it and keep its record; or take the record that lies there.

    A run lies in a folder that is named after its seed and all that decides it: runs of other splits or
    options are other runs. Beside its record lie ``valid_predictions.csv`` and ``test_predictions.csv``.

    Args:
        model: The row of a table that the run is of.
        split: Data set and parts.
        fit_method: Fits on the split; is given the folder of the run.
        folder: Folder of the runs of this row.
        seed, decided_by: What decides the run; becomes part of the record.
        epochs, recipe_epochs: Those that are wanted, and those of the whole recipe.
        metrics: Metrics beside the data set's own.
        known: What is known of the call, for the record.
    """
    about = split.data.description
    decided = {
        "data": about.name,
        "features": about.features,
        "content": split.data.digest(),
        "split_sha256": split.sha256,
        "seed": seed,
        **(decided_by or {}),
    }
    digest = json_digest(decided)
    place = folder / f"seed_{seed}-{digest[:8]}"

    def train() -> Record:
        fitted = fit_method(place)
        scores = {}
        for part, prediction in fitted.predictions.items():
            y, names = split[part].y.numpy(), dict.fromkeys((split.metric, *metrics))
            scores[part] = {metric: score(metric, y, prediction) for metric in names}
            if part != "train":
                with atomic_path(place / f"{part}_predictions.csv") as temporary:
                    _table(split[part], prediction).to_csv(temporary, index=False)
        return {
            "counts": {part: len(split.index[part]) for part in split.parts},
            "metric": split.metric,
            **decided,
            "parameters": fitted.parameters,
            "scores": scores,
            "epochs": fitted.epochs,
            "recipe_epochs": recipe_epochs,
            "stopped": fitted.epochs < epochs or fitted.epochs == recipe_epochs,  # or diverged
            "seconds": fitted.seconds,
            **fitted.more,
            **(known or {}),
        }

    # One run may be of several rows and kinds of splits.
    return kept(place, epochs, train, known or {}) | {
        "model": model,
        "split": split.kind,
        "split_file": str(split.write(folder.parent / "splits")),
        "folder": str(place),
    }


def run_network(
    model: str,
    network: type[GraphNetwork],
    arguments: Mapping[str, Any],
    split: Split,
    options: FitOptions,
    folder: Path,
    *,
    epochs: int | None = None,
    metrics: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
) -> Record:
    """Train a network, or go on with it, and score it at its best validation epoch; see :func:`run_method`.

    Args:
        network, arguments: The class, and its arguments beside those that the data decide.
        options: The whole recipe, with the seed.
        epochs: Stop after so many. A cosine is then that long, so that runs of other lengths are other runs;
            otherwise a later run with more goes on.
    """
    epochs = options.epochs if epochs is None else min(epochs, options.epochs)
    limited = replace(options, epochs=epochs)
    recipe = asdict(limited if options.schedule == "cosine" else options)

    def fit_network(place: Path) -> Fitted:
        torch.manual_seed(options.seed)
        train = split["train"]
        net = network.from_data(train, **arguments)
        try:
            done = fit(net, train, split["valid"], limited, directory=place, resume=True)
        except DivergedError as error:
            return Fitted({}, count_parameters(net), 0.0, error.epoch, {"diverged": error.epoch})
        return Fitted(
            {part: predict(net, split[part]) for part in split.parts},
            count_parameters(net),
            sum(done.epoch_seconds),
            len(done.history),
            {"best_epoch": done.epoch, "history": done.history},
        )

    return run_method(
        model,
        split,
        fit_network,
        folder,
        seed=options.seed,
        decided_by={"network": network.__name__, "arguments": dict(arguments), "recipe": recipe},
        epochs=epochs,
        recipe_epochs=options.epochs,
        metrics=metrics,
        known=known,
    )


def predicted(
    part: str, records: Sequence[Record], weights: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Targets of a part, and the mean prediction of several runs, each ``[G, tasks]``."""
    tables = [pd.read_csv(Path(record["folder"]) / f"{part}_predictions.csv") for record in records]
    names = [name for name in map(str, tables[0].columns) if name.endswith("_pred")]
    target = tables[0][[name.removesuffix("_pred") for name in names]].to_numpy()
    return target, np.average([table[names].to_numpy() for table in tables], axis=0, weights=weights)


def ensemble(model: str, records: Sequence[Record], weights: Sequence[float] | None = None) -> Record:
    """The mean prediction of several runs: parameters and seconds are summed; it diverged if one run did.

    Args:
        model: The row that it is of.
        records: The runs.
        weights: How much each counts; by default all the same.

    Raises:
        ValueError: The runs are of several splits, or were made with several revisions, devices or packages.
    """
    first = records[0]
    if len({record["split_sha256"] for record in records}) > 1:
        raise ValueError(f"{model}: the members of an ensemble must have one split, got several")
    if not made_alike(records):
        raise ValueError(
            f"{model}: the members of an ensemble must be made with one revision, device and version of "
            "every package, got several: name another --run-dir"
        )
    lost = [record["diverged"] for record in records if "diverged" in record]
    scores = {}
    for part in () if lost else (part for part in first["scores"] if part != "train"):
        target, mean = predicted(part, records, weights)
        scores[part] = {metric: score(metric, target, mean) for metric in first["scores"][part]}
    same = (
        *("data", "features", "content", "split", "split_sha256", "split_file", "counts", "metric"),
        *("recipe", "command", "processor", "threads", "python", *MADE_WITH),
    )
    of_member = ("model", "seed", "folder", "revision", "content")
    return {name: first[name] for name in same if name in first} | {
        "model": model,
        "members": [{name: record[name] for name in of_member if name in record} for record in records],
        "parameters": sum(record["parameters"] for record in records),
        "seconds": sum(record["seconds"] for record in records),
        "scores": scores,
        **({"diverged": min(lost)} if lost else {}),
    }


def made_alike(records: Sequence[Record]) -> bool:
    """Whether runs are of one revision and one version of every package, and all networks of one device."""
    trained = {record.get("device") for record in records if "recipe" in record}
    return len(trained) <= 1 and len({made_with(record | {"device": None}) for record in records}) == 1


def for_table(record: Record, folder: Path) -> Record:
    """A record for the JSON file of a table in a folder: paths go from there, and its split lies there."""

    def from_there(path: str | Path) -> str:
        return Path(os.path.relpath(path, folder)).as_posix()

    source = Path(record["split_file"])
    split = folder / "splits" / source.name
    if not split.is_file():
        write_text(split, source.read_text(encoding="utf-8"))
    out = {name: value for name, value in record.items() if name != "history"}
    out["split_file"] = from_there(split)
    if "folder" in record:
        out["folder"] = from_there(record["folder"])
    if "members" in record:
        out["members"] = [member | {"folder": from_there(member["folder"])} for member in record["members"]]
    return out


def score_of(part: str, metric: str | None = None, digits: int = 3) -> Cell:
    """Mean and deviation over runs of a metric, by default their own; small errors get more digits."""

    def of_runs(runs: list[Record]) -> str:
        scores = [run["scores"][part][metric or run["metric"]] for run in survivors(runs)]
        values = [math.nan if score is None else score for score in scores]  # JSON has no NaN
        shown = digits
        if values and 0 < (mean := np.mean(values)) < 0.1:
            shown = max(digits, 2 - math.floor(math.log10(mean)))
        return cell(values, runs, shown)

    return of_runs


def _table(data: PackedGraphs, prediction: np.ndarray) -> pd.DataFrame:
    columns: dict[str, Any] = {"row": data.row.numpy()}
    names = data.description.target_names or [f"target_{task}" for task in range(data.num_tasks)]
    for task, name in enumerate(names):
        columns[name] = data.y[:, task].numpy()
        columns[f"{name}_pred"] = prediction[:, task]
    return pd.DataFrame(columns)
