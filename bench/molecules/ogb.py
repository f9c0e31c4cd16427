"""Molecules of the Open Graph Benchmark, with the figures that its leaderboard asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from wlkernelnn.bench.harness.molecule_runs import Split, ensemble, for_table, spread_of
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.outcomes import epochs_of, survivors
from wlkernelnn.bench.harness.runs import Place, Runs, on_same_data
from wlkernelnn.bench.harness.trained import Record, TrainedOptions, about_training, chosen, of_seeds
from wlkernelnn.datasets import PackedGraphs, load_ogb
from wlkernelnn.datasets.molecules.ogb import ogb_parts, ogb_source
from wlkernelnn.datasets.molecules.ogb_sets import ogb_set
from wlkernelnn.utils.files import read_json

from .members import run_members
from .ogb_recipes import RECIPES, Recipe
from .ogb_scores import SUBMITTED, check_size, official, write_submission

TUNED_SEEDS = 2
QUICK_GRAPHS = 3_000
LABELS = {"roc_auc": "ROC-AUC", "average_precision": "AP", "rmse": "RMSE", "mae": "MAE"}
LEGEND = """* OGB's evaluator, on the split that lies beside the graphs (see below): mean and unbiased
  standard deviation over the seeds 0, 1, … Every network has the weights of its best epoch (counted from
  0) on the validation part; the test part is scored once, with these. No external data, no pre-training.
  The rows of the parts lie in the folder "splits" beside this table, in the files that the JSON file names.
* Several together predict by their mean; parameters are summed. Those of an ensemble differ in their seeds.
* The linear machine on the WL subtree kernel of 1 iteration is logistic regression on log(1 + count), or
  ridge regression on counts; it has no seed, and its penalty, and whether bonds and (of ridge regression)
  lengths count, are those with the best score on the validation part. Its parameters are the weights of the
  colours of the training part.
"""
SUBMISSION = f"""* The targets of the test parts are not public: beside each run (of several together, the
  first), in a folder of the row's name, lie the predictions to be submitted, of {" and ".join(SUBMITTED)};
  "test" is both.
"""
CHOSEN = """* All recipes but for epochs, batch size and the decay of the averaged weights are those of
  molhiv, chosen by the scores of single runs on its validation part; that walk encodings help was seen on
  ESOL, whose molecules molesol's are, with test scores in sight.
"""
TUNED = """* OGB's evaluator on the validation part, at the best validation epoch (counted from 0): mean and
  unbiased standard deviation over the seeds. Nothing here looked at the test part. A first row is the recipe
  itself, each other row of the same model changes one value of it.
"""


@dataclass
class OGBOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: gine, wl-gated, stack, stack-rw, wl-machine, stack-machine, gine-machine,
            ensemble; by default all.
        epochs: Train so many epochs, if the recipe has more; its learning rate falls to the end in these.
        name: Which data set: ogbg-molhiv, ogbg-molpcba, ogbg-molesol, …, or pcqm4mv2.
        quick: One epoch of few graphs of each part, of one seed, without files to submit: only to see that
            everything works. The whole set is read first: of pcqm4mv2 this takes minutes by itself.
        tune: Instead try the values of the recipe's grid, each with seeds 0 and 1, on the validation part
            alone.
    """

    name: str = "ogbg-molhiv"
    seeds: int = 10
    tune: bool = False
    run_dir: Path = Path("runs/ogb")


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``ogb_<set>.md`` and ``.json``.

    With ``--tune`` the files are ``ogb_<set>_tuned.md`` and ``.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("ogb", __doc__, OGBOptions, argv)
    name = ogb_set(options.name).name
    recipes = {model: RECIPES[name][model] for model in chosen("models", options.models, RECIPES[name])}
    known = about_training("ogb", argv, options, "scikit-learn")
    stem = options.output_dir / f"ogb_{name.removeprefix('ogbg-')}"
    of_tuning = stem.with_name(f"{stem.name}_tuned")
    runs: list[tuple[str, Recipe, Record]]
    if options.tune:
        stem, title, table, notes, seeds = of_tuning, f"{name}: tuning", tuned_rows, TUNED, TUNED_SEEDS
        runs = [
            (model, tried, {"changed": changed, "value": value})
            for model, recipe in recipes.items()
            for changed, value, tried in recipe.variations()
        ]
    else:
        title, table, notes, seeds = name, rows, LEGEND, options.seeds
        notes += SUBMISSION if name == "pcqm4mv2" else ""
        notes += CHOSEN + tried_values(of_tuning, RECIPES[name])
        runs = [(model, recipe, {}) for model, recipe in recipes.items()]
    sets = {
        features: load_ogb(name, options.root, features=features, progress=True)
        for features in dict.fromkeys(recipe.features for _, recipe, _ in runs)
    }
    same_data = on_same_data("features", {features: data.digest() for features, data in sets.items()})
    splits = {features: _split(data, options).sha256 for features, data in sets.items()}

    def stays(run: Record) -> bool:
        return same_data(run) and run["split_sha256"] == splits.get(run["features"], run["split_sha256"])

    def made() -> Iterator[Record]:
        for model, recipe, more in runs:
            data = sets[recipe.features]
            more = more | {
                "graphs": ogb_source(name, options.root, features=recipe.features),
                "missing": missing(data, ogb_parts(name, options.root)),
            }
            for seed in range(1 if options.quick or not recipe.members else seeds):
                record = evaluate(data, model, recipe, seed, options, known) | more
                yield for_table(record, options.output_dir)

    all_runs = Runs(stem, known, partial(place, RECIPES[name]), stays)
    all_runs.fill(made(), title, table, lambda records: notes + _of_data(records))


def place(recipes: Mapping[str, Recipe], run: Record) -> Place:
    """Where a run stands in the table."""
    variations = [(name, value) for name, value, _ in recipes[run["model"]].variations()]
    variation = variations.index((run.get("changed", ""), run.get("value")))
    return (list(recipes).index(run["model"]), variation), (run["seed"],)


def tried_values(of_tuning: Path, recipes: Mapping[str, Recipe]) -> str:
    """What a table says of the values that were tried, by the table of tuning beside it, if there is one."""
    path = of_tuning.with_suffix(".json")
    runs = read_json(path)["runs"] if path.is_file() else []
    # A run of --tune that was interrupted has tried less than the grid.
    seeds = Counter((run["model"], run["changed"], run["value"]) for run in runs)
    lines = []
    for model, recipe in recipes.items():
        tried = [
            (name, value)
            for name, value, _ in recipe.variations()
            if seeds[model, name, value] >= (TUNED_SEEDS if recipe.members else 1)
        ]
        if grid := recipe.shown_grid(tried):
            lines.append(f"* {recipe.title.format(members=recipe.members)}: {grid}\n")
    if not lines:
        return "* Nothing was tuned by --tune.\n"
    return "".join(
        [
            "* Tried by --tune, one value changed at a time, those of the recipe bold:\n",
            *lines,
            f"* What came of that on the validation part: {of_tuning.name}.md\n",
        ]
    )


def missing(data: PackedGraphs, parts: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many of OGB's graphs of each part a set lacks, since their SMILES give none."""
    rejected = [reject.row for reject in data.rejects]
    return {part: int(np.isin(numbers, rejected).sum()) for part, numbers in parts.items()}


def _without_targets(data: PackedGraphs, options: OGBOptions) -> list[str]:
    """The parts without targets, whose predictions are to be sent in."""
    return [part for part in SUBMITTED if part in (data.split_idx or {}) and not options.tune]


def _split(data: PackedGraphs, options: OGBOptions) -> Split:
    """OGB's split; to tune, without the test part."""
    index = dict(data.split_idx or {})
    parts = {"train": index["train"], "valid": index["valid"]}
    if not options.tune:
        parts["test"] = np.concatenate([index[part] for part in _without_targets(data, options) or ["test"]])
    if options.quick:
        parts = {part: rows[:QUICK_GRAPHS] for part, rows in parts.items()}
    return Split(data, "ogb", parts)


def evaluate(
    data: PackedGraphs, model: str, recipe: Recipe, seed: int, options: OGBOptions, known: Record
) -> Record:
    """Train a network, or take the one that was trained, and score it by OGB's evaluator.

    Args:
        data: The whole data set, with its split.
        model: Name of the row.
        recipe: How the network is made.
        seed: Of everything that is drawn.
        options: What is to be done: with ``tune`` nothing looks at the test part.
        known: What is known of this run of the benchmark.

    Raises:
        ValueError: Predictions are to be submitted, and there are not all molecules of these parts.
    """
    name, index = data.description.name, dict(data.split_idx or {})
    submitted = _without_targets(data, options)
    for part in submitted if not options.quick else ():
        check_size(part, len(index[part]))
    split = _split(data, options)
    folder = options.folder(name, recipe.features)
    networks, members = run_members(model, recipe, split, recipe.options, seed, options, folder, known)
    first = members[0]
    record = first if len(members) == 1 else ensemble(model, members)
    scores = {}
    for part in [] if "diverged" in record else split.parts[1:]:
        target, prediction = _predicted(data.description.target_names, part, members)
        if part == "test" and submitted:
            if options.quick:
                continue
            ends = np.cumsum([len(index[of_part]) for of_part in submitted])
            for of_part, values in zip(submitted, np.split(prediction, ends[:-1]), strict=True):
                write_submission(Path(first["folder"]) / model, of_part, values)
        else:
            scores[part] = {first["metric"]: official(name, target, prediction)}
    return record | {
        "title": recipe.title.format(members=len(networks)),
        "seed": seed,
        "features": recipe.features,
        "scores": scores,
        "epochs": min((network["epochs"] for network in networks), default=0),
        "recipe_epochs": first["recipe_epochs"],
        "best_epoch": float(np.mean([network.get("best_epoch", np.nan) for network in networks]))
        if networks
        else None,
    }


def _predicted(tasks: Sequence[str], part: str, members: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Targets of a part, and the mean prediction of networks, each ``[G, tasks]``."""
    tables = [pd.read_csv(Path(member["folder"]) / f"{part}_predictions.csv") for member in members]
    predictions = [table[[f"{task}_pred" for task in tasks]].to_numpy() for table in tables]
    return tables[0][list(tasks)].to_numpy(), np.mean(predictions, axis=0)


COLUMNS = ("model", "parameters", "seeds", "epochs", "valid", "test", "best epoch", "s / seed")


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per model, over its seeds."""
    metric = records[0]["metric"]
    label = LABELS[metric]
    out = [tuple(f"{column} {label}" if column in ("valid", "test") else column for column in COLUMNS)]
    for model in dict.fromkeys(record["model"] for record in records):
        of_row = [record for record in records if record["model"] == model]
        out.append(
            (
                of_row[0]["title"],
                f"{of_row[0]['parameters']:,}",
                _seeds(of_row, OGBOptions.seeds),
                _epochs(of_row),
                spread_of(of_row, "valid", metric, 4),
                "–" if _submitted(of_row) else spread_of(of_row, "test", metric, 4),
                _mean(of_row, "best_epoch"),
                _mean(of_row, "seconds"),
            )
        )
    return out


def _submitted(records: Sequence[Record]) -> bool:
    """Whether nobody but OGB has the targets of the test part."""
    return any("test" not in record["scores"] for record in survivors(records))


def _mean(records: Sequence[Record], name: str) -> str:
    """Over the survivors that have it."""
    values = [record[name] for record in survivors(records) if record[name] is not None]
    return f"{np.mean(values):.0f}" if values else "–"


def _seeds(records: Sequence[Record], default: int) -> str:
    """A row without networks has none."""
    return of_seeds(len(records), default) if records[0]["recipe_epochs"] else "–"


def _epochs(records: Sequence[Record]) -> str:
    trained, whole = epochs_of(records), records[0]["recipe_epochs"]
    if not whole:
        return "–"
    return str(whole) if trained == whole else f"{trained} of {whole}"


def tuned_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table of what was tried, its header first: a row per change of a model, over its seeds."""
    metric = records[0]["metric"]
    out: list[tuple[str, ...]] = [
        ("model", "change", "parameters", "seeds", f"valid {LABELS[metric]}", "best epoch")
    ]
    for key in dict.fromkeys((record["model"], record["changed"], record["value"]) for record in records):
        of_row = [r for r in records if (r["model"], r["changed"], r["value"]) == key]
        _, changed, value = key
        out.append(
            (
                of_row[0]["title"],
                f"{changed} {value}" if changed else "none: the recipe",
                f"{of_row[0]['parameters']:,}",
                _seeds(of_row, TUNED_SEEDS),
                spread_of(of_row, "valid", metric, 4),
                _mean(of_row, "best_epoch"),
            )
        )
    return out


def _of_data(records: Sequence[Record]) -> str:
    """Where the graphs come from, how many there are in each part, and what is missing: by features."""
    lines: dict[str, None] = {}
    for record in records:
        line = f"* features {record['features']!r}: {record['graphs']}; {_counts(record['counts'])}; "
        if any(record["missing"].values()):
            line += f"**missing**, since RDKit refuses their SMILES: {_counts(record['missing'])}; "
        if any(count for part, count in record["missing"].items() if part != "train"):
            line += "**what is scored is not OGB's whole part**; "
        lines[f"{line}SHA-256 of the split: {record['split_sha256']}\n"] = None
    return "".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {count:,}" for part, count in counts.items())
