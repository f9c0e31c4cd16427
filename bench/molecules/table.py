"""Tables of networks on sets of molecules: sets, splits, rows, ensembles, and the command that fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.molecule_runs import Split, for_table, score_of
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen
from wlkernelnn.datasets import PackedGraphs, featurize, load_molecules, random_split, scaffold_split
from wlkernelnn.datasets.files.download import data_folders
from wlkernelnn.datasets.splits.parts import PARTS, SplitIndex
from wlkernelnn.training import FitOptions

from .members import LINEAR, MACHINE, PROCESS, MoleculeRow, run_members

# Molecules of a quick run, about.
QUICK = 200

LEGEND = f"""* valid, test: mean and, over several seeds, unbiased standard deviation. The weights are those
  of the epoch with the best score on the validation part; the test part is scored once, with these.
* "random" splits are drawn anew by every seed, 80/10/10; a "scaffold" split is one and the same, 80/10/10
  by Bemis-Murcko scaffolds; "published" is the split that comes with the data. Their rows, counted from 0,
  lie in files of the folder "splits", beside this table, whose names and SHA-256 are in the JSON file.
  Some sets have molecules in several spellings, which may lie in several parts of a random split.
* An ensemble of k predicts by the mean of k networks that differ in their seeds; parameters are summed.
{PROCESS}{MACHINE}{LINEAR}\
* "epochs" are those of the recipe that were trained, "seeds" those of the benchmark. **A row with fewer
  epochs ("5 of 60") is not a result yet**, and one with fewer seeds says less. "s / epoch" is of one network.
"""


@dataclass(frozen=True)
class MoleculeTask:
    """A set of molecules, and how it is learned."""

    options: FitOptions
    models: Mapping[str, MoleculeRow]  # the rows, by name
    splits: Sequence[str] = ("random", "scaffold")  # or "published"
    published: Mapping[str, str] = field(default_factory=dict)  # scores by others, by split
    load: Callable[..., PackedGraphs] | None = None  # of root and features; default load_molecules by name


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


def molecules(
    name: str,
    title: str,
    tasks: Mapping[str, MoleculeTask],
    about: str | None,
    *,
    legend: str = "",
    seeds: int = 5,
) -> Experiment:
    """A benchmark of molecules. Where there are several sets each has a table, ``<name>_<set>``.

    Args:
        name: As ``wlkernelnn benchmark`` knows it.
        title: Of the tables.
        tasks: The sets, by name.
        about: For ``--help``.
        legend: More to stand below the tables.
        seeds: How many seeds are trained by default.
    """

    def pages(options: MoleculeOptions) -> Iterator[Page]:
        wanted = _wanted(tasks, options)
        absent: dict[str, FileNotFoundError] = {}
        for key, task in wanted.items():
            try:
                stores, splits = _stores(key, task, options)
            except FileNotFoundError as error:
                if options.sets is not None or len(tasks) == 1:
                    raise
                absent[key] = error
                continue
            contents = {features: store.digest() for features, store in stores.items()}
            heading, stem = (f"{title}: {key}", f"{name}_{key}") if len(tasks) > 1 else (title, name)
            table = table_of(heading, tasks[key], legend, seeds)
            # On a split that is always the same a machine has no seed.
            runs = (
                partial(_run, key, task, row, Split(stores[model.features], kind, index), seed)
                for kind in task.splits
                for seed in options.all_seeds
                for index in [splits(kind, seed)]
                for row, model in task.models.items()
                if not seed or kind == "random" or model.members
            )
            yield Page(table, runs, stem.replace("-", "_"), on_same_data("features", contents))
        if absent:
            if len(absent) == len(wanted):
                raise next(iter(absent.values()))
            Console().print(f"Not at hand, so left out: {', '.join(absent)}.")

    defaults = {"seeds": seeds, "run_dir": Path("runs") / name}
    return Experiment(name, about, MoleculeOptions, pages, defaults=defaults)


def _wanted(tasks: Mapping[str, MoleculeTask], options: MoleculeOptions) -> dict[str, MoleculeTask]:
    """The sets that were asked for, with those of their splits and models."""
    keys = chosen("sets", options.sets, tasks)
    for option, wanted, there in (
        ("splits", options.splits, [kind for key in keys for kind in tasks[key].splits]),
        ("models", options.models, [row for key in keys for row in tasks[key].models]),
    ):
        chosen(option, wanted, list(dict.fromkeys(there)))
    data_folders(options.root)  # a folder that is none is an error, not sets that are not there
    found, without = {}, []
    for key in keys:
        task = tasks[key]
        kinds = [kind for kind in task.splits if kind in (options.splits or task.splits)]
        models = {row: model for row, model in task.models.items() if row in (options.models or task.models)}
        if kinds and models:
            found[key] = replace(task, splits=kinds, models=models)
        else:
            without.append(key)
    if without:
        Console().print(f"Without these splits or models, so left out: {', '.join(without)}.")
    return found


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
    data, stores = whole[all_taken], {}
    for features in wanted:
        graphs, _ = featurize(data.smiles, features=features, rows=data.row.tolist())
        stores[features] = graphs.with_targets(data.y, **data.description.of_set())
    return stores, lambda kind, _: few[kind]


def _run(
    key: str, task: MoleculeTask, row: str, parts: Split, seed: int, options: MoleculeOptions, known: Record
) -> Record:
    model = task.models[row]
    folder = options.folder(key, model.features)
    record, members = run_members(row, model, parts, task.options, seed, options, folder, known)
    more = {
        "set_seed": seed,
        "published": task.published.get(parts.kind, "–"),
        "recipe_ended": all(member["stopped"] for member in members),
    }
    return for_table(record | more, options.output_dir)


def _split(data: PackedGraphs, kind: str, seed: int) -> SplitIndex:
    if kind == "published":
        if data.split_idx is None:
            raise ValueError(f"{data.description.name}: comes with no split")
        return data.split_idx
    # By rows, as published results are: the same molecule twice may be trained on and tested.
    return random_split(len(data), seed=seed) if kind == "random" else scaffold_split(data.smiles)


def _few(data: PackedGraphs, parts: SplitIndex) -> SplitIndex:
    """Some molecules of each part; as many of class 1 as others, by the most even target."""
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


def table_of(title: str, task: MoleculeTask, legend: str, seeds: int) -> Table:
    """The table of a set, whose rows have so many seeds by default."""

    def of_seeds(runs: list[Record]) -> str:
        seeded = runs[0]["networks"] or runs[0]["split"] == "random"
        return cells.out_of(len(runs), seeds) if seeded else "–"

    return Table(
        title,
        [
            ("set", cells.first("data")),
            ("split", cells.first("split")),
            ("model", cells.first("title")),
            ("parameters", lambda runs: f"{np.mean([run['parameters'] for run in runs]) / 1e3:.0f}k"),
            ("seeds", of_seeds),
            ("epochs", cells.of_networks(_epochs)),
            ("metric", cells.first("metric")),
            ("valid", score_of("valid")),
            ("test", score_of("test")),
            ("published", cells.first("published")),
            ("s / epoch", cells.of_networks(_seconds)),
        ],
        lambda run: (task.splits.index(run["split"]), list(task.models).index(run["model"])),
        lambda runs: legend + LEGEND + _about_sets(runs),
        which=lambda run: (run["set_seed"],),
    )


def _seconds(runs: Sequence[Record]) -> str:
    """Per epoch of one network."""
    of_one = [run | {"seconds": run["network_seconds"] / run["networks"]} for run in runs]
    return cells.seconds_per_epoch(of_one, 1)


def _epochs(runs: Sequence[Record]) -> str:
    whole = runs[0]["recipe_epochs"]
    ended = all(run["recipe_ended"] for run in cells.survivors(runs))
    return str(whole) if ended else f"{cells.epochs_of(runs)} of {whole}"


def _about_sets(records: Sequence[Record]) -> str:
    counts = {record["data"]: record["counts"] for record in reversed(records)}
    sizes = {name: " / ".join(f"{of[part]:,}" for part in PARTS) for name, of in counts.items()}
    return "".join(f"* {name}: {size} molecules\n" for name, size in sizes.items())
