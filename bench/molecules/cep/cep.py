"""Power conversion efficiency of molecules: Table 3 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from wlkernelnn.bench.baselines import chemprop_speed as speed_chemprop
from wlkernelnn.bench.baselines.chemprop import fit_chemprop
from wlkernelnn.bench.baselines.molecules import mean_predictor
from wlkernelnn.bench.baselines.wl_machines import fit_machine
from wlkernelnn.bench.harness.molecule_runs import Fitted, Split, for_table, run_method, run_network
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.runs import Place, Runs, on_same_data
from wlkernelnn.bench.harness.trained import Record, TrainedOptions, about_training, chosen
from wlkernelnn.datasets import load_molecules, random_split
from wlkernelnn.datasets.graphs.splits import PARTS

from .ensembles import MIXED, with_ensembles
from .models import PARAMETERS, TABLES, Model, network_of
from .parts import read_parts
from .recipes import recipe_of
from .table import LEGENDS, SEEDS, TITLES, rows

QUICK_MOLECULES = 400
METRICS = ("rmse", "mae")


@dataclass
class CEPOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        recipe: How networks are trained: as in the "paper", whose table it is then, or by a recipe of
            "ours", with a fifth of the molecules drawn.
        models: Which rows: mean, wl-3, wl-6, mean-field, loopy-bp, fingerprint, random-walk, deep,
            wl-constant, wl-learned, wl-gated, gine, chemprop, or, of ours, wl-learned, wl-gated, wl-paper,
            deep, gine; by default all, chemprop if it is installed.
        epochs: Squeeze the recipe into so many epochs; by default the whole recipe.
        data: Table (CSV, TSV or Parquet) of other molecules with columns smiles and PCE, or three text files,
            of the training, validation and test part, as the 2.3 million of the paper: a header, then lines
            of a SMILES and its PCE; by default the public 29,978.
        split_column: Column of that table that says train, valid or test; by default a random split.
        quick: One epoch of a few molecules: only to see that everything works.
    """

    seeds: int = SEEDS
    run_dir: Path = Path("runs/cep")
    recipe: Literal["paper", "ours"] = "paper"
    data: list[Path] | None = None
    split_column: str | None = None

    @property
    def table(self) -> Mapping[str, Model]:
        """All rows."""
        return TABLES[self.recipe]


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``cep.md`` and ``cep.json``.

    With ``--recipe ours`` the files are ``cep_ours.md`` and ``cep_ours.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("cep", __doc__, CEPOptions, argv)
    names = chosen("models", options.models, options.table)
    title, notes = TITLES[options.recipe], LEGENDS[options.recipe]
    stem = options.output_dir / ("cep" if options.recipe == "paper" else "cep_ours")
    if "chemprop" in names and not speed_chemprop.installed():
        if options.models:
            raise ValueError("--models: chemprop is not installed (pip install -e '.[chem]')")
        names.remove("chemprop")
        notes += "* chemprop is not installed (wlkernelnn[chem]): it takes no part.\n"
    known = about_training("cep", argv, options, "scikit-learn", "chemprop")
    models = {name: options.table[name] for name in names}
    splits = {features: load(options, features) for features in {m.features: 0 for m in models.values()}}
    counts = next(iter(splits.values())).index
    notes += f"* molecules: {' / '.join(f'{len(counts[part]):,}' for part in PARTS)}\n"
    (split, *_), contents = splits.values(), {key: split.data.digest() for key, split in splits.items()}
    same_data = on_same_data("features", contents)

    def stays(run: Record) -> bool:
        return run["split_sha256"] == split.sha256 and same_data(run)

    in_table = partial(place, options.table)
    table = Runs(stem, known, in_table, stays)
    made = (
        for_table(evaluate(name, model, splits[model.features], seed, options, known), options.output_dir)
        for seed in range(1 if options.quick else options.seeds)
        for name, model in models.items()
        if not seed or model.seeded
    )

    def completed(runs: list[Record]) -> list[Record]:
        return sorted(with_ensembles(runs, MIXED[options.recipe], options.output_dir), key=in_table)

    table.fill(made, title, partial(rows, models=options.table), notes, completed)


def place(table: Mapping[str, Model], run: Record) -> Place:
    """Where a run stands in the table: before the ensemble of its row; what rows make together comes last."""
    names, name = list(table), run["model"]
    number = names.index(name) if name in names else len(names)
    return (number, "members" in run), (run.get("seed", 0),)


def load(options: CEPOptions, features: str) -> Split:
    """The molecules with such features, and their split."""
    columns: dict[str, Any] = {"target_columns": ["PCE"], "features": features, "progress": True}
    files, split_column = options.data or [], options.split_column
    if len(files) != 1 and split_column is not None:
        raise ValueError("--split-column goes with --data and a single table")
    if not files:
        data = load_molecules("cep", options.root, **columns)
    else:
        table: Path | pd.DataFrame = files[0]
        if len(files) > 1:
            table, split_column = read_parts(files), "split"
        columns |= {"split_column": split_column, "task": "regression", "on_invalid": "skip"}
        data = load_molecules(table, **columns, name=files[0].stem, unit="%")
    if split_column is not None:
        index, kind = data.split_idx or {}, "published"
        if missing := [part for part in PARTS if not len(index.get(part, ()))]:
            raise ValueError(f"{files[0]}: column {split_column!r} has no {' and no '.join(missing)}")
    else:
        index, kind = random_split(len(data), seed=0), "random"
    if options.quick:
        step = max(1, len(data) // QUICK_MOLECULES)
        index = {part: index[part][::step] for part in PARTS}
    return Split(data, kind, index)


def evaluate(
    name: str, model: Model, split: Split, seed: int, options: CEPOptions, known: Mapping[str, Any]
) -> Record:
    """Train or fit a row, or go on with it, and score it."""
    folder = options.folder(*(("paper", model.paper_row) if model.paper_row else (options.recipe, name)))
    if not model.seeded:

        def fit_row(_: Path) -> Fitted:
            return _mean(split) if name == "mean" else fit_machine(split, [int(name.removeprefix("wl-"))])

        return run_method(name, split, fit_row, folder, metrics=METRICS, known=known)
    published = options.recipe == "paper" or model.paper_row is not None
    recipe, whole = recipe_of(len(split.index["train"]), seed, options, published)
    known = {**known, "published_epochs": whole}
    if model.network is not None:
        arguments = network_of(model, split["train"])
        return run_network(
            name, model.network, arguments, split, recipe, folder, metrics=METRICS, known=known
        )
    return run_method(
        name,
        split,
        partial(fit_chemprop, split, recipe, PARAMETERS),
        folder,
        seed=seed,
        decided_by={"recipe": asdict(recipe)},
        epochs=recipe.epochs,
        recipe_epochs=recipe.epochs,
        metrics=METRICS,
        known=known,
    )


def _mean(split: Split) -> Fitted:
    results = {part: mean_predictor(split["train"], split[part]) for part in PARTS}
    seconds = sum(result.seconds for result in results.values())
    return Fitted({part: result.prediction for part, result in results.items()}, 1, seconds)
