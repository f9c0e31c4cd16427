"""The classical baselines: support vector machines and ridge regression on Weisfeiler-Lehman kernels."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu, random_split
from wlkernelnn.datasets.splits import SplitIndex
from wlkernelnn.files import json_text, write_text
from wlkernelnn.kernels.wl_subtree import WLSubtreeKernel
from wlkernelnn.training import score

from .about import PACKAGES, about, versions
from .options import TableOptions, parsed
from .tables import Rows, items, markdown, printed
from .trained import spread

KERNELS = ("WL subtree", "vertex histogram")
DEPTHS = tuple(range(7))
CS = tuple(10.0**k for k in range(-3, 4))
OUTER_FOLDS = 10
INNER_FOLDS = 5
# Where a support vector machine gives up: a few seconds on 4,000 graphs.
MAX_ITER = 1_000_000
# Accuracies in per cent of the WL subtree kernel: Shervashidze et al. 2011 and later surveys.
PUBLISHED = {"MUTAG": "84–90", "ENZYMES": "54", "PROTEINS": "75", "NCI1": "86"}

DEGREES = (3, 6)
# Penalties of ridge regression, in units of the mean of K(G, G).
PENALTIES = tuple(10.0 ** (k / 2) for k in range(2, -7, -1))
# Lei et al. 2017, Table 3: not the same molecules.
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


Record = dict[str, Any]


def wl_grams(data: PackedGraphs) -> list[np.ndarray]:
    """Normalised Gram matrix ``[G, G]`` of every depth, by node labels only."""
    return [WLSubtreeKernel(depth, edge_labels=False, normalize=True).gram(data) for depth in DEPTHS]


def count_right(
    gram: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, Cs: Sequence[float]
) -> tuple[np.ndarray, int]:
    """How many graphs of ``test`` a machine gets right that was fitted on ``train``, for every C.

    Args:
        gram: ``[G, G]``; y: classes ``[G]``; train, test: indices.
        Cs: Values of C.

    Returns:
        Integers ``[len(Cs)]``, and the number of machines that gave up after ``MAX_ITER`` iterations.
    """
    inside, across = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
    right, given_up = [], 0
    for C in Cs:
        machine = SVC(kernel="precomputed", C=C, max_iter=MAX_ITER).fit(inside, y[train])
        right.append((machine.predict(across) == y[test]).sum())
        given_up += int(machine.fit_status_ != 0)
    return np.array(right), given_up


def nested_fold(
    grams: Sequence[np.ndarray], y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> Record:
    """Choose depth and C by cross-validation inside ``train``, fit on it, and look at ``test`` once.

    Args:
        grams: ``[G, G]`` of every depth.
        y: Classes ``[G]``.
        train, test: Indices of the outer fold.
        seed: Seed of the inner folds.

    Returns:
        ``"right"``, ``"depth"`` and ``"C"`` of each kernel, and how many machines gave up.
    """
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    right, given_up = np.zeros((len(grams), len(CS)), dtype=np.int64), 0
    for fitted, held_out in inner.split(train, y[train]):
        for depth, gram in enumerate(grams):
            counts, stopped = count_right(gram, y, train[fitted], train[held_out], CS)
            right[depth] += counts
            given_up += stopped
    record: Record = {}
    for kernel, depths in zip(KERNELS, (len(grams), 1), strict=True):
        depth, c = divmod(int(right[:depths].argmax()), len(CS))
        counts, stopped = count_right(grams[depth], y, train, test, [CS[c]])
        record[kernel] = {"right": int(counts[0]), "depth": DEPTHS[depth], "C": CS[c]}
        given_up += stopped
    return record | {"given_up": given_up}


def cross_validate(grams: Sequence[np.ndarray], y: np.ndarray, seed: int, n_jobs: int) -> Record:
    """One repetition: accuracy of each kernel over all outer folds, and what was chosen in them."""
    start = time.perf_counter()
    outer = StratifiedKFold(OUTER_FOLDS, shuffle=True, random_state=seed)
    # libsvm works without the interpreter's lock: threads share the Grams.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # those that gave up are counted
        folds = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(nested_fold)(grams, y, train, test, seed) for train, test in outer.split(y, y)
        )
    record: Record = {
        "given_up": sum(fold["given_up"] for fold in folds),
        "seconds": time.perf_counter() - start,
    }
    for kernel in KERNELS:
        record[kernel] = {
            "accuracy": sum(fold[kernel]["right"] for fold in folds) / len(y),
            "depth": [fold[kernel]["depth"] for fold in folds],
            "C": [fold[kernel]["C"] for fold in folds],
        }
    return record


def best_ridge(
    data: PackedGraphs, split_idx: SplitIndex, degree: int
) -> tuple[dict[str, np.ndarray], Record]:
    """Ridge regression on the WL subtree kernel of a degree, with the choices that are best on ``valid``.

    Args:
        data: Graphs with one target.
        split_idx: Their parts; only ``train`` is fitted.
        degree: Iterations.

    Returns:
        Predictions of every part, ``[G, 1]``; and what was chosen, the RMSE of ``valid`` of everything that
        was tried, and the number of colours of the training part, which is that of the weights.
    """
    y = data.y.numpy().astype(np.float64)
    train, valid = split_idx["train"], split_idx["valid"]
    mean = y[train].mean()
    tried: list[Record] = []
    best: tuple[Record, dict[str, np.ndarray], int] | None = None
    for edge_labels, normalize in product((False, True), (False, True)):
        kernel = WLSubtreeKernel(degree, edge_labels=edge_labels, normalize=normalize)
        features = kernel.features(data)
        scale = features.multiply(features).sum() / len(data)
        for penalty in PENALTIES:
            ridge = Ridge(penalty * scale, fit_intercept=False, solver="sparse_cg", tol=1e-8)
            ridge.fit(features[train], y[train, 0] - mean)
            rmse = score("rmse", y[valid], ridge.predict(features[valid])[:, None] + mean)
            record = {"edge_labels": edge_labels, "normalize": normalize, "penalty": penalty, "valid": rmse}
            tried.append(record)
            if best is None or rmse < best[0]["valid"]:
                predictions = {
                    part: ridge.predict(features[index])[:, None] + mean for part, index in split_idx.items()
                }
                best = record, predictions, len(np.unique(features[train].indices))
    assert best is not None
    chosen, predictions, colours = best
    return predictions, {"chosen": chosen, "tried": tried, "colours": colours}


def ridge_baseline(data: PackedGraphs, split_idx: SplitIndex, degree: int) -> Record:
    """The record of :func:`best_ridge`: RMSE and MAE of ``test``, and what was chosen and tried."""
    start = time.perf_counter()
    predictions, found = best_ridge(data, split_idx, degree)
    y = data.y.numpy().astype(np.float64)
    test, mean = y[split_idx["test"]], y[split_idx["train"]].mean()
    return {
        "degree": degree,
        **{metric: score(metric, test, predictions["test"]) for metric in ("rmse", "mae")},
        "mean_rmse": score("rmse", test, np.full_like(test, mean)),
        **found,
        "seconds": time.perf_counter() - start,
    }


class _Progress:
    """Finished parts of a run, on disk, so that an interrupted run goes on.

    Args:
        path: Where they lie; ``None`` for a run that keeps nothing.
        protocol: What all parts of a table have in common.

    Raises:
        ValueError: The file holds parts of another protocol: says what is not the same.
    """

    def __init__(self, path: Path | None, protocol: Record) -> None:
        self.path = path
        self.protocol = protocol
        self.done: dict[str, Record] = {}
        if path is None or not path.is_file():
            return
        before = json.loads(path.read_text(encoding="utf-8"))
        for name, here in protocol.items():
            if (there := before["protocol"].get(name, "unknown")) != here:
                raise ValueError(
                    f"{path}: holds parts of a run of {name} {there}, and this is {here}: delete it, or name "
                    f"another --output-dir, since a table is of one {name}"
                )
        self.done = before["done"]

    def __contains__(self, part: str) -> bool:
        return part in self.done

    def __getitem__(self, part: str) -> Record:
        return self.done[part]

    def __setitem__(self, part: str, record: Record) -> None:
        self.done[part] = record
        if self.path is not None:
            write_text(self.path, json.dumps({"protocol": self.protocol, "done": self.done}))

    def finish(self) -> None:
        """All is in the table."""
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


def classify(
    name: str, data: PackedGraphs, options: GraphKernelOptions, progress: _Progress, console: Console
) -> Record:
    """Repeated nested cross-validation on a TU data set."""
    y = data.y.numpy()[:, 0].astype(np.int64)
    parts = [f"{name} {content(data)}/{repetition}" for repetition in range(options.repetitions)]
    grams: list[np.ndarray] = []
    for seed, part in enumerate(parts):
        if part in progress:
            continue
        grams = grams or wl_grams(data)
        progress[part] = record = cross_validate(grams, y, seed, options.n_jobs)
        accuracies = ", ".join(f"{k} {record[k]['accuracy']:.4f}" for k in KERNELS)
        console.print(f"{name}, repetition {seed}: {accuracies} ({record['seconds']:.0f} s)", highlight=False)
    return {
        "data": name,
        "graphs": len(data),
        "repetitions": [progress[part] for part in parts],
        "published": PUBLISHED.get(name, ""),
    }


def regress(data: PackedGraphs, progress: _Progress, console: Console) -> list[Record]:
    """Ridge regression on the cep molecules, for both degrees."""
    split_idx = random_split(len(data), seed=0)
    parts = {degree: f"cep {content(data)}/{degree}" for degree in DEGREES}
    for degree, part in parts.items():
        if part not in progress:
            progress[part] = record = ridge_baseline(data, split_idx, degree)
            console.print(
                f"cep, degree {degree}: RMSE {record['rmse']:.4f} ({record['seconds']:.0f} s)",
                highlight=False,
            )
    return [
        {"data": "cep", "graphs": len(data), **progress[part], "published": PUBLISHED_CEP[degree]}
        for degree, part in parts.items()
    ]


def classification_rows(records: Sequence[Record]) -> Rows:
    """The table of accuracies in per cent, its heading first."""
    rows = [("data", "kernel", "accuracy", "published", "depth", "C", "gave up", "seconds")]
    for record in records:
        repetitions = record["repetitions"]
        for kernel in KERNELS:
            accuracy = [100 * repetition[kernel]["accuracy"] for repetition in repetitions]
            depth, C = (
                Counter(value for repetition in repetitions for value in repetition[kernel][key]).most_common(
                    1
                )
                for key in ("depth", "C")
            )
            ours = kernel == KERNELS[0]
            rows.append(
                (
                    record["data"],
                    kernel,
                    spread(accuracy),
                    record["published"] if ours else "",
                    str(depth[0][0]),
                    f"{C[0][0]:g}",
                    # Both kernels are chosen from the same machines.
                    f"{sum(repetition['given_up'] for repetition in repetitions):,}" if ours else "",
                    f"{sum(repetition['seconds'] for repetition in repetitions):.0f}" if ours else "",
                )
            )
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
    console = Console()
    regressions = regress(data["cep"], progress, console) if "cep" in data else []
    classifications = [
        classify(name, graphs, options, progress, console) for name, graphs in data.items() if name != "cep"
    ]

    title = f"Classical baselines ({known['mode']})"
    text = f"# {title}\n"
    tables = {
        "Accuracy in per cent, nested cross-validation": classification_rows(classifications),
        "cep: ridge regression on the WL subtree kernel, test part": regression_rows(regressions),
    }
    for heading, rows in tables.items():
        if len(rows) > 1:
            text += f"\n{heading}\n\n{markdown(rows)}"
            console.print(printed(rows, f"{heading} ({known['mode']})"))
    write_text(stem.with_suffix(".md"), f"{text}\n{LEGEND}\n{items(known)}")
    result = {**known, "protocol": protocol, "classification": classifications, "regression": regressions}
    write_text(stem.with_suffix(".json"), json_text(result, indent=2))
    progress.finish()
    console.print(f"Written to {stem}.md and {stem.name}.json.")
