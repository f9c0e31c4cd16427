"""The classical baselines: support vector machines and ridge regression on exact kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console

from wlkernelnn.bench.baselines.wl_machines import PENALTIES, ridge_baseline
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.options import TableOptions, parsed
from wlkernelnn.bench.harness.provenance import PACKAGES, about, versions
from wlkernelnn.bench.harness.tables import printed
from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu, random_split
from wlkernelnn.utils.files import read_json, write_text

from .graph_kernel_table import PUBLISHED, added, refuse_other, tables, write
from .nested_svm import CS, FAMILIES, INNER_FOLDS, MAX_ITER, OUTER_FOLDS, Family, cross_validate

# By degree, Lei et al. 2017, Table 3: not the same molecules.
PUBLISHED_CEP = {3: "0.2040", 6: "0.1367"}
QUICK_SETS, QUICK_MOLECULES = ("MUTAG", "ENZYMES", "cep"), 1000
# What the figures depend on beside the packages of every table.
COMPUTED_BY = ("scikit-learn", "scipy")
Kernels = Literal["wl", "wl-minmax", "shortest-paths", "paths"]


@dataclass
class GraphKernelOptions(TableOptions):
    """What is computed, and where results go.

    Args:
        output_dir: Folder of graph_kernels.md and graph_kernels.json, of some sets alone with their names;
            of a quick run runs/quick, unless another one is given. What was finished when a run was
            interrupted stays in graph_kernels.partial.json, and the next run goes on; a quick run keeps
            nothing.
        quick: One repetition, two sets, and 1,000 of the cep molecules: only to see that everything works.
        data: Which data sets: cep, or names of the TU collection; by default MUTAG, ENZYMES, PROTEINS, NCI1
            and cep.
        kernels: Only these kernels on sets of the TU collection. Their rows are added to the table of all
            sets in the output folder, if it is there; rows of the same data and kernel are replaced.
        repetitions: Repetitions of the cross-validation, each with its own folds.
        n_jobs: Threads that fit machines; -1 for one per core.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.

    Raises:
        ValueError: There is nothing to compute.
    """

    data: list[str] | None = None
    kernels: list[Kernels] | None = None
    repetitions: int = 10
    n_jobs: int = -1
    root: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repetitions < 1:
            raise ValueError(f"--repetitions: expected at least 1, got {self.repetitions}")
        if self.quick:
            self.repetitions = 1


class _Progress:
    """Finished parts of a run, in a file if there is a path, so that an interrupted run goes on.

    Raises:
        ValueError: The file holds parts of another protocol: says what is not the same.
    """

    def __init__(self, path: Path | None, protocol: Record) -> None:
        self.path = path
        self.protocol = protocol
        self.done: dict[str, Record] = {}
        if path is None or not path.is_file():
            return
        before = read_json(path)
        refuse_other(path, before["protocol"], protocol)
        self.done = before["done"]

    def once(self, part: str, make: Callable[[], Record], said: Callable[[Record], str]) -> Record:
        """The record of a part, made and said if it is not there."""
        if part not in self.done:
            self.done[part] = make()
            if self.path is not None:
                write_text(self.path, json.dumps({"protocol": self.protocol, "done": self.done}))
            seconds = f"({self.done[part]['seconds']:.0f} s)"
            Console().print(f"{part}: {said(self.done[part])} {seconds}", highlight=False)
        return self.done[part]

    def finish(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def load(name: str, options: GraphKernelOptions) -> PackedGraphs:
    """A data set, as much of it as is taken.

    Raises:
        ValueError: It has no classes.
    """
    if name == "cep":
        data = load_molecules("cep", options.root, progress=True)
        some = np.random.default_rng(0).permutation(len(data))[:QUICK_MOLECULES]
        return data[some] if options.quick else data
    data = load_tu(name, options.root)
    if data.task not in ("classification", "multiclass"):
        raise ValueError(f"--data: {name} is a {data.task}, expected a classification")
    return data


def content(data: PackedGraphs) -> str:
    """A short name of what is in a data set: files of one name may differ."""
    return data.digest()[:8]


def classify(
    name: str, data: PackedGraphs, family: Family, options: GraphKernelOptions, progress: _Progress
) -> Record:
    """Repeated nested cross-validation on a TU data set, with the kernels of a family."""
    y, grams = data.y.numpy()[:, 0].astype(np.int64), cache(partial(family.grams, data))

    def accuracies(record: Record) -> str:
        return ", ".join(f"{row} {record[row]['accuracy']:.4f}" for row in family.rows)

    def repetition(seed: int) -> Record:
        return cross_validate(grams(), family.rows, y, seed, options.n_jobs)

    part, seeds = f"{name} {content(data)}/{family.name}", range(options.repetitions)
    repetitions = [progress.once(f"{part}/{seed}", partial(repetition, seed), accuracies) for seed in seeds]
    published = PUBLISHED.get(name, "") if family is FAMILIES["wl"] else ""
    return {"data": name, "graphs": len(data), "repetitions": repetitions, "published": published}


def regress(data: PackedGraphs, progress: _Progress) -> list[Record]:
    """Ridge regression on the cep molecules, for both degrees."""
    split_idx, found = random_split(len(data), seed=0), []
    for degree, published in PUBLISHED_CEP.items():
        make = partial(ridge_baseline, data, split_idx, degree)
        part = f"cep {content(data)}/{degree}"
        record = progress.once(part, make, lambda record: f"RMSE {record['rmse']:.4f}")
        found.append({"data": "cep", "graphs": len(data), **record, "published": published})
    return found


def main(argv: list[str] | None = None) -> None:
    """Compute, print the tables, and write them as ``graph_kernels.md`` and ``graph_kernels.json``.

    Of some sets alone the files are ``graph_kernels_<sets>.md`` and ``.json``; rows of some kernels alone are
    added to the table of all.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("graph-kernels", __doc__, GraphKernelOptions, argv)
    families = [FAMILIES[name] for name in options.kernels or FAMILIES]
    every = (*PUBLISHED, *(() if options.kernels else ("cep",)))
    names = list(dict.fromkeys(options.data or (QUICK_SETS if options.quick else every)))
    table = options.output_dir / "graph_kernels.json"
    # Some sets alone don't replace the table of all.
    stem = table.with_name("_".join([table.stem, *map(str.lower, names if options.data else ())]))
    known = about("graph-kernels", argv, options.quick, COMPUTED_BY)
    known |= {"repetitions": options.repetitions}
    protocol = {
        "mode": known["mode"],
        "outer_folds": OUTER_FOLDS,
        "inner_folds": INNER_FOLDS,
        "kernels": {row: list(settings) for one in families for row, settings in one.rows.items()},
        "C": list(CS),
        "max_iter": MAX_ITER,
        "penalties": list(PENALTIES),
    }
    made_by = {"revision": known["revision"], **versions(*PACKAGES, *COMPUTED_BY)}
    unfinished = None if options.quick else stem.with_suffix(".partial.json")
    progress = _Progress(unfinished, made_by | protocol)
    is_addition = bool(options.kernels) and table.is_file()
    if is_addition:
        alike = {name: value for name, value in protocol.items() if name != "kernels"}
        refuse_other(table, read_json(table)["protocol"], alike)
    # All before anything is computed: what is misspelt or missing is known at once.
    data = {name: load(name, options) for name in names}
    known |= {"data": ", ".join(f"{name} {content(graphs)}" for name, graphs in data.items())}
    sets = {name: graphs for name, graphs in data.items() if name != "cep"}
    found = {
        "protocol": protocol,
        "regression": regress(data["cep"], progress) if "cep" in data else [],
        "classification": [
            classify(name, graphs, family, options, progress)
            for name, graphs in sets.items()
            for family in families
        ],
    }
    console = Console()
    for title, rows in tables(found).items():
        console.print(printed(rows, f"{title} ({known['mode']})"))
    if is_addition:
        stem, (known, found) = table.with_suffix(""), added(table, known, found)
    write(stem, known, found)
    progress.finish()
    console.print(f"Written to {stem}.md and {stem.name}.json.")
