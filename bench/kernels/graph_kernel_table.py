"""The tables of the classical baselines: their rows, their legend, and how rows are added to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mode

from wlkernelnn.bench.harness.cells import Record, spread
from wlkernelnn.bench.harness.tables import Rows, items, markdown, write_page
from wlkernelnn.utils.files import read_json

from .nested_svm import CS, INNER_FOLDS, MAX_ITER, OUTER_FOLDS

# Accuracies in per cent of the WL subtree kernel: Shervashidze et al. 2011 and later surveys.
PUBLISHED = {"MUTAG": "84–90", "ENZYMES": "54", "PROTEINS": "75", "NCI1": "86"}

DUVENAUD = """Duvenaud et
  al. 2015 report, as RMSE: neural fingerprint 1.20, circular fingerprint 1.41, mean 2.53: by their scripts on
  20,000 molecules of this file, 16,000 of them to fit, in five folds. Here 23,982 are to fit, on one split.
"""
LEGEND = f"""* Classification: the mean of repeated {OUTER_FOLDS}-fold cross-validation (stratified, shuffled
  with seeds 0, 1, …), and after ± the standard deviation of the repetitions' means (by n − 1), if there are
  several; "runs" counts repetitions. Within each fold, the kernel's setting and C
  ({CS[0]:g} … {CS[-1]:g}) are those of the best accuracy in a {INNER_FOLDS}-fold cross-validation of its
  training part alone (of equal ones the least setting, then the least C); then the machine is fitted on the
  whole training part, and its test part is looked at once. Edge labels and all attributes are left out, as in
  the published comparisons. Setting and C of the table are those chosen most often; "gave up" counts the
  machines that stopped after {MAX_ITER:,} iterations, "seconds" are those of all repetitions. WL subtree and
  vertex histogram are chosen from the same machines.
* WL subtree: normalised inner products of the counts of colours after 0 … h iterations; setting: h, 0 … 6.
* vertex histogram: the same with h = 0, that is, how often each node label occurs.
* WL min-max: Σ min / Σ max of the same counts; setting: h, 0 … 6. Σ min alone is the WL optimal assignment
  kernel (WL-OA) of Kriege, Giscard and Wilson 2016, as the intersection of histograms: Σ min is the value of
  the best bijection of the nodes, and WL-OA(G, G) = (h + 1) |V|. So WL min-max is
  WL-OA(G, G') / (WL-OA(G, G) + WL-OA(G', G') − WL-OA(G, G')): made of WL-OA, but another kernel.
* shortest paths: min-max of the counts of pairs of nodes by both labels and their distance; setting: the
  largest distance that counts, 1, 2, 3, 4, 6 or any.
* paths: min-max of the counts of paths of distinct nodes by the labels along them; setting: their number of
  nodes, 2 … 6.
* published: WL subtree kernel in Shervashidze et al. 2011 and later surveys. Protocols differ: where C or
  depth were chosen by the test folds, figures are higher than by this protocol. Those of WL-OA are left out:
  they have not been checked against the paper.
* cep: ridge regression in the feature space of the WL subtree kernel, solved by conjugate gradients to a
  relative residual of 1e-8; targets centred. Random split 80/10/10 (seed 0), the one of
  "wlkernelnn benchmark cep". The penalty (in units of the mean of K(G, G)), normalisation and whether
  edge labels are used are those of the least RMSE on the validation part; only the training part is fitted.
  "of mean" is the RMSE of predicting the mean of the training part.
* published (cep): RMSE in Lei et al. 2017, Table 3, on the whole set of 2.3 million molecules; the public
  file has 30,000 of them, and errors on it do not compare. {DUVENAUD}"""


def refuse_other(path: Path, there: Record, here: Record) -> None:
    """Refuse to put figures of two protocols together.

    Raises:
        ValueError: Says what is not the same.
    """
    for name, expected in here.items():
        if (found := there.get(name, "unknown")) != expected:
            raise ValueError(
                f"{path}: holds parts of a run of {name} {found}, and this is {expected}: delete it, or name "
                f"another --output-dir, since a table is of one {name}"
            )


def added(path: Path, known: Record, found: Record) -> tuple[Record, Record]:
    """What is known and was found by a run, put into a table that is there already.

    Rows of the same data and kernel are replaced, all others stay, and the run is noted under ``added``.
    """
    before: Record = read_json(path)
    rows = {(record["data"], row_names(record)[0]): record for record in before["classification"]}
    rows |= {(record["data"], row_names(record)[0]): record for record in found["classification"]}
    sets = list(dict.fromkeys(name for name, _ in rows))
    kernels = before["protocol"]["kernels"] | found["protocol"]["kernels"]
    after = {
        "protocol": before["protocol"] | {"kernels": kernels},
        "classification": sorted(rows.values(), key=lambda record: sets.index(record["data"])),
        "regression": found["regression"] or before["regression"],
        "added": [*before.get("added", []), known],
    }
    return {key: value for key, value in before.items() if key not in after}, after


def write(stem: Path, known: Record, found: Record) -> None:
    """Write both tables as ``stem.md`` and ``stem.json``."""
    body = "".join(f"{title}\n\n{markdown(rows)}\n" for title, rows in tables(found).items())
    runs = ""
    for run in found.get("added", []):
        different = (f"{name} {value}" for name, value in run.items() if known.get(name) != value)
        runs += f"* added: {', '.join(different)}\n"
    title = f"Classical baselines ({known['mode']})"
    write_page(stem, title, f"{body}{LEGEND}\n{items(known)}{runs}", known, **found)


def tables(found: Record) -> dict[str, Rows]:
    """Title → rows of both tables, without empty ones."""
    both = {
        "Accuracy in per cent, nested cross-validation": classification_rows(found["classification"]),
        "cep: ridge regression on the WL subtree kernel, test part": regression_rows(found["regression"]),
    }
    return {title: rows for title, rows in both.items() if len(rows) > 1}


def row_names(record: Record) -> list[str]:
    """The rows of a record of classification."""
    return [name for name, value in record["repetitions"][0].items() if isinstance(value, dict)]


def classification_rows(records: Sequence[Record]) -> Rows:
    """The table of accuracies in per cent, its heading first."""
    rows = [("data", "kernel", "accuracy", "runs", "published", "setting", "C", "gave up", "seconds")]
    for record in records:
        repetitions = record["repetitions"]
        # All rows of a record are chosen from the same machines.
        given_up, seconds = (sum(one[key] for one in repetitions) for key in ("given_up", "seconds"))
        effort = (f"{given_up:,}", f"{seconds:.0f}")
        for number, row in enumerate(row_names(record)):
            found = [one[row] for one in repetitions]
            setting, C = (mode(value for one in found for value in one[key]) for key in ("setting", "C"))
            accuracy = spread([100 * one["accuracy"] for one in found])
            published, used = ("", ("", "")) if number else (record["published"], effort)
            chosen = ("any" if setting is None else str(setting), f"{C:g}")
            rows.append((record["data"], row, accuracy, str(len(found)), published, *chosen, *used))
    return rows


def regression_rows(records: Sequence[Record]) -> Rows:
    """The table of errors, its heading first."""
    rows = [("degree", "RMSE", "MAE", "of mean", "published", "edges", "normalised", "penalty", "seconds")]
    for record in records:
        chosen = record["chosen"]
        errors = (f"{record[metric]:.4f}" for metric in ("rmse", "mae", "mean_rmse"))
        used = ("yes" if chosen[what] else "no" for what in ("edge_labels", "normalize"))
        penalty, seconds = f"{chosen['penalty']:.2g}", f"{record['seconds']:.0f}"
        rows.append((str(record["degree"]), *errors, record["published"], *used, penalty, seconds))
    return rows
