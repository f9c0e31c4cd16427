"""Power conversion efficiency of molecules: Table 3 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.baselines.kernel_machines import fit_process
from wlkernelnn.bench.baselines.molecules import mean_predictor
from wlkernelnn.bench.baselines.wl_machines import fit_machine
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.molecule_runs import Fitted, Split, for_table, run_method, run_network
from wlkernelnn.bench.harness.runs import on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen
from wlkernelnn.datasets import load_molecules, random_split
from wlkernelnn.datasets.splits.parts import PARTS

from .models import PARAMETERS, TABLES, Model, network_of, recipe_of
from .table import MIXED, SEEDS, table_of, with_ensembles

QUICK_MOLECULES = 400
METRICS = ("rmse", "mae")


@dataclass
class CEPOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        recipe: How networks are trained: as in the "paper", whose table it is then, or by a recipe of
            "ours", with a fifth of the molecules drawn.
        models: Which rows: mean, wl-3, wl-6, mean-field, loopy-bp, fingerprint, random-walk, deep,
            wl-constant, wl-learned, wl-gated, wl-gated-sum, gine, chemprop, or, of ours, wl-learned,
            wl-gated, wl-paper, deep, gine, gp; by default all, chemprop if it is installed.
        epochs: Squeeze the recipe into so many epochs; by default the whole recipe.
        data: Table (CSV, TSV or Parquet) of other molecules with columns smiles and PCE, or three text files,
            of the training, validation and test part, as the 2.3 million of the paper: a header, then lines
            of a SMILES and its PCE; by default the public 29,978. The table of others has
            the name of their (first) file in its own.
        split_column: Column of that table that says train, valid or test; by default a random split.
        quick: One epoch of a few molecules: only to see that everything works.
    """

    seeds: int = SEEDS
    run_dir: Path = Path("runs/cep")
    recipe: Literal["paper", "ours"] = "paper"
    data: list[Path] | None = None
    split_column: str | None = None


def pages(options: CEPOptions) -> Iterator[Page]:
    """The table of the recipe."""
    rows, notes = TABLES[options.recipe], ""
    names = chosen("models", options.models, rows)
    if "chemprop" in names and not chemprop.installed():
        if options.models:
            raise ValueError("--models: chemprop is not installed (pip install -e '.[chem]')")
        names.remove("chemprop")
        notes = "* chemprop is not installed (wlkernelnn[chem]): it takes no part.\n"
    models = {name: rows[name] for name in names}
    splits = {features: load(options, features) for features in {m.features: 0 for m in models.values()}}
    split, *_ = splits.values()
    notes += f"* molecules: {' / '.join(f'{len(split.index[part]):,}' for part in PARTS)}\n"
    same_features = on_same_data("features", {key: split.data.digest() for key, split in splits.items()})

    def same_data(run: Record) -> bool:
        return run["split_sha256"] == split.sha256 and same_features(run)

    def completed(runs: list[Record]) -> list[Record]:
        return sorted(with_ensembles(runs, MIXED[options.recipe], options.output_dir), key=table.place)

    table, stem = table_of(options.recipe, notes), "cep" if options.recipe == "paper" else "cep_ours"
    if options.data:  # other molecules have a table of their own
        table = replace(table, title=f"{table.title}, molecules of {options.data[0].name}")
        stem += f"_{options.data[0].stem}"
    runs = (
        partial(evaluate, name, model, splits[model.features], seed)
        for seed in options.all_seeds
        for name, model in models.items()
        if not seed or model.trained
    )
    yield Page(table, runs, stem, same_data, completed)


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


def read_parts(paths: Sequence[Path]) -> pd.DataFrame:
    """Read a file per part: a header, then lines of a SMILES and its PCE in %.

    Returns:
        Columns ``smiles``, ``PCE`` and ``split``, rows in the order of the files.

    Raises:
        ValueError: There are not three files, or a line is something else.
    """
    if len(paths) != len(PARTS):
        raise ValueError(f"expected a file for each of {', '.join(PARTS)}, got {len(paths)}")
    frames = [_read(path).assign(split=part) for path, part in zip(paths, PARTS, strict=True)]
    return pd.concat(frames, ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    try:
        # One column more than there should be: what stands in it is told. "NA" is a SMILES' beginning.
        lines = pd.read_csv(
            path,
            sep=r"\s+",
            header=None,
            names=["smiles", "PCE", "more"],
            skiprows=1,
            dtype=str,
            na_filter=False,
            quoting=csv.QUOTE_NONE,
            skip_blank_lines=False,
        )
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected lines of a SMILES and its PCE ({error})") from error
    if lines.empty:
        raise ValueError(f"{path}: expected a header and lines of a SMILES and its PCE, got nothing")
    value = pd.to_numeric(lines["PCE"], errors="coerce")
    wrong = np.flatnonzero(~np.isfinite(value) | (lines["more"].fillna("") != ""))
    if wrong.size:
        row = lines.iloc[wrong[0]]
        got = " ".join(str(field) for field in row if field == field and field)
        raise ValueError(f"{path}: line {wrong[0] + 2}: expected a SMILES and its PCE, got {got!r}")
    return pd.DataFrame({"smiles": lines["smiles"], "PCE": value})


def evaluate(
    name: str, model: Model, split: Split, seed: int, options: CEPOptions, known: Mapping[str, Any]
) -> Record:
    """Train or fit a row, or go on with it, and score it."""
    folder = options.folder(*(("paper", model.paper_row) if model.paper_row else (options.recipe, name)))
    if not model.trained:

        def fit_row(place: Path) -> Fitted:
            if name == "gp":
                return fit_process(split, place)
            return _mean(split) if name == "mean" else fit_machine(split, [int(name.removeprefix("wl-"))])

        record = run_method(name, split, fit_row, folder, metrics=METRICS, known=known)
        return for_table(record, options.output_dir)
    published = options.recipe == "paper" or model.paper_row is not None
    recipe, whole = recipe_of(len(split.index["train"]), seed, options, published)
    same: dict[str, Any] = {"metrics": METRICS, "known": {**known, "published_epochs": whole}}
    if model.network is not None:
        arguments = network_of(model, split["train"])
        record = run_network(name, model.network, arguments, split, recipe, folder, **same)
    else:
        fit = partial(chemprop.fit_chemprop, split, recipe, PARAMETERS)
        same |= {"epochs": recipe.epochs, "recipe_epochs": recipe.epochs}
        decided_by = {"recipe": asdict(recipe)}
        record = run_method(name, split, fit, folder, seed=seed, decided_by=decided_by, **same)
    return for_table(record, options.output_dir)


def _mean(split: Split) -> Fitted:
    results = {part: mean_predictor(split["train"], split[part]) for part in PARTS}
    seconds = sum(result.seconds for result in results.values())
    return Fitted({part: result.prediction for part, result in results.items()}, 1, seconds)


main = Experiment("cep", __doc__, CEPOptions, pages, ("scikit-learn", "chemprop")).main
