"""CEP's tables as they are printed: rows over seeds, their mean predictions, and the words below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Cell, Record
from wlkernelnn.bench.harness.molecule_runs import ensemble, for_table, made_alike, score_of
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.kernels.graph_kernel_table import DUVENAUD

from ..members import PROCESS
from .models import DROPOUT, OURS, PARAMETERS, PUBLISHED, SAMPLES, TABLES

# Of a whole row.
SEEDS = 3

TITLES = {"paper": "Harvard Clean Energy Project", "ours": "Harvard Clean Energy Project, our recipe"}
SCORES = """* RMSE and MAE of the power conversion efficiency in %, mean and unbiased standard deviation over
  the seeds of the networks, at the epoch with the best validation RMSE; the test part is scored once, with
  these weights. All seeds share one split, 80/10/10, random with seed 0, unless a table has its own; its
  rows, counted from 0, lie in the folder "splits" beside this table, in the file that the JSON file names.
* ensemble: RMSE of the mean prediction of all seeds; its parameters are the sum of theirs.
"""
SIZES = f"""* Networks have the width at which their parameters come closest to {PARAMETERS:,}, 4 iterations
  or layers and sums over atoms"""
OTHER_DATA = """The 2.3 million molecules come as three text files of SMILES and PCE: add
  --data TRAIN VALID TEST.
"""
LEGENDS = {
    "paper": f"""{SCORES}\
* published: Lei et al. 2017, Table 3, and the number of parameters there; figures for other than 0.26M are
  from Dai et al. 2016. They are **on 2.3 million molecules** (1,900,000 / 82,601 / 220,289). **The public
  file has 29,978 of them, and errors on so few do not compare**: read each column by itself. {DUVENAUD}\
{SIZES} (walks of 5 nodes in the random walk network), and a head with one hidden layer. The deep
  kernel network is normalised and residual; chemprop has its default depth. WL networks read the last
  iteration and have one set of walk weights, as in the release; of the "sum over iterations", the paper's,
  each iteration has its own.
* Features ("duvenaud") of the paper: element, degree, attached hydrogens, implicit valence, aromatic; bond
  type, conjugated, in a ring. chemprop has its own.
* Recipe of the paper and its release: batches of {PUBLISHED.batch_size}, Adam {PUBLISHED.lr:g}, times
  {PUBLISHED.lr_decay:g} every {PUBLISHED.lr_decay_samples:,} molecules until below {PUBLISHED.lr_min:g}, that
  is {SAMPLES:,} molecules, drawn evenly over buckets of {PUBLISHED.bucket_width:g} %; no dropout, no
  weight decay. Ours are: scaled targets, uniform initial weights, rounds that visit each bucket once, and the
  best instead of the last epoch.
* "5 of 213" epochs: the recipe squeezed by --epochs, so that the learning rate falls as far in less time.
  **A shortened row is not a result of the recipe.**
* WL subtree kernel: ridge regression as in "wlkernelnn benchmark graph-kernels"; its parameters are the
  colours of the training molecules.
* All of it: wlkernelnn benchmark cep. {OTHER_DATA}""",
    "ours": f"""{SCORES}\
* **The public file has 29,978 of the paper's 2.3 million molecules**, whose figures these do not compare
  with. {DUVENAUD}\
{SIZES}; {DROPOUT:g} of the head's inputs are dropped.
* "the paper's recipe": network and training are those of the other table ("wlkernelnn benchmark cep"):
  {SAMPLES:,} molecules in batches of {PUBLISHED.batch_size}, drawn evenly over buckets of the PCE, and
  no dropout.
* "together": the mean of both rows' means over their seeds; the parameters shown are the sum of all. That
  these two are put together was chosen by validation scores, when test scores of both rows were known.
* Features ("duvenaud") are the paper's; those of the deep kernel stack are OGB's, and the chances of a random
  walk to be back at its atom after 1 to 16 steps.
{PROCESS}\
* Seconds of GINE at revision 88b3d69 are of a processor that other work shared, several times those of an
  idle one: "wlkernelnn benchmark speed" compares speeds.
* Recipe: AdamW {OURS.lr:g}, cosine, {OURS.epochs} epochs of batches of {OURS.batch_size}, moving averages of
  the weights. "5 of {OURS.epochs}" epochs: squeezed by --epochs; **a shortened row is no result yet.**
* All of it: wlkernelnn benchmark cep --recipe ours. {OTHER_DATA}""",
}


def table_of(recipe: str, notes: str = "") -> Table:
    """The table of a recipe: a row per model, over its seeds and with their ensemble."""
    models = TABLES[recipe]

    def title(runs: Sequence[Record]) -> str:
        """Of rows that predict together, the titles of all."""
        if (name := runs[0]["model"]) != TOGETHER:
            return models[name].title
        names = dict.fromkeys(member["model"] for member in runs[0]["members"])
        return f"{' and '.join(models[name].title for name in names)}, together"

    def seeds(runs: Sequence[Record]) -> str:
        if runs[0]["model"] == TOGETHER:
            return f"{len(runs[0]['members'])} networks"
        return cells.out_of(len(_alone(runs)), SEEDS) if models[runs[0]["model"]].trained else "–"

    def of_runs(cell: Cell, trained: bool = False) -> Cell:
        """A cell of the runs beside their ensemble, or only if they are ``trained`` by epochs."""

        def of_some(runs: list[Record]) -> str:
            alone = _alone(runs)
            there = alone and (not trained or models[alone[0]["model"]].trained)
            return cell(alone) if there else "–"

        return of_some

    def of_ensemble(part: str) -> Cell:
        def of_one(runs: list[Record]) -> str:
            scores = [run["scores"][part]["rmse"] for run in runs if "members" in run]
            return f"{scores[0]:.3f}" if scores else "–"

        return of_one

    return Table(
        TITLES[recipe],
        [
            ("model", title),
            ("parameters", cells.number("parameters")),
            ("seeds", seeds),
            ("epochs", of_runs(cells.epochs("published_epochs"), True)),
            ("valid RMSE", of_runs(score_of("valid", "rmse"))),
            ("test RMSE", of_runs(score_of("test", "rmse"))),
            ("test MAE", of_runs(score_of("test", "mae"))),
            ("ensemble valid", of_ensemble("valid")),
            ("ensemble test", of_ensemble("test")),
            ("published", lambda runs: getattr(models.get(runs[0]["model"]), "published", "–")),
            ("s / epoch", of_runs(lambda runs: cells.seconds_per_epoch(runs, 1), True)),
        ],
        lambda run: ([*models, TOGETHER].index(run["model"]),),
        LEGENDS[recipe] + notes,
    )


def _alone(runs: Sequence[Record]) -> list[Record]:
    return [run for run in runs if "members" not in run]


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
    alone = _alone(runs)
    out = list(alone)
    groups = {name: (name,) for name in dict.fromkeys(run["model"] for run in alone)} | {TOGETHER: (*mixed,)}
    for name, names in groups.items():
        members = cells.survivors([run for run in alone if run["model"] in names])
        count = Counter(member["model"] for member in members)
        if len(members) < 2 or set(count) != set(names):
            continue
        same = _identities(members)
        there = [run for run in runs if run["model"] == name and _identities(run.get("members", ())) == same]
        found = [member | {"folder": str(output_dir / member["folder"])} for member in members]
        predicted = all(Path(member["folder"], "test_predictions.csv").is_file() for member in found)
        if not there and predicted and made_alike(members):
            weights = [1 / count[member["model"]] for member in members]
            there = [for_table(ensemble(name, found, weights), output_dir)]
        out += there
    return out


def _identities(members: Sequence[Record]) -> list[tuple[Any, ...]]:
    names = ("model", "seed", "revision", "content")
    return sorted(tuple(member.get(name, "") for name in names) for member in members)
