"""CEP's tables as they are printed: rows over seeds, and what is to be known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wlkernelnn.bench.harness.molecule_runs import spread_of
from wlkernelnn.bench.harness.outcomes import epochs_of, seconds_per_epoch
from wlkernelnn.bench.harness.trained import Record, of_seeds
from wlkernelnn.bench.kernels.graph_kernels import DUVENAUD

from .ensembles import TOGETHER
from .models import DROPOUT, PARAMETERS, Model
from .recipes import LR, LR_DECAY, LR_DECAY_SAMPLES, LR_MIN, OURS, PUBLISHED, SAMPLES

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
                of_seeds(len(records), SEEDS) if model.seeded else "–",
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
