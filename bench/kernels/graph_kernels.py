"""The classical baselines: support vector machines and ridge regression on Weisfeiler-Lehman kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import mode

import numpy as np
from rich.console import Console

from wlkernelnn.bench.baselines.wl_machines import PENALTIES, ridge_baseline
from wlkernelnn.bench.harness.cells import Record, spread
from wlkernelnn.bench.harness.options import TableOptions, parsed
from wlkernelnn.bench.harness.provenance import PACKAGES, about, versions
from wlkernelnn.bench.harness.tables import Rows, items, markdown, printed, write_page
from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu, random_split
from wlkernelnn.utils.files import read_json, write_text

from .nested_svm import CS, DEPTHS, INNER_FOLDS, KERNELS, MAX_ITER, OUTER_FOLDS, cross_validate, wl_grams

# Accuracies in per cent of the WL subtree kernel: Shervashidze et al. 2011 and later surveys.
PUBLISHED = {"MUTAG": "84–90", "ENZYMES": "54", "PROTEINS": "75", "NCI1": "86"}

# By degree, Lei et al. 2017, Table 3: not the same molecules.
PUBLISHED_CEP = {3: "0.2040", 6: "0.1367"}
QUICK_SETS, QUICK_MOLECULES = ("MUTAG", "ENZYMES", "cep"), 1000
# What the figures depend on beside the packages of every table.
COMPUTED_BY = ("scikit-learn", "scipy")

DUVENAUD = """Duvenaud et
  al. 2015 report, as RMSE: neural fingerprint 1.20, circular fingerprint 1.41, mean 2.53: by their scripts on
  20,000 molecules of this file, 16,000 of them to fit, in five folds. Here 23,982 are to fit, on one split.
"""
LEGEND = f"""* Classification: the mean of repeated {OUTER_FOLDS}-fold cross-validation (stratified, shuffled
  with seeds 0, 1, …), and after ± the standard deviation of the repetitions' means (by n − 1), if there are
  several. Within each fold, depth
  ({DEPTHS[0]} … {DEPTHS[-1]} iterations) and C ({CS[0]:g} … {CS[-1]:g}) are those of the best accuracy in a
  {INNER_FOLDS}-fold cross-validation of its training part alone (of equal ones the least depth, then the
  least C); then the machine is fitted on the whole training part, and its test part is looked at once.
  Grams are normalised; edge labels and all attributes are left out, as in the published comparisons. Depth
  and C of the table are those chosen most often; "gave up" counts the machines that stopped after
  {MAX_ITER:,} iterations, "seconds" are those of all repetitions, both kernels together.
* vertex histogram: the same with depth 0, that is, how often each node label occurs.
* published: WL subtree kernel in Shervashidze et al. 2011 and later surveys. Protocols differ: where C or
  depth were chosen by the test folds, figures are higher than by this protocol.
* cep: ridge regression in the feature space of the WL subtree kernel, solved by conjugate gradients to a
  relative residual of 1e-8; targets centred. Random split 80/10/10 (seed 0), the one of
  "wlkernelnn benchmark cep". The penalty (in units of the mean of K(G, G)), normalisation and whether
  edge labels are used are those of the least RMSE on the validation part; only the training part is fitted.
  "of mean" is the RMSE of predicting the mean of the training part.
* published (cep): RMSE in Lei et al. 2017, Table 3, on the whole set of 2.3 million molecules; the public
  file has 30,000 of them, and errors on it do not compare. {DUVENAUD}"""


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
        repetitions: Repetitions of the cross-validation, each with its own folds.
        n_jobs: Threads that fit machines; -1 for one per core.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.

    Raises:
        ValueError: There is nothing to compute.
    """

    data: list[str] | None = None
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
        for name, here in protocol.items():
            if (there := before["protocol"].get(name, "unknown")) != here:
                raise ValueError(
                    f"{path}: holds parts of a run of {name} {there}, and this is {here}: delete it, or name "
                    f"another --output-dir, since a table is of one {name}"
                )
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


def classify(name: str, data: PackedGraphs, options: GraphKernelOptions, progress: _Progress) -> Record:
    """Repeated nested cross-validation on a TU data set."""
    y, grams = data.y.numpy()[:, 0].astype(np.int64), cache(partial(wl_grams, data))

    def accuracies(record: Record) -> str:
        return ", ".join(f"{kernel} {record[kernel]['accuracy']:.4f}" for kernel in KERNELS)

    def repetition(seed: int) -> Record:
        return cross_validate(grams(), y, seed, options.n_jobs)

    part, seeds = f"{name} {content(data)}", range(options.repetitions)
    repetitions = [progress.once(f"{part}/{seed}", partial(repetition, seed), accuracies) for seed in seeds]
    published = PUBLISHED.get(name, "")
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


def classification_rows(records: Sequence[Record]) -> Rows:
    """The table of accuracies in per cent, its heading first."""
    rows = [("data", "kernel", "accuracy", "published", "depth", "C", "gave up", "seconds")]
    for record in records:
        repetitions = record["repetitions"]
        # Both kernels are chosen from the same machines.
        given_up, seconds = (sum(one[key] for one in repetitions) for key in ("given_up", "seconds"))
        for kernel in KERNELS:
            found = [one[kernel] for one in repetitions]
            depth, C = (mode(value for one in found for value in one[key]) for key in ("depth", "C"))
            accuracy = spread([100 * one["accuracy"] for one in found])
            ours = kernel == KERNELS[0]
            published, effort = record["published"] if ours else "", (f"{given_up:,}", f"{seconds:.0f}")
            chosen = (accuracy, published, str(depth), f"{C:g}")
            rows.append((record["data"], kernel, *chosen, *(effort if ours else ("", ""))))
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


def main(argv: list[str] | None = None) -> None:
    """Compute, print the tables, and write them as ``graph_kernels.md`` and ``graph_kernels.json``.

    Of some sets alone the files are ``graph_kernels_<sets>.md`` and ``.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("graph-kernels", __doc__, GraphKernelOptions, argv)
    names = list(dict.fromkeys(options.data or (QUICK_SETS if options.quick else (*PUBLISHED, "cep"))))
    # Some sets alone don't replace the table of all.
    stem = options.output_dir / "_".join(["graph_kernels", *map(str.lower, names if options.data else ())])
    known = about("graph-kernels", argv, options.quick, COMPUTED_BY)
    known |= {"repetitions": options.repetitions}
    protocol = {
        "mode": known["mode"],
        "outer_folds": OUTER_FOLDS,
        "inner_folds": INNER_FOLDS,
        "depths": list(DEPTHS),
        "C": list(CS),
        "max_iter": MAX_ITER,
        "penalties": list(PENALTIES),
    }
    made_by = {"revision": known["revision"], **versions(*PACKAGES, *COMPUTED_BY)}
    unfinished = None if options.quick else stem.with_suffix(".partial.json")
    progress = _Progress(unfinished, made_by | protocol)
    # All before anything is computed: what is misspelt or missing is known at once.
    data = {name: load(name, options) for name in names}
    known |= {"data": ", ".join(f"{name} {content(graphs)}" for name, graphs in data.items())}
    console, sets = Console(), {name: graphs for name, graphs in data.items() if name != "cep"}
    regressions = regress(data["cep"], progress) if "cep" in data else []
    classifications = [classify(name, graphs, options, progress) for name, graphs in sets.items()]
    tables = {
        "Accuracy in per cent, nested cross-validation": classification_rows(classifications),
        "cep: ridge regression on the WL subtree kernel, test part": regression_rows(regressions),
    }
    body = ""
    for heading, rows in tables.items():
        if len(rows) > 1:
            body += f"{heading}\n\n{markdown(rows)}\n"
            console.print(printed(rows, f"{heading} ({known['mode']})"))
    write_page(
        stem,
        f"Classical baselines ({known['mode']})",
        f"{body}{LEGEND}\n{items(known)}",
        known,
        protocol=protocol,
        classification=classifications,
        regression=regressions,
    )
    progress.finish()
    console.print(f"Written to {stem}.md and {stem.name}.json.")
