"""CEP's tables as they are printed: rows over seeds, what they predict together, and what is to be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wlkernelnn.bench.harness.cells import Cell, Record, epochs_of, of_seeds, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.molecule_runs import ensemble, for_table, made_alike, score_of
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.kernels.graph_kernels import DUVENAUD

from .models import (
    DROPOUT,
    LR,
    LR_DECAY,
    LR_DECAY_SAMPLES,
    LR_MIN,
    OURS,
    PARAMETERS,
    PUBLISHED,
    SAMPLES,
    TABLES,
    Model,
)

# Of a whole row.
SEEDS = 3

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


def table_of(recipe: str, notes: str = "") -> Table:
    """The table of a recipe: a row per model, over its seeds and with their ensemble."""
    models = TABLES[recipe]
    return Table(
        TITLES[recipe],
        [
            ("model", lambda runs: _title(runs, models)),
            ("parameters", lambda runs: f"{runs[0]['parameters']:,}"),
            ("seeds", lambda runs: _seeds(runs, models)),
            ("epochs", _of_runs(_epochs, models)),
            ("valid RMSE", _of_runs(score_of("valid", "rmse"))),
            ("test RMSE", _of_runs(score_of("test", "rmse"))),
            ("test MAE", _of_runs(score_of("test", "mae"))),
            ("ensemble valid", _of_ensemble("valid")),
            ("ensemble test", _of_ensemble("test")),
            (
                "published",
                lambda runs: models[name].published if (name := runs[0]["model"]) in models else "–",
            ),
            ("s / epoch", _of_runs(lambda runs: seconds_per_epoch(runs, 1), models)),
        ],
        lambda run: ([*models, TOGETHER].index(run["model"]),),
        LEGENDS[recipe] + notes,
    )


def _title(runs: Sequence[Record], models: Mapping[str, Model]) -> str:
    """Of what rows make together, the titles of all."""
    if (name := runs[0]["model"]) != TOGETHER:
        return models[name].title
    names = dict.fromkeys(member["model"] for member in runs[0]["members"])
    return f"{' and '.join(models[name].title for name in names)}, together"


def _seeds(runs: Sequence[Record], models: Mapping[str, Model]) -> str:
    if runs[0]["model"] == TOGETHER:
        return f"{len(runs[0]['members'])} networks"
    return of_seeds(len(_alone(runs)), SEEDS) if models[runs[0]["model"]].trained else "–"


def _alone(runs: Sequence[Record]) -> list[Record]:
    return [run for run in runs if "members" not in run]


def _of_runs(cell: Cell, models: Mapping[str, Model] | None = None) -> Cell:
    """A cell of the runs beside their ensemble, if there are some; with ``models``, of those with epochs."""

    def of_runs(runs: list[Record]) -> str:
        alone = _alone(runs)
        there = alone and (models is None or models[alone[0]["model"]].trained)
        return cell(alone) if there else "–"

    return of_runs


def _of_ensemble(part: str) -> Cell:
    def of_ensemble(runs: list[Record]) -> str:
        scores = [run["scores"][part]["rmse"] for run in runs if "members" in run]
        return f"{scores[0]:.3f}" if scores else "–"

    return of_ensemble


def _epochs(runs: list[Record]) -> str:
    done, whole = epochs_of(runs), runs[0]["published_epochs"]
    return str(done) if done == whole else f"{done} of {whole:,}"


# Networks that differ in more than their seeds: also averaged together.
MIXED = {"paper": (), "ours": ("wl-gated", "wl-paper")}
TOGETHER = "together"


def with_ensembles(runs: Sequence[Record], mixed: Sequence[str], output_dir: Path) -> list[Record]:
    """The runs of a table, the ensemble of every row with several, and that of all runs of some rows.

    An ensemble that the table has of just these runs stays. Others are made, if all predictions are there and
    all members were made with the same.

    Args:
        runs: Those of the table, with ensembles that it had.
        mixed: The rows of the last ensemble; each counts the same, however many seeds it has.
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
