"""Tables of networks on sets of molecules: sets, splits, rows, ensembles, and the command that fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from wlkernelnn.bench.harness.molecule_runs import Split, ensemble, for_table, spread_of
from wlkernelnn.bench.harness.outcomes import epochs_of, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.runs import Place, Runs, on_same_data
from wlkernelnn.bench.harness.trained import Record, TrainedOptions, about_training, chosen, of_seeds
from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import PackedGraphs, featurize, load_molecules, split
from wlkernelnn.datasets.files.download import data_folders
from wlkernelnn.datasets.graphs.splits import PARTS, SplitIndex
from wlkernelnn.models import GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

from .members import run_members

# Molecules of a quick run, about.
QUICK = 200

LEGEND = """* valid, test: mean and, over several seeds, unbiased standard deviation. The weights are those of
  the epoch with the best score on the validation part; the test part is scored once, with these.
* "random" splits are drawn anew by every seed, 80/10/10; a "scaffold" split is one and the same, 80/10/10
  by Bemis-Murcko scaffolds; "published" is the split that comes with the data. Their rows, counted from 0,
  lie in files of the folder "splits", beside this table, whose names and SHA-256 are in the JSON file.
  Some sets have molecules in several spellings, which may lie in several parts of a random split.
* An ensemble of k predicts by the mean of k networks that differ in their seeds; parameters are summed.
* The linear machine on the WL subtree kernel is ridge regression on counts of colours, or of classes logistic
  regression on log(1 + count); iterations (1 to 3), penalty, and whether bonds and (of ridge regression)
  lengths count, are those with the best score on the validation part. Its parameters are the weights of the
  colours of the training part, of every target.
* "epochs" are those of the recipe that were trained, "seeds" those of the benchmark. **A row with fewer
  epochs ("5 of 60") is not a result yet**, and one with fewer seeds says less. "s / epoch" is of one network.
"""


@dataclass(frozen=True)
class Model:
    """A row of a table.

    Attributes:
        title: What it is; in it "{members}" is the number of networks.
        arguments: Of the network, beside what the data say.
        network: Its class.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        members, machine: What predicts together, see :class:`~.members.Row`.
    """

    title: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    network: type[GraphNetwork] = KernelStackNetwork
    features: str = "ogb"
    members: int = 1
    machine: tuple[int, ...] = ()


@dataclass(frozen=True)
class MoleculeTask:
    """A set of molecules, and how it is learned.

    Attributes:
        options: Training.
        models: The rows, by name.
        splits: Any of ``"random"``, ``"scaffold"`` and ``"published"``.
        published: What others report, by split.
        load: From the folder of published sets and ``features``; default :func:`load_molecules` by name.
    """

    options: FitOptions
    models: Mapping[str, Model]
    splits: Sequence[str] = ("random", "scaffold")
    published: Mapping[str, str] = field(default_factory=dict)
    load: Callable[..., PackedGraphs] | None = None


@dataclass
class MoleculeOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        sets: Which sets; by default all that are at hand.
        splits: Which splits: random, scaffold, published; by default all that a set has.
        models: Which rows; by default all that a set has.
        epochs: Train so many epochs, if the recipe has more; its learning rate falls to the end in these.
        seeds: Seeds 0, 1, … of the networks, and of random splits.
    """

    seeds: int = 5
    sets: list[str] | None = None
    splits: list[str] | None = None


def run_table(
    name: str,
    title: str,
    tasks: Mapping[str, MoleculeTask],
    argv: list[str] | None,
    description: str | None,
    *,
    legend: str = "",
    seeds: int = 5,
) -> None:
    """The command of tables: train, score, print, and write ``<name>.md`` and ``.json``.

    Where there are several sets every one has a table, ``<name>_<set>.md`` and ``.json``.

    Args:
        name: Of the benchmark.
        title: Of the tables.
        tasks: The sets, by name.
        argv: Arguments; ``None`` for the command line's.
        description: Of the command.
        legend: What else is to be known.
        seeds: How many seeds are trained by default.
    """
    parser = verb_parser(f"benchmark {name}", description)
    add_options(parser, "Options", MoleculeOptions)
    parser.set_defaults({"seeds": seeds, "run_dir": Path("runs") / name})
    options = MoleculeOptions(**pick(parser.parse_args(argv), MoleculeOptions))
    keys = chosen("sets", options.sets, tasks)
    for option, wanted, there in (
        ("splits", options.splits, [kind for key in keys for kind in tasks[key].splits]),
        ("models", options.models, [row for key in keys for row in tasks[key].models]),
    ):
        chosen(option, wanted, list(dict.fromkeys(there)))
    known = about_training(name, argv, options)
    data_folders(options.root)  # a folder that is none is an error, not sets that are not there
    absent: dict[str, FileNotFoundError] = {}
    without = []
    for key in keys:
        stem, heading = name.replace("-", "_"), title
        if len(tasks) > 1:
            stem, heading = f"{stem}_{key}", f"{title}: {key}"
        task = tasks[key]
        kinds = [kind for kind in task.splits if kind in (options.splits or task.splits)]
        models = {row: model for row, model in task.models.items() if row in (options.models or task.models)}
        if not kinds or not models:
            without.append(key)
            continue
        task = replace(task, splits=kinds, models=models)
        try:
            stores, splits = _stores(key, task, options)
        except FileNotFoundError as error:
            if options.sets is not None or len(tasks) == 1:
                raise
            absent[key] = error
            continue
        contents = {features: store.digest() for features, store in stores.items()}
        runs = Runs(
            options.output_dir / stem,
            known,
            partial(place, tasks[key]),
            on_same_data("features", contents),
        )
        made = (
            for_table(record, options.output_dir)
            for record in _records(key, task, stores, splits, options, known)
        )
        runs.fill(
            made, heading, partial(rows, seeds=seeds), lambda records: legend + LEGEND + _about_sets(records)
        )
    if absent:
        if len(absent) == len(keys):
            raise next(iter(absent.values()))
        Console().print(f"Not at hand, so left out: {', '.join(absent)}.")
    if without:
        Console().print(f"Without these splits or models, so left out: {', '.join(without)}.")


def place(task: MoleculeTask, run: Record) -> Place:
    """Where a run stands in the table."""
    return (task.splits.index(run["split"]), list(task.models).index(run["model"])), (run["set_seed"],)


# From the kind of a split and a seed.
_Splits = Callable[[str, int], SplitIndex]


def _stores(
    key: str, task: MoleculeTask, options: MoleculeOptions
) -> tuple[dict[str, PackedGraphs], _Splits]:
    """The molecules of a set, by features, and their splits; in a quick run few of each part."""
    load = task.load or partial(load_molecules, key)
    wanted = dict.fromkeys(model.features for model in task.models.values())
    if not options.quick:
        stores = {features: load(options.root, features=features) for features in wanted}
        return stores, partial(_split, next(iter(stores.values())))
    whole = load(options.root, features="ogb")
    taken = {kind: _few(whole, _split(whole, kind, 0)) for kind in task.splits}
    all_taken = np.unique(np.concatenate([rows for index in taken.values() for rows in index.values()]))
    few = {
        kind: {part: np.searchsorted(all_taken, rows) for part, rows in index.items()}
        for kind, index in taken.items()
    }
    # Descriptors take milliseconds a molecule: only the few get them.
    stores = {features: _seen_by(features, whole[all_taken]) for features in wanted}
    return stores, lambda kind, _: few[kind]


def _seen_by(features: str, data: PackedGraphs) -> PackedGraphs:
    """The same molecules with other features."""
    graphs, _ = featurize(data.smiles, features=features, rows=data.row.tolist())
    return graphs.with_targets(data.y, **data.description.of_set())


def _records(
    key: str,
    task: MoleculeTask,
    stores: Mapping[str, PackedGraphs],
    splits: _Splits,
    options: MoleculeOptions,
    known: Mapping[str, Any],
) -> Iterator[Record]:
    """The records of all rows of a set, as they are there."""
    for kind in task.splits:
        for seed in range(1 if options.quick else options.seeds):
            for row, model in task.models.items():
                data = stores[model.features]
                parts = Split(data, kind, splits(kind, seed))
                if seed and kind != "random" and not model.members:
                    continue  # a machine has no seed of its own
                folder = options.folder(key, model.features)
                networks, members = run_members(row, model, parts, task.options, seed, options, folder, known)
                record = members[0] if len(members) == 1 else ensemble(row, members)
                yield (
                    {name: members[0][name] for name in ("features", "content")}
                    | record
                    | {
                        "title": model.title.format(members=len(networks)),
                        "set_seed": seed,
                        "published": task.published.get(kind, "–"),
                        "epochs": min((network["epochs"] for network in networks), default=0),
                        "recipe_epochs": task.options.epochs if networks else 0,
                        "recipe_ended": all(member["stopped"] for member in members),
                        "networks": len(networks),
                        "network_seconds": sum(network["seconds"] for network in networks),
                        "member_parameters": [member["parameters"] for member in members],
                    }
                )


def _split(data: PackedGraphs, kind: str, seed: int) -> SplitIndex:
    if kind == "published":
        if data.split_idx is None:
            raise ValueError(f"{data.description.name}: comes with no split")
        return data.split_idx
    return split(data, kind, seed=seed)  # type: ignore[arg-type]  # one of the two by now


def _few(data: PackedGraphs, parts: SplitIndex) -> SplitIndex:
    """Some molecules of each part, by the most even target as many of class 1 as others."""
    positive = np.zeros(len(data), dtype=bool)
    if data.task == "classification":
        counts = torch.stack([(data.y == value).sum(0) for value in (0, 1)])
        positive = (data.y[:, counts.amin(0).argmax()] == 1).numpy()
    some: SplitIndex = {}
    for part, index in parts.items():
        count = max(1, QUICK * len(index) // len(data) // 2)
        groups = (index[positive[index]], index[~positive[index]])
        some[part] = np.sort(np.concatenate([group[:: max(1, len(group) // count)] for group in groups]))
    return some


COLUMNS = (
    "set",
    "split",
    "model",
    "parameters",
    "seeds",
    "epochs",
    "metric",
    "valid",
    "test",
    "published",
    "s / epoch",
)


def rows(records: Sequence[Record], seeds: int) -> list[tuple[str, ...]]:
    """The table, its header first: a row per set, split and model, over its seeds, ``seeds`` by default."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for key in dict.fromkeys((record["data"], record["split"], record["model"]) for record in records):
        of_row = [r for r in records if (r["data"], r["split"], r["model"]) == key]
        first = of_row[0]
        trained = bool(first["networks"])
        out.append(
            (
                first["data"],
                first["split"],
                first["title"],
                f"{np.mean([record['parameters'] for record in of_row]) / 1e3:.0f}k",
                of_seeds(len(of_row), seeds) if trained or first["split"] == "random" else "–",
                _epochs(of_row) if trained else "–",
                first["metric"],
                *(spread_of(of_row, part, first["metric"]) for part in ("valid", "test")),
                first["published"],
                seconds_per_epoch([_one_network(record) for record in of_row], 1) if trained else "–",
            )
        )
    return out


def _one_network(record: Record) -> Record:
    """The record with the seconds of one of its networks."""
    return record | {"seconds": record["network_seconds"] / record["networks"]}


def _epochs(records: Sequence[Record]) -> str:
    whole = records[0]["recipe_epochs"]
    ended = all(record["recipe_ended"] for record in survivors(records))
    return str(whole) if ended else f"{epochs_of(records)} of {whole}"


def _about_sets(records: Sequence[Record]) -> str:
    lines = []
    for name in dict.fromkeys(record["data"] for record in records):
        counts = next(record["counts"] for record in records if record["data"] == name)
        lines.append(f"* {name}: {' / '.join(f'{counts[part]:,}' for part in PARTS)} molecules\n")
    return "".join(lines)
