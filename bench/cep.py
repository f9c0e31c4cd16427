"""Power conversion efficiency of molecules: Table 3 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from wlkernelnn.datasets import PackedGraphs, load_molecules, random_split
from wlkernelnn.datasets.splits import PARTS
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

from . import speed_chemprop
from .baselines import GINENetwork, mean_predictor, width_for
from .cep_chemprop import fit_chemprop
from .cep_parts import read_parts
from .graph_kernels import DUVENAUD
from .molecule_runs import (
    Fitted,
    Split,
    ensemble,
    for_table,
    made_alike,
    run_method,
    run_network,
    spread_of,
)
from .neural_fingerprint import NeuralFingerprintNetwork
from .options import parsed
from .outcomes import epochs_of, seconds_per_epoch, survivors
from .random_walk_network import RandomWalkNetwork
from .structure2vec import LoopyBPNetwork, MeanFieldNetwork
from .trained import (
    Place,
    Record,
    Runs,
    TrainedOptions,
    about_training,
    chosen,
    of_seeds,
    on_same_data,
    print_table,
    write_results,
)
from .wl_machines import fit_machine

PARAMETERS = 260_000
QUICK_MOLECULES = 400
METRICS = ("rmse", "mae")

# Lei et al. 2017, section 6.3, and its release: until the learning rate is below 5e-6.
LR, LR_MIN, LR_DECAY, LR_DECAY_SAMPLES = 1e-3, 5e-6, 0.9, 100_000
SAMPLES = LR_DECAY_SAMPLES * math.ceil(math.log(LR_MIN / LR) / math.log(LR_DECAY))
PUBLISHED = FitOptions(
    batch_size=20,
    lr=LR,
    weight_decay=0.0,
    schedule="exponential",
    warmup_epochs=0,
    lr_min=LR_MIN,
    lr_decay=LR_DECAY,
    lr_decay_samples=LR_DECAY_SAMPLES,
    gradient_clip=0.0,
    ema_decay=0.0,
    bucket_width=0.05,
)
# Ours: of "wlkernelnn train", for a set of this size.
OURS = FitOptions(epochs=40, lr=2e-3)
DROPOUT = 0.15


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        published: RMSE in the paper's Table 3, and the number of parameters there.
        network: Its class; ``None`` for a method of another kind.
        arguments: Its arguments beside the width.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        seeded: Whether it depends on a seed.
        paper_row: The row of the paper's table whose runs these are, whatever table they stand in.
    """

    title: str
    published: str = "–"
    network: type[GraphNetwork] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    features: str = "duvenaud"
    seeded: bool = True
    paper_row: str | None = None


# No normalisation before the head, walks of exactly n nodes, the last iteration's: as in the release.
_PLAIN = {"norm": False}
_WL = {"all_lengths": False, **_PLAIN}
MODELS = {
    "mean": Model("mean predictor", "2.4062 (1)", seeded=False),
    "wl-3": Model("WL subtree kernel, degree 3", "0.2040 (1.6M)", seeded=False),
    "wl-6": Model("WL subtree kernel, degree 6", "0.1367 (1378M)", seeded=False),
    "mean-field": Model("embedded mean field", "0.1250 (0.1M)", MeanFieldNetwork, _PLAIN),
    "loopy-bp": Model("embedded loopy BP", "0.1174 (0.1M), 0.1065 (0.26M)", LoopyBPNetwork, _PLAIN),
    "fingerprint": Model("neural fingerprint", "0.1409 (0.26M)", NeuralFingerprintNetwork, _PLAIN),
    "random-walk": Model("random walk kernel network", network=RandomWalkNetwork, arguments=_WL),
    "deep": Model("deep kernel network", network=KernelStackNetwork, arguments={"jumping": "last", **_PLAIN}),
    "wl-constant": Model(
        "WL kernel network, λ = 1", "0.1058 (0.26M)", GraphKernelNetwork, {"decay": 1.0, **_WL}
    ),
    "wl-learned": Model(
        "WL kernel network, learned λ", network=GraphKernelNetwork, arguments={"decay": "learned", **_WL}
    ),
    "wl-gated": Model(
        "WL kernel network, gated λ",
        "0.1043 (0.26M)",
        GraphKernelNetwork,
        {"decay": "gated", "gate_scale": 10.0, **_WL},
    ),
    "gine": Model("GINE", network=GINENetwork, arguments=_PLAIN),
    "chemprop": Model("chemprop"),
}
# What we make of the same molecules: no walk is too short, sums and dropout where they help.
OWN = {
    "wl-gated": Model(
        "WL kernel network, gated λ",
        network=GraphKernelNetwork,
        arguments={"decay": "gated", "dropout": DROPOUT},
    ),
    "wl-paper": replace(
        MODELS["wl-gated"],
        title="WL kernel network, gated λ, the paper's recipe",
        published="–",
        paper_row="wl-gated",
    ),
    "deep": Model(
        "deep kernel stack, walk encodings",
        network=KernelStackNetwork,
        arguments={"compose": "add", "dropout": DROPOUT},
        features="ogb+rw16",
    ),
    "gine": Model("GINE", network=GINENetwork, arguments={"dropout": DROPOUT}),
}
TABLES = {"paper": MODELS, "ours": OWN}
# Networks that differ in more than their seeds: also averaged together.
MIXED = {"paper": (), "ours": ("wl-gated", "wl-paper")}
TOGETHER = "together"

TITLES = {"paper": "Harvard Clean Energy Project", "ours": "Harvard Clean Energy Project, our recipe"}
SCORES = """* RMSE and MAE of the power conversion efficiency in %, mean and unbiased standard deviation over
  the seeds of the networks, at the epoch with the best validation RMSE; the test part is scored once, with
  these weights. All seeds share one split, 80/10/10, random with seed 0, unless a table has its own; its
  rows, counted from 0, lie in the folder "splits" beside this table, in the file that the JSON file names.
* ensemble: RMSE of the mean prediction of all seeds; its parameters are the sum of theirs.
"""
OTHER_DATA = """The 2.3 million molecules come as three text files of SMILES and PCE: add
  --data TRAIN VALID TEST.
"""
LEGENDS = {
    "paper": f"""{SCORES}\
* published: Lei et al. 2017, Table 3, and the number of parameters there; figures for other than 0.26M are
  from Dai et al. 2016. They are **on 2.3 million molecules** (1,900,000 / 82,601 / 220,289). **The public
  file has 29,978 of them, and errors on so few do not compare**: read each column by itself. {DUVENAUD}\
* Networks have the width at which their parameters come closest to {PARAMETERS:,}, 4 iterations or layers
  (walks of 5 nodes in the random walk network), sums over atoms, and a head with one hidden layer. The deep
  kernel network is normalised and residual; chemprop has its default depth.
* Features ("duvenaud") of the paper: element, degree, attached hydrogens, implicit valence, aromatic; bond
  type, conjugated, in a ring. chemprop has its own.
* Recipe of the paper and its release: batches of {PUBLISHED.batch_size}, Adam {LR:g}, times {LR_DECAY:g}
  every {LR_DECAY_SAMPLES:,} molecules until below {LR_MIN:g}, that is {SAMPLES:,} molecules, drawn
  evenly over buckets of {PUBLISHED.bucket_width:g} %; no dropout, no weight decay. Ours are: scaled
  targets, uniform initial weights, rounds that visit each bucket once, and the best instead of the last
  epoch.
* "5 of 213" epochs: the recipe squeezed by --epochs, so that the learning rate falls as far in less time.
  **A shortened row is not a result of the recipe.**
* WL subtree kernel: ridge regression as in "wlkernelnn benchmark graph-kernels"; its parameters are the
  colours of the training molecules.
* All of it: wlkernelnn benchmark cep. {OTHER_DATA}""",
    "ours": f"""{SCORES}\
* **The public file has 29,978 of the paper's 2.3 million molecules**, whose figures these do not compare
  with. {DUVENAUD}\
* Networks have the width at which their parameters come closest to {PARAMETERS:,}, 4 iterations or layers
  and sums over atoms; {DROPOUT:g} of the head's inputs are dropped.
* "the paper's recipe": network and training are those of the other table ("wlkernelnn benchmark cep"):
  {SAMPLES:,} molecules in batches of {PUBLISHED.batch_size}, drawn evenly over buckets of the PCE, and
  no dropout.
* "together": the mean of both rows' means over their seeds; the parameters shown are the sum of all. That
  these two are put together was chosen by validation scores, when test scores of both rows were known.
* Features ("duvenaud") are the paper's; those of the deep kernel stack are OGB's, and the chances of a random
  walk to be back at its atom after 1 to 16 steps.
* Recipe: AdamW {OURS.lr:g}, cosine, {OURS.epochs} epochs of batches of {OURS.batch_size}, moving averages of
  the weights. "5 of {OURS.epochs}" epochs: squeezed by --epochs; **a shortened row is no result yet.**
* All of it: wlkernelnn benchmark cep --recipe ours. {OTHER_DATA}""",
}


@dataclass
class CEPOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        recipe: How networks are trained: as in the "paper", whose table it is then, or by a recipe of
            "ours", with a fifth of the molecules drawn.
        models: Which rows: mean, wl-3, wl-6, mean-field, loopy-bp, fingerprint, random-walk, deep,
            wl-constant, wl-learned, wl-gated, gine, chemprop, or, of ours, wl-gated, wl-paper, deep, gine; by
            default all, chemprop if it is installed.
        epochs: Squeeze the recipe into so many epochs; by default the whole recipe.
        data: Table (CSV, TSV or Parquet) of other molecules with columns smiles and PCE, or three text files,
            of the training, validation and test part, as the 2.3 million of the paper: a header, then lines
            of a SMILES and its PCE; by default the public 29,978.
        split_column: Column of that table that says train, valid or test; by default a random split.
        quick: One epoch of a few molecules: only to see that everything works.
    """

    seeds: int = 3
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
    for seed in range(1 if options.quick else options.seeds):
        for name, model in models.items():
            if seed and not model.seeded:
                continue
            record = evaluate(name, model, splits[model.features], seed, options, known)
            # Rows appear as they are there: the rest may take hours.
            with table.adding(for_table(record, options.output_dir)) as there:
                runs = with_ensembles(there, MIXED[options.recipe], options.output_dir)
                runs.sort(key=in_table)
                write_results(stem, title, rows(runs, options.table), notes, known, runs)
    print_table(title, rows(runs, options.table), known)


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


def recipe_of(num_molecules: int, seed: int, options: CEPOptions, published: bool) -> tuple[FitOptions, int]:
    """How networks are trained, by the published recipe or by ours, and the epochs of the whole recipe."""
    recipe = OURS
    if published:
        recipe = replace(PUBLISHED, epochs=math.ceil(SAMPLES / num_molecules))
    epochs = options.limit(recipe.epochs)
    squeezed = replace(
        recipe,
        epochs=epochs,
        lr_decay_samples=max(1, round(recipe.lr_decay_samples * epochs / recipe.epochs)),
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    return squeezed, recipe.epochs


def network_of(model: Model, train: PackedGraphs) -> dict[str, Any]:
    """The arguments of a row's network, its width among them."""
    assert model.network is not None
    make = partial(model.network.from_data, train, **model.arguments)
    return {
        "hidden_channels": width_for(lambda width: make(hidden_channels=width), PARAMETERS),
        **model.arguments,
    }


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


def with_ensembles(runs: Sequence[Record], mixed: Sequence[str], output_dir: Path) -> list[Record]:
    """The runs of a table, the ensemble of every row with several, and that of all runs of some rows.

    An ensemble that the table has of just these runs stays. Others are made, if all predictions are there and
    all members were made with the same.

    Args:
        runs: Those of the table, with ensembles that it had.
        mixed: The rows of the last ensemble, of which each counts the same, however many seeds it has.
        output_dir: Folder of the table.
    """
    alone = [run for run in runs if "members" not in run]
    out = list(alone)
    groups = {name: (name,) for name in dict.fromkeys(run["model"] for run in alone)} | {TOGETHER: (*mixed,)}
    for name, names in groups.items():
        members = survivors([run for run in alone if run["model"] in names])
        count = Counter(member["model"] for member in members)
        if len(members) < 2 or set(count) != set(names):
            continue
        there = [run for run in runs if run["model"] == name and _is_of(run, members)]
        if not there and _can_predict_together(members, output_dir):
            found = [member | {"folder": str(output_dir / member["folder"])} for member in members]
            weights = [1 / count[member["model"]] for member in members]
            there = [for_table(ensemble(name, found, weights), output_dir)]
        out += there
    return out


def _is_of(run: Record, members: Sequence[Record]) -> bool:
    """Whether it is the ensemble of just these runs."""

    def identity(run: Record) -> tuple[Any, ...]:
        return run["model"], run["seed"], run.get("revision", ""), run.get("content", "")

    return sorted(map(identity, run.get("members", ()))) == sorted(map(identity, members))


def _can_predict_together(members: Sequence[Record], output_dir: Path) -> bool:
    tables = [output_dir / member["folder"] / "test_predictions.csv" for member in members]
    return made_alike(members) and all(path.is_file() for path in tables)


COLUMNS = (
    "model",
    "parameters",
    "seeds",
    "epochs",
    "valid RMSE",
    "test RMSE",
    "test MAE",
    "ensemble valid",
    "ensemble test",
    "published",
    "s / epoch",
)


def rows(runs: Sequence[Record], models: Mapping[str, Model]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per model, over its seeds and with their ensemble."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for name, model in models.items():
        of_row = [run for run in runs if run["model"] == name]
        records = [run for run in of_row if "members" not in run]
        if not records:
            continue
        epochs = seconds = "–"
        if model.seeded:
            done, whole = epochs_of(records), records[0]["published_epochs"]
            epochs = str(done) if done == whole else f"{done} of {whole:,}"
            seconds = seconds_per_epoch(records, 1)
        together = [
            f"{run['scores'][part]['rmse']:.3f}"
            for run in of_row
            if "members" in run
            for part in ("valid", "test")
        ]
        out.append(
            (
                model.title,
                f"{records[0]['parameters']:,}",
                of_seeds(len(records), CEPOptions.seeds) if model.seeded else "–",
                epochs,
                spread_of(records, "valid", "rmse"),
                spread_of(records, "test", "rmse"),
                spread_of(records, "test", "mae"),
                *(together or ["–", "–"]),
                model.published,
                seconds,
            )
        )
    for run in (run for run in runs if run["model"] == TOGETHER):
        names = dict.fromkeys(member["model"] for member in run["members"])
        title = " and ".join(models[name].title for name in names)
        valid, test = (f"{run['scores'][part]['rmse']:.3f}" for part in ("valid", "test"))
        parameters, members = f"{run['parameters']:,}", f"{len(run['members'])} networks"
        out.append((f"{title}, together", parameters, members, "–", "–", "–", "–", valid, test, "–", "–"))
    return out
