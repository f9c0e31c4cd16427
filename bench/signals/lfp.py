"""Classification of brain signals of subjects never seen: Table 4 of Liang et al. 2019 on public data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from wlkernelnn.bench.harness.digest import digest
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.outcomes import cell, epochs_of, outcome, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.harness.runs import Place, Runs
from wlkernelnn.bench.harness.trained import Record, TrainedOptions, about_training, chosen, kept, spread
from wlkernelnn.datasets import Signals, SubjectSplit, load_signals
from wlkernelnn.sequence import RKM, StringClassifier
from wlkernelnn.training import ClassifierOptions, FitResult, class_probabilities, fit_classifier
from wlkernelnn.utils.files import atomic_path

from .lfp_baselines import fit_bands, fit_majority, scores_of

NGRAM, FILTERS = 40, 30
RECIPE: dict[str, Any] = {"epochs": 20, "steps_per_epoch": 100, "batch_size": 10, "lr": 2e-3, "balance": True}
FORGET_BIAS = 1.0
QUICK_SUBJECTS, QUICK_STEPS = 2, 3


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        published: Mean accuracy in per cent over the mice of Table 4.
        trained: Whether it is a network, which seeds and epochs matter to.
    """

    title: str
    published: str = "–"
    trained: bool = True


MODELS = {
    "majority": Model("majority class", trained=False),
    "bands": Model("powers of frequency bands, logistic regression", trained=False),
    "lstm": Model("n-gram LSTM", "80.24"),
    "rkm_lstm": Model("RKM-LSTM", "79.02"),
    "rkm_cifg": Model("RKM-CIFG", "77.58"),
    "linear_gated": Model("Linear Kernel w/ o_t", "76.11"),
    "linear": Model("Linear Kernel", "73.13"),
    "gated_cnn": Model("Gated CNN", "76.02"),
    "cnn": Model("CNN", "73.40"),
}

TITLE = "Signals, one subject left out"
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


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``lfp.md``, ``lfp.json`` and a plot by subject, ``lfp.png``.

    Of a file of signals they are called ``lfp_<its name>``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("lfp", __doc__, LFPOptions, argv)
    names = chosen("models", options.models, MODELS)
    signals = load_signals(options.data, options.root)
    splits = list(signals.leave_one_subject_out())[: QUICK_SUBJECTS if options.quick else None]
    known = about_training("lfp", argv, options)
    # Other signals have a table of their own.
    stem = options.output_dir / ("lfp" if options.data == LFPOptions.data else f"lfp_{signals.name}")
    notes = f"![Accuracy of every subject]({stem.name}.png)\n\n{LEGEND}{_of_signals(signals)}"
    content = digest(signals.x, signals.y, signals.subject)

    def stays(run: Record) -> bool:
        return run["data"] == signals.name and run.get("content", content) == content

    def place(run: Record) -> Place:
        model, subject = list(MODELS).index(run["model"]), signals.subjects.index(run["subject"])
        return (model,), (run["seed"], subject)

    runs = Runs(stem, known, place, stays)
    made = (
        evaluate(name, seed, number, split, signals, content, options, known)
        for seed in range(1 if options.quick else options.seeds)
        for name in names
        if not seed or MODELS[name].trained
        for number, split in enumerate(splits)
    )
    plot(runs.fill(made, TITLE, rows, notes), stem.with_suffix(".png"))


def build(name: str, num_channels: int, num_classes: int) -> StringClassifier:
    """The network of a row."""
    encoder = RKM(num_channels, FILTERS, name, NGRAM, filters="sync", forget_bias=FORGET_BIAS)
    return StringClassifier(encoder, num_classes)


def evaluate(
    name: str,
    seed: int,
    number: int,
    split: SubjectSplit,
    signals: Signals,
    content: str,
    options: LFPOptions,
    known: dict[str, str | int],
) -> Record:
    """Train a model on all subjects but one (of that number), or go on with it, and score it on that one."""
    model = MODELS[name]
    of_data = f"{signals.name}_{content}"
    directory = options.folder(options.matmul_precision, of_data, name, f"subject_{number}", f"seed_{seed}")
    epochs = options.limit(RECIPE["epochs"]) if model.trained else 0

    def fit() -> Record:
        if model.trained:
            found = _fit_network(name, seed, epochs, split, signals, options, directory)
        else:
            found = (fit_bands if name == "bands" else fit_majority)(split, signals)
        return found | {
            "model": name,
            "data": signals.name,
            "content": content,
            "subject": split.subject,
            "num_subjects": len(signals.subjects),
            "seed": seed,
            "y": signals.y[split.test].tolist(),
            "published": model.published,
            **known,
        }

    return kept(directory, epochs, fit, known)


def _fit_network(
    name: str,
    seed: int,
    epochs: int,
    split: SubjectSplit,
    signals: Signals,
    options: LFPOptions,
    directory: Path,
) -> Record:
    recipe = ClassifierOptions(
        **RECIPE,
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    if options.quick:
        recipe = replace(recipe, steps_per_epoch=QUICK_STEPS)
    seen = split.train
    torch.manual_seed(seed)
    network = build(name, signals.x.shape[1], len(signals.classes))
    limited = replace(recipe, epochs=epochs)

    def fit() -> FitResult:
        strings = signals.strings(seen, scaled_by=seen)
        return fit_classifier(network, strings, None, limited, directory=directory, resume=True)

    def scores(fitted: FitResult) -> Record:
        strings = signals.strings(split.test, scaled_by=seen)
        return scores_of(class_probabilities(network, strings).numpy(), signals.y[split.test])

    return {
        "parameters": count_parameters(network.encoder),
        "recipe": asdict(recipe),
        **outcome(network, options.accelerator, recipe.epochs, fit, scores),
    }


COLUMNS = (
    "model",
    "parameters",
    "seeds",
    "epochs",
    "subjects",
    "accuracy",
    "ROC-AUC",
    "worst",
    "best",
    "mice",
    "s / epoch",
)


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per model, over subjects and seeds."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for name in dict.fromkeys(record["model"] for record in records):
        of_model = [record for record in records if record["model"] == name]
        first, trained = of_model[0], MODELS[name].trained
        of_model = _whole_seeds(of_model)
        seeds = list(dict.fromkeys(record["seed"] for record in of_model))
        subjects = by_subject(of_model)
        of_seed = [[r for r in survivors(of_model) if r["seed"] == seed] for seed in seeds]
        means = [100 * np.mean([r["test_accuracy"] for r in found]) for found in of_seed if found]
        areas = [area for found in of_seed if (area := pooled_roc_auc(found)) is not None]
        out.append(
            (
                MODELS[name].title,
                f"{first['parameters']:,}",
                str(len(seeds)),
                f"{epochs_of(of_model)} of {first['recipe']['epochs']}" if trained else "–",
                f"{len({record['subject'] for record in of_model})} of {first['num_subjects']}",
                cell(means, of_model),
                spread(areas, 3) if areas else "–",
                f"{min(subjects.values()):.0f}" if subjects else "–",
                f"{max(subjects.values()):.0f}" if subjects else "–",
                first["published"],
                seconds_per_epoch(of_model, 1) if trained else "–",
            )
        )
    return out


def _whole_seeds(records: Sequence[Record]) -> list[Record]:
    """The runs of a model without those of a seed that lacks subjects, unless there is no other."""
    read = Counter(record["seed"] for record in records)
    most = max(read.values())
    return [record for record in records if read[record["seed"]] == most]


def by_subject(records: Sequence[Record]) -> dict[str, float]:
    """Accuracy in per cent of every subject, mean over the seeds."""
    found: dict[str, list[float]] = {}
    for record in survivors(records):
        found.setdefault(record["subject"], []).append(100 * record["test_accuracy"])
    return {subject: float(np.mean(values)) for subject, values in found.items()}


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
    matplotlib.use("Agg")
    from matplotlib import pyplot

    subjects = list(by_subject(records))
    names = list(dict.fromkeys(record["model"] for record in records))
    figure, axis = pyplot.subplots(figsize=(max(6, 0.6 * len(subjects)), 4))
    for i, name in enumerate(names):
        values = by_subject([record for record in records if record["model"] == name])
        # Side by side: few trials of a subject have few possible accuracies.
        places = [subjects.index(subject) + 0.1 * (i - (len(names) - 1) / 2) for subject in values]
        axis.plot(
            places, list(values.values()), marker="o", markersize=4, linewidth=0.8, label=MODELS[name].title
        )
    axis.set(ylim=(-5, 105), ylabel="accuracy, %", xlabel="subject left out")
    axis.set_xticks(range(len(subjects)), subjects, rotation=60, ha="right", fontsize=7)
    axis.grid(axis="y", linewidth=0.3)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    pyplot.close(figure)


def _of_signals(signals: Signals) -> str:
    trials, channels, length = signals.x.shape
    counts = np.bincount(signals.y, minlength=len(signals.classes))
    named = ", ".join(f"{count} {name}" for name, count in zip(signals.classes, counts, strict=True))
    pure = sum(len(set(signals.y[signals.subject == subject])) == 1 for subject in signals.subjects)
    return (
        f"* {signals.name}: {trials} trials ({named}) of {len(signals.subjects)} subjects, {pure} of whom "
        f"have trials of one class alone;\n  {channels} channels, {length} samples"
        f"{'; ' + signals.note if signals.note else ''}\n"
    )
