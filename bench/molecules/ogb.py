"""Molecules of the Open Graph Benchmark, with the figures that its leaderboard asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from wlkernelnn.bench.harness.cells import Cell, Record, epochs, first, number, of_networks, seeds, survivors
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.molecule_runs import Split, for_table, predicted, score_of
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen
from wlkernelnn.datasets import PackedGraphs, load_ogb
from wlkernelnn.datasets.molecules.benchmarks.ogb import ogb_parts, ogb_source
from wlkernelnn.datasets.molecules.benchmarks.ogb_sets import ogb_set
from wlkernelnn.utils.files import read_json

from .members import GINE, LANDMARKS, MACHINE, PROCESS, run_members
from .ogb_recipes import RECIPES, Recipe
from .ogb_scores import SUBMITTED, check_size, official, write_submission

TUNED_SEEDS = 2
QUICK_GRAPHS = 3_000
LABELS = {"roc_auc": "ROC-AUC", "average_precision": "AP", "rmse": "RMSE", "mae": "MAE"}
LEGEND = f"""* OGB's evaluator, on the split that lies beside the graphs (see below): mean and unbiased
  standard deviation over the seeds 0, 1, … Every network has the weights of its best epoch (counted from
  0) on the validation part; the test part is scored once, with these. No external data, no pre-training.
  The rows of the parts lie in the folder "splits" beside this table, in the files that the JSON file names.
* Several together predict by their mean; parameters are summed. Those of an ensemble differ in their seeds.
{MACHINE}  Here its kernel has 1 iteration, and it has no seed.
{GINE}{LANDMARKS}{PROCESS}"""
SUBMISSION = f"""* The targets of the test parts are not public: beside each run (of several together, the
  first), in a folder of the row's name, lie the predictions to be submitted, of {" and ".join(SUBMITTED)};
  "test" is both.
"""
CHOSEN = """* All recipes but for epochs, batch size and the decay of the averaged weights are those of
  molhiv, chosen by the scores of single runs on its validation part; that walk encodings help was seen on
  ESOL, whose molecules molesol's are, with test scores in sight. GINE's learning rate, of molhiv alone, was
  chosen by --tune there; its seconds at 3c0825d8 are of a processor that other work shared.
"""
TUNED = """* OGB's evaluator on the validation part, at the best validation epoch (counted from 0): mean and
  unbiased standard deviation over the seeds. Nothing here looked at the test part. A first row is the recipe
  itself, each other row of the same model changes one value of it.
"""


@dataclass
class OGBOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: gine, gine-virtual, wl-gated, stack, stack-rw, wl-machine, stack-machine,
            gine-machine, ensemble, and of ogbg-molhiv stack-rings, wl-machine-rings, landmarks,
            stack-landmarks, stack-machines; of small sets gp; by default all.
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


def pages(options: OGBOptions) -> Iterator[Page]:
    """The table of a set, or that of what is tuned."""
    name = ogb_set(options.name).name
    recipes = {model: RECIPES[name][model] for model in chosen("models", options.models, RECIPES[name])}
    stem = f"ogb_{name.removeprefix('ogbg-')}"
    tried = [
        (model, recipe, {"changed": changed, "value": value} if options.tune else {})
        for model, whole in recipes.items()
        for changed, value, recipe in (whole.variations() if options.tune else [("", None, whole)])
    ]
    sets = {
        features: load_ogb(name, options.root, features=features, progress=True)
        for features in dict.fromkeys(recipe.features for _, recipe, _ in tried)
    }
    same_features = on_same_data("features", {features: data.digest() for features, data in sets.items()})
    splits = {features: _split(data, options).sha256 for features, data in sets.items()}

    def same_data(run: Record) -> bool:
        return same_features(run) and run["split_sha256"] == splits.get(run["features"], run["split_sha256"])

    def runs() -> Iterator[Callable[[OGBOptions, Record], Record]]:
        for model, recipe, more in tried:
            data = sets[recipe.features]
            more = more | {
                "graphs": ogb_source(name, options.root, features=recipe.features),
                "missing": missing(data, ogb_parts(name, options.root)),
            }
            all_seeds = range(TUNED_SEEDS) if options.tune and not options.quick else options.all_seeds
            for seed in all_seeds if recipe.members else all_seeds[:1]:
                yield partial(evaluate, data, model, recipe, seed, more)

    of_tuning = f"{stem}_tuned"
    if options.tune:
        yield Page(tuned_table(name), runs(), of_tuning, same_data)
    else:
        notes = CHOSEN + tried_values(options.output_dir / of_tuning, RECIPES[name])
        yield Page(table_of(name, notes), runs(), stem, same_data)


def place(recipes: Mapping[str, Recipe], run: Record) -> tuple[int, int]:
    variations = [(name, value) for name, value, _ in recipes[run["model"]].variations()]
    variation = variations.index((run.get("changed", ""), run.get("value")))
    return list(recipes).index(run["model"]), variation


def tried_values(of_tuning: Path, recipes: Mapping[str, Recipe]) -> str:
    """The values that were tried, by the table of tuning beside the table, if there is one."""
    path = of_tuning.with_suffix(".json")
    runs = read_json(path)["runs"] if path.is_file() else []
    # A run of --tune that was interrupted has tried less than the grid.
    counts = Counter((run["model"], run["changed"], run["value"]) for run in runs)
    lines = []
    for model, recipe in recipes.items():
        tried = [
            (name, value)
            for name, value, _ in recipe.variations()
            if counts[model, name, value] >= (TUNED_SEEDS if recipe.members else 1)
        ]
        if grid := recipe.shown_grid(tried):
            lines.append(f"* {recipe.title.format(members=recipe.members)}: {grid}\n")
    if not lines:
        return "* Nothing was tuned by --tune.\n"
    first = "* Tried by --tune, one value changed at a time, those of the recipe bold:\n"
    return "".join([first, *lines, f"* Their scores on the validation part: {of_tuning.name}.md\n"])


def missing(data: PackedGraphs, parts: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many of OGB's graphs of each part a set lacks, since RDKit refuses their SMILES."""
    rejected = [reject.row for reject in data.rejects]
    return {part: int(np.isin(numbers, rejected).sum()) for part, numbers in parts.items()}


def _without_targets(data: PackedGraphs, options: OGBOptions) -> list[str]:
    """The parts without targets, whose predictions are to be submitted."""
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
    data: PackedGraphs,
    model: str,
    recipe: Recipe,
    seed: int,
    more: Record,
    options: OGBOptions,
    known: Record,
) -> Record:
    """Train a row, or take the run that was trained, and score it by OGB's evaluator."""
    name, index = data.description.name, dict(data.split_idx or {})
    submitted = _without_targets(data, options)
    for part in submitted if not options.quick else ():
        check_size(part, len(index[part]))
    split = _split(data, options)
    folder = options.folder(name, recipe.features)
    record, members = run_members(model, recipe, split, recipe.options, seed, options, folder, known)
    first = members[0]
    scores = {}
    for part in [] if "diverged" in record else split.parts[1:]:
        target, prediction = predicted(part, members)
        if part == "test" and submitted:
            if options.quick:
                continue
            ends = np.cumsum([len(index[of_part]) for of_part in submitted])
            for of_part, values in zip(submitted, np.split(prediction, ends[:-1]), strict=True):
                write_submission(Path(first["folder"]) / model, of_part, values)
        else:
            scores[part] = {first["metric"]: official(name, target, prediction)}
    scored = {"seed": seed, "features": recipe.features, "scores": scores}
    return for_table(record | scored | more, options.output_dir)


def table_of(name: str, notes: str = "") -> Table:
    """The table of a set: a row per model, over its seeds."""
    label = LABELS[ogb_set(name).metric]
    return Table(
        name,
        [
            ("model", first("title")),
            ("parameters", number("parameters")),
            ("seeds", of_networks(seeds(OGBOptions.seeds))),
            ("epochs", of_networks(epochs("recipe_epochs"))),
            (f"valid {label}", score_of("valid", digits=4)),
            (f"test {label}", _test),
            ("best epoch", _mean("best_epoch")),
            ("s / seed", _mean("seconds")),
        ],
        partial(place, RECIPES[name]),
        lambda runs: f"{LEGEND}{SUBMISSION if name == 'pcqm4mv2' else ''}{notes}{_of_data(runs)}",
    )


def tuned_table(name: str) -> Table:
    """The table of what was tried: a row per change of a model, over its seeds."""
    return Table(
        f"{name}: tuning",
        [
            ("model", first("title")),
            ("change", _change),
            ("parameters", number("parameters")),
            ("seeds", of_networks(seeds(TUNED_SEEDS))),
            (f"valid {LABELS[ogb_set(name).metric]}", score_of("valid", digits=4)),
            ("best epoch", _mean("best_epoch")),
        ],
        partial(place, RECIPES[name]),
        lambda runs: TUNED + _of_data(runs),
    )


def _change(runs: Sequence[Record]) -> str:
    return "{changed} {value}".format(**runs[0]) if runs[0]["changed"] else "none: the recipe"


def _test(runs: list[Record]) -> str:
    """Of no run where only OGB has the targets of the test part."""
    there = all("test" in run["scores"] for run in survivors(runs))
    return score_of("test", digits=4)(runs) if there else "–"


def _mean(name: str) -> Cell:
    """Over the survivors that have it."""

    def mean(runs: Sequence[Record]) -> str:
        values = [run[name] for run in survivors(runs) if run[name] is not None]
        return f"{np.mean(values):.0f}" if values else "–"

    return mean


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


main = Experiment("ogb", __doc__, OGBOptions, pages, ("scikit-learn",)).main
