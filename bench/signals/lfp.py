"""Classification of brain signals of subjects never seen: Table 4 of Liang et al. 2019 on public data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Cell, Record
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Run, Trial
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.harness.provenance import digest
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, kept
from wlkernelnn.datasets import Signals, SubjectSplit, load_signals
from wlkernelnn.sequence import RKM, StringNetwork
from wlkernelnn.training import ClassifierOptions, FitResult, class_probabilities, fit_classifier
from wlkernelnn.utils.files import atomic_path

from .lfp_baselines import fit_bands, fit_majority

NGRAM, FILTERS = 40, 30
RECIPE: dict[str, Any] = {"epochs": 20, "steps_per_epoch": 100, "batch_size": 10, "lr": 2e-3, "balance": True}
FORGET_BIAS = 1.0
QUICK_SUBJECTS, QUICK_STEPS = 2, 3


# Published: mean accuracy in per cent over the mice of Table 4.
MODELS = {
    "majority": Row("majority class", trained=False),
    "bands": Row("powers of frequency bands, logistic regression", trained=False),
    "lstm": Row("n-gram LSTM", "80.24"),
    "rkm_lstm": Row("RKM-LSTM", "79.02"),
    "rkm_cifg": Row("RKM-CIFG", "77.58"),
    "linear_gated": Row("Linear Kernel w/ o_t", "76.11"),
    "linear": Row("Linear Kernel", "73.13"),
    "gated_cnn": Row("Gated CNN", "76.02"),
    "cnn": Row("CNN", "73.40"),
}
FIXED = {"majority": fit_majority, "bands": fit_bands}

LEGEND = f"""* accuracy: per cent of the trials of a subject that was left out, mean over the subjects; ± is
  the standard deviation over the seeds. "worst" and "best": the subjects with the fewest and the most right.
* ROC-AUC: of the probabilities of all trials, each given when its subject was left out, pooled over the
  subjects; the mean over the classes, each against the others. Guessing has 0.5.
* All classes count alike in training, by weights in the loss. Where all trials of a subject are of one class,
  the others hold fewer of this class than of the rest, and models that go by how frequent classes are do
  worse than guessing: "majority class" always says the most frequent class of the training trials, with their
  fractions for probabilities.
* Each network is a layer of {FILTERS} Sync filters of {NGRAM} samples, one set for each gate, with layer
  norm and a forget bias of {FORGET_BIAS:g} (our choice), the mean over the samples, and a linear layer.
  Channels are scaled by mean and standard deviation of the training subjects. Nothing is chosen by the
  subject that is left out.
* Powers of frequency bands: logarithms of the mean power of every channel in each octave of frequencies,
  scaled, and scikit-learn's logistic regression: what a subject's trials tell of others' without a network.
* The paper does not say how it pooled and trained. Here as the authors' SyncNet: Adam 2e-3, 2,000 batches of
  10, gradient norm at most 5; an epoch is 100 batches.
* parameters: of networks those of the encoder, without the linear layer behind it.
* "diverged at epoch k", counted from 1: the loss or the score was no number then. Such a run is over, and
  nothing of it is scored.
* "epochs": training so far, and the whole recipe. **A row with fewer epochs or subjects is not a result
  yet.** A seed with fewer subjects than another is left out.
* mice: Table 4, local field potentials of 29 mice in three states. They were never published; figures on
  other signals, as here, do not compare with these.
"""


@dataclass
class LFPOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: majority, bands, lstm, rkm_lstm, rkm_cifg, linear_gated, linear, gated_cnn, cnn;
            by default all.
        data: The signals: eeg_alcohol, or an .npz file with arrays X (trials, channels, time), y and subject.
    """

    run_dir: Path = Path("runs/lfp")
    data: str = "eeg_alcohol"


def pages(options: LFPOptions) -> Iterator[Page]:
    """The table of the signals."""
    names = chosen("models", options.models, MODELS)
    signals = load_signals(options.data, options.root)
    splits = list(signals.leave_one_subject_out())[: QUICK_SUBJECTS if options.quick else None]
    content = digest(signals.x, signals.y, signals.subject)
    # Other signals have a table of their own.
    stem = "lfp" if options.data == LFPOptions.data else f"lfp_{signals.name}"
    notes = f"![Accuracy of every subject]({stem}.png)\n\n{LEGEND}{_of_signals(signals)}"
    in_order = signals.subjects.index

    def same_data(run: Record) -> bool:
        return run["data"] == signals.name and run.get("content", content) == content

    trials = (
        trial(name, seed, index, split, signals, content, options)
        for seed in options.all_seeds
        for name in names
        if not seed or MODELS[name].trained
        for index, split in enumerate(splits)
    )
    table = replace(TABLE, notes=notes, which=lambda run: (run["seed"], in_order(run["subject"])))
    yield Page(table, trials, stem, same_data, draw=plot)


def build(name: str, num_channels: int, num_classes: int) -> StringNetwork:
    """The network of a row."""
    encoder = RKM(num_channels, FILTERS, name, NGRAM, filters="sync", forget_bias=FORGET_BIAS)
    return StringNetwork(encoder, num_classes)


def trial(
    name: str, seed: int, index: int, split: SubjectSplit, signals: Signals, content: str, options: LFPOptions
) -> Run:
    """A run of a row: a model is trained on all subjects but one (of that index), and scored on that one."""
    of_data = f"{signals.name}_{content}"
    names = (options.matmul_precision, of_data, name, f"subject_{index}", f"seed_{seed}")
    says = {
        "model": name,
        "data": signals.name,
        "content": content,
        "subject": split.subject,
        "num_subjects": len(signals.subjects),
        "y": signals.y[split.test].tolist(),
        "published": MODELS[name].published,
    }

    def scores(probabilities: np.ndarray) -> Record:
        right = probabilities.argmax(1) == signals.y[split.test]
        return {"test_accuracy": float(right.mean()), "probabilities": probabilities.tolist()}

    def baseline(known: Record) -> Record:
        start = time.perf_counter()
        probabilities, parameters = FIXED[name](split, signals)
        made = {"parameters": parameters, "recipe": {"epochs": 0}, "epochs": 0, "stopped": True, "seed": seed}
        return {**made, **scores(probabilities), "seconds": time.perf_counter() - start, **says, **known}

    if not MODELS[name].trained:
        return lambda options, known: kept(options.folder(*names), 0, partial(baseline, known), known)
    recipe = ClassifierOptions(**RECIPE, **options.of_run(seed))
    if options.quick:
        recipe = replace(recipe, steps_per_epoch=QUICK_STEPS)

    def fit(network: StringNetwork, recipe: ClassifierOptions, **where: Any) -> FitResult:
        strings = signals.strings(split.train, scaled_by=split.train)
        return fit_classifier(network, strings, None, recipe, **where)

    def score(network: StringNetwork, _: FitResult) -> Record:
        strings = signals.strings(split.test, scaled_by=split.train)
        return scores(class_probabilities(network, strings).numpy())

    def count(network: StringNetwork) -> Record:
        return {"parameters": count_parameters(network.encoder)}

    make = partial(build, name, signals.x.shape[1], len(signals.classes))
    return Trial(names, recipe, make, fit, score, says, count)


def _by(part: str, runs: Iterable[Record]) -> dict[Any, list[Record]]:
    """Runs by one of their entries."""
    found: dict[Any, list[Record]] = {}
    for run in runs:
        found.setdefault(run[part], []).append(run)
    return found


def _whole_seeds(runs: Sequence[Record]) -> list[Record]:
    """The runs of a model without those of a seed that lacks subjects, unless there is no other."""
    of_seeds = _by("seed", runs).values()
    most = max(map(len, of_seeds))
    return [run for of_seed in of_seeds if len(of_seed) == most for run in of_seed]


def _mean_accuracies(part: str, runs: Sequence[Record]) -> dict[Any, float]:
    return {
        name: 100 * float(np.mean([run["test_accuracy"] for run in own]))
        for name, own in _by(part, cells.survivors(runs)).items()
    }


def by_subject(runs: Sequence[Record]) -> dict[str, float]:
    """Accuracy in per cent of every subject, mean over the seeds."""
    return _mean_accuracies("subject", runs)


def pooled_roc_auc(records: Sequence[Record]) -> float | None:
    """Of all trials at once, the mean over the classes; ``None`` where one of them has no trial."""
    if not records:
        return None
    y = np.concatenate([record["y"] for record in records])
    probabilities = np.concatenate([record["probabilities"] for record in records])
    if len(np.unique(y)) < probabilities.shape[1]:
        return None
    return float(np.mean([roc_auc_score(y == k, of_class) for k, of_class in enumerate(probabilities.T)]))


def plot(records: Sequence[Record], path: Path) -> None:
    """Write a PNG with the accuracy of every model for every subject, as the paper's Figure 4."""
    subjects, models = list(by_subject(records)), _by("model", records)
    figure = Figure(figsize=(max(6, 0.6 * len(subjects)), 4), layout="tight")
    axis = figure.subplots()
    for i, (name, runs) in enumerate(models.items()):
        values = by_subject(runs)
        # Side by side: few trials of a subject have few possible accuracies.
        places = [subjects.index(subject) + 0.1 * (i - (len(models) - 1) / 2) for subject in values]
        title = MODELS[name].title
        axis.plot(places, list(values.values()), marker="o", markersize=4, linewidth=0.8, label=title)
    axis.set(ylim=(-5, 105), ylabel="accuracy, %", xlabel="subject left out")
    axis.set_xticks(range(len(subjects)), subjects, rotation=60, ha="right", fontsize=7)
    axis.grid(axis="y", linewidth=0.3)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _of_signals(signals: Signals) -> str:
    trials, channels, length = signals.x.shape
    counts = np.bincount(signals.y, minlength=len(signals.classes))
    named = ", ".join(f"{count} {name}" for name, count in zip(signals.classes, counts, strict=True))
    pure = sum(len(set(signals.y[signals.subject == subject])) == 1 for subject in signals.subjects)
    note = f"; {signals.note}" if signals.note else ""
    return (
        f"* {signals.name}: {trials} trials ({named}) of {len(signals.subjects)} subjects, {pure} of whom "
        f"have trials of one class alone;\n  {channels} channels, {length} samples{note}\n"
    )


def _accuracy(runs: list[Record]) -> str:
    return cells.cell(list(_mean_accuracies("seed", runs).values()), runs)


def _area(runs: list[Record]) -> str:
    areas = map(pooled_roc_auc, _by("seed", cells.survivors(runs)).values())
    known = [area for area in areas if area is not None]
    return cells.spread(known, 3) if known else "–"


def _of_subjects(which: Callable[[Sequence[float]], float]) -> Cell:
    return lambda runs: f"{which(list(found.values())):.0f}" if (found := by_subject(runs)) else "–"


def _if_trained(cell: Cell) -> Cell:
    return lambda runs: cell(runs) if MODELS[runs[0]["model"]].trained else "–"


TABLE = Table(
    "Signals, one subject left out",
    [
        ("model", lambda runs: MODELS[runs[0]["model"]].title),
        ("parameters", lambda runs: f"{runs[0]['parameters']:,}"),
        ("seeds", lambda runs: str(len({run["seed"] for run in runs}))),
        ("epochs", _if_trained(lambda runs: f"{cells.epochs_of(runs)} of {runs[0]['recipe']['epochs']}")),
        ("subjects", lambda runs: f"{len({run['subject'] for run in runs})} of {runs[0]['num_subjects']}"),
        ("accuracy", _accuracy),
        ("ROC-AUC", _area),
        ("worst", _of_subjects(min)),
        ("best", _of_subjects(max)),
        ("mice", cells.first("published")),
        ("s / epoch", _if_trained(lambda runs: cells.seconds_per_epoch(runs, 1))),
    ],
    lambda run: (list(MODELS).index(run["model"]),),
    counted=_whole_seeds,
)
main = Experiment("lfp", __doc__, LFPOptions, pages).main
