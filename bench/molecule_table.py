"""Tables of networks on sets of molecules: sets, splits, rows, ensembles, and the command that fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import PackedGraphs, load_molecules, split
from wlkernelnn.datasets.splits import PARTS, SplitIndex
from wlkernelnn.models import GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

from .about import about
from .molecule_runs import Split, ensemble, run_network, spread_of
from .trained import Record, TrainedOptions, chosen, print_table, write_results

# Molecules of a quick run, about, and the most members of its ensembles.
QUICK, QUICK_MEMBERS = 300, 2
# Members of an ensemble have seeds that are so far apart.
MEMBER_SEEDS = 1000

LEGEND = """* valid, test: mean and, over several seeds, unbiased standard deviation. The weights are those of
  the epoch with the best score on the validation part; the test part is scored once, with these.
* "random" splits are drawn anew by every seed, 80/10/10; a "scaffold" split is one and the same, 80/10/10
  by Bemis-Murcko scaffolds; "published" is the split that comes with the data. Their indices lie beside the
  runs, their SHA-256 in the JSON file.
* An ensemble of k predicts by the mean of k networks that differ in their seeds; parameters are summed.
* "epochs" are those of the recipe that were trained. **A row with fewer epochs is not a result yet.**
"""


@dataclass(frozen=True)
class Model:
    """A row of a table.

    Attributes:
        title: What it is.
        arguments: Of the network, beside what the data say.
        network: Its class.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        members: Networks that predict together.
    """

    title: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    network: type[GraphNetwork] = KernelStackNetwork
    features: str = "ogb"
    members: int = 1


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
    chosen(
        "splits", options.splits, list(dict.fromkeys(kind for task in tasks.values() for kind in task.splits))
    )
    chosen(
        "models", options.models, list(dict.fromkeys(row for task in tasks.values() for row in task.models))
    )
    known = about(name, argv, options.quick, ("pytorch-lightning",))
    absent = []
    for key in chosen("sets", options.sets, tasks):
        stem, heading = name.replace("-", "_"), title
        if len(tasks) > 1:
            stem, heading = f"{stem}_{key}", f"{title}: {key}"
        records: list[Record] = []
        try:
            for record in _records(key, tasks[key], options, known):
                records.append(record)
                notes = legend + LEGEND + _about_sets(records)
                short = [{k: v for k, v in record.items() if k != "history"} for record in records]
                # Rows appear as they are there: the rest may take hours.
                write_results(options.output_dir / stem, heading, rows(records), notes, known, short)
        except FileNotFoundError:
            if options.sets is not None:
                raise
            absent.append(key)
        if records:
            print_table(heading, rows(records), known)
    if absent:
        Console().print(f"Not at hand, so left out: {', '.join(absent)}.")


def _records(
    key: str, task: MoleculeTask, options: MoleculeOptions, known: Mapping[str, Any]
) -> Iterator[Record]:
    """The records of all rows of a set, as they are there."""
    models = {row: model for row, model in task.models.items() if row in (options.models or task.models)}
    load = task.load or partial(load_molecules, key)
    stores = {features: load(options.root, features=features) for features in _features(models.values())}
    for kind in task.splits:
        if kind not in (options.splits or task.splits):
            continue
        for seed in range(1 if options.quick else options.seeds):
            for row, model in models.items():
                data = stores[model.features]
                parts = Split(data, kind, _split(data, kind, seed, options.quick))
                members = []
                for member in range(min(model.members, QUICK_MEMBERS) if options.quick else model.members):
                    recipe = replace(
                        task.options,
                        seed=seed + MEMBER_SEEDS * member,
                        accelerator=options.accelerator,
                        matmul_precision=options.matmul_precision,
                    )
                    record = run_network(
                        row,
                        model.network,
                        model.arguments,
                        parts,
                        recipe,
                        options.folder(key, model.features),
                        epochs=options.limit(recipe.epochs),
                        known=known,
                    )
                    members.append(record)
                record = members[0] if len(members) == 1 else ensemble(row, members)
                yield record | {
                    "title": model.title,
                    "set_seed": seed,
                    "published": task.published.get(kind, "–"),
                    "epochs": min(member["epochs"] for member in members),
                    "recipe_epochs": task.options.epochs,
                    "recipe_ended": all(member["stopped"] for member in members),
                    "size": len(members),
                    "member_parameters": [member["parameters"] for member in members],
                }


def _features(models: Iterable[Model]) -> list[str]:
    return list(dict.fromkeys(model.features for model in models))


def _split(data: PackedGraphs, kind: str, seed: int, quick: bool) -> SplitIndex:
    if kind == "published":
        if data.split_idx is None:
            raise ValueError(f"{data.description.name}: comes with no split")
        parts = data.split_idx
    else:
        parts = split(data, kind, seed=seed)  # type: ignore[arg-type]  # one of the two by now
    return {part: _few(data, parts[part]) if quick else parts[part] for part in PARTS}


def _few(data: PackedGraphs, index: np.ndarray) -> np.ndarray:
    """Some positions of a part, those with a target of class 1 as many as those without, if there are."""
    positive = (data.y[index] == 1).any(1).numpy() & (data.task == "classification")
    count = max(1, QUICK * len(index) // len(data) // 2)
    return np.sort(
        np.concatenate(
            [group[:: max(1, len(group) // count)] for group in (index[positive], index[~positive])]
        )
    )


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


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per set, split and model, over its seeds."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for key in dict.fromkeys((record["data"], record["split"], record["model"]) for record in records):
        of_row = [r for r in records if (r["data"], r["split"], r["model"]) == key]
        first = of_row[0]
        epochs = min(record["epochs"] for record in of_row)
        ended = all(record["recipe_ended"] for record in of_row)
        seconds = [record["seconds"] / record["epochs"] / record["size"] for record in of_row]
        out.append(
            (
                first["data"],
                first["split"],
                first["title"],
                f"{first['parameters'] / 1e3:.0f}k",
                str(len(of_row)),
                str(first["recipe_epochs"]) if ended else f"{epochs} of {first['recipe_epochs']}",
                first["metric"],
                *(spread_of(of_row, part, first["metric"]) for part in ("valid", "test")),
                first["published"],
                f"{np.mean(seconds):.1f}",
            )
        )
    return out


def _about_sets(records: Sequence[Record]) -> str:
    lines = []
    for name in dict.fromkeys(record["data"] for record in records):
        counts = next(record["counts"] for record in records if record["data"] == name)
        lines.append(f"* {name}: {' / '.join(f'{counts[part]:,}' for part in PARTS)} molecules\n")
    return "".join(lines)
