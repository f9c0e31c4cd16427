"""Classification of brain signals of subjects never seen: Table 4 of Liang et al. 2019 on public data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import Signals, SubjectSplit, load_signals
from wlkernelnn.files import atomic_path
from wlkernelnn.sequence import RKM, StringClassifier
from wlkernelnn.training import ClassifierOptions, accuracy, fit_classifier

from .about import about
from .trained import Record, TrainedOptions, chosen, kept, print_table, spread, write_results

NGRAM, FILTERS = 40, 30
RECIPE: dict[str, Any] = {"epochs": 20, "steps_per_epoch": 100, "batch_size": 10, "lr": 2e-3}
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
* Each network is a layer of {FILTERS} Sync filters of {NGRAM} samples, one set for each gate, with layer
  norm, the mean over the samples, and a linear layer. Channels are scaled by mean and standard deviation of
  the training subjects. Nothing is chosen by the subject that is left out.
* Powers of frequency bands: logarithms of the mean power of every channel in each octave of frequencies,
  scaled, and scikit-learn's logistic regression: what a subject's trials tell of others' without a network.
* The paper does not say how it pooled and trained. Here as the authors' SyncNet: Adam 2e-3, 2,000 batches of
  10; an epoch is 100 batches.
* "epochs": training so far, and the whole recipe. **A row with fewer epochs or subjects is not a result
  yet.**
* mice: Table 4, local field potentials of 29 mice in three states. They were never published; figures on
  other signals, as here, do not compare with these.
"""


@dataclass
class LFPOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: bands, lstm, rkm_lstm, rkm_cifg, linear_gated, linear, gated_cnn, cnn; by default
            all.
        data: The signals: eeg_alcohol, or an .npz file with arrays X (trials, channels, time), y and subject.
    """

    run_dir: Path = Path("runs/lfp")
    data: str = "eeg_alcohol"


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``lfp.md``, ``lfp.json`` and a plot by subject, ``lfp.png``.

    Args:
        argv: Arguments; default the command line's.
    """
    parser = verb_parser("benchmark lfp", __doc__)
    add_options(parser, "Options", LFPOptions)
    options = LFPOptions(**pick(parser.parse_args(argv), LFPOptions))
    names = chosen("models", options.models, MODELS)
    signals = load_signals(options.data, options.root)
    splits = list(signals.leave_one_subject_out())[: QUICK_SUBJECTS if options.quick else None]
    known = about("lfp", argv, options.quick, ("pytorch-lightning",))
    stem = options.output_dir / "lfp"
    records: list[Record] = []
    for seed in range(1 if options.quick else options.seeds):
        for name in names:
            if seed and not MODELS[name].trained:
                continue
            for number, split in enumerate(splits):
                records.append(evaluate(name, seed, number, split, signals, options, known))
                # Rows appear as they are there: the rest may take hours.
                write_results(stem, TITLE, rows(records), LEGEND + _of_signals(signals), known, records)
            plot(records, stem.with_suffix(".png"))
    print_table(TITLE, rows(records), known)


def build(name: str, num_channels: int, num_classes: int) -> StringClassifier:
    """The network of a row."""
    encoder = RKM(num_channels, FILTERS, name, NGRAM, filters="sync", forget_bias=1.0)
    return StringClassifier(encoder, num_classes)


def evaluate(
    name: str,
    seed: int,
    number: int,
    split: SubjectSplit,
    signals: Signals,
    options: LFPOptions,
    known: dict[str, str | int],
) -> Record:
    """Train a model on all subjects but one (of that number), or go on with it, and score it on that one."""
    model = MODELS[name]
    directory = options.folder(signals.name, name, f"subject_{number}", f"seed_{seed}")
    epochs = options.limit(RECIPE["epochs"]) if model.trained else 0

    def fit() -> Record:
        found = (
            _fit_network(name, seed, epochs, split, signals, options, directory)
            if model.trained
            else fit_bands(split, signals)
        )
        return found | {
            "model": name,
            "data": signals.name,
            "subject": split.subject,
            "num_subjects": len(signals.subjects),
            "seed": seed,
            "num_trials": len(split.test),
            "published": model.published,
            **known,
        }

    return kept(directory, epochs, fit)


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
    fitted = fit_classifier(
        network, signals.strings(seen, scaled_by=seen), None, limited, directory=directory, resume=True
    )
    return {
        "parameters": sum(weight.numel() for weight in network.encoder.parameters()),
        "recipe": asdict(recipe),
        "epochs": len(fitted.history),
        "stopped": len(fitted.history) == recipe.epochs,
        "test_accuracy": accuracy(network, signals.strings(split.test, scaled_by=seen)),
        "seconds": sum(fitted.epoch_seconds),
        "history": fitted.history,
    }


def fit_bands(split: SubjectSplit, signals: Signals) -> Record:
    """Logistic regression on the powers of frequency bands."""
    features, start = band_powers(signals.x), time.perf_counter()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    pipeline.fit(features[split.train], signals.y[split.train])
    regression = pipeline[-1]
    return {
        "parameters": regression.coef_.size + regression.intercept_.size,
        "recipe": {"epochs": 0},
        "epochs": 0,
        "stopped": True,
        "test_accuracy": float(pipeline.score(features[split.test], signals.y[split.test])),
        "seconds": time.perf_counter() - start,
    }


def band_powers(x: np.ndarray) -> np.ndarray:
    """Logarithms of the mean powers in the octaves of frequencies, ``[trials, channels × octaves]``.

    Args:
        x: ``[trials, channels, time]``. An octave is from 2^k to below 2^(k + 1) oscillations in that time.
    """
    powers = np.square(np.abs(np.fft.rfft(x.astype(np.float64), axis=2)))
    starts = 2 ** np.arange(int(np.log2(powers.shape[2] - 1)) + 1)
    octaves = [band.mean(2) for band in np.split(powers[:, :, 1:], starts[1:] - 1, axis=2)]
    floor = np.finfo(np.float64).tiny  # a channel may be silent
    return np.log(np.concatenate(octaves, 1) + floor)


COLUMNS = (
    "model",
    "parameters",
    "seeds",
    "epochs",
    "subjects",
    "accuracy",
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
        seeds = list(dict.fromkeys(record["seed"] for record in of_model))
        means = [100 * np.mean([r["test_accuracy"] for r in of_model if r["seed"] == seed]) for seed in seeds]
        subjects = by_subject(of_model)
        out.append(
            (
                MODELS[name].title,
                f"{first['parameters']:,}",
                str(len(seeds)),
                f"{min(r['epochs'] for r in of_model)} of {first['recipe']['epochs']}" if trained else "–",
                f"{len(subjects)} of {first['num_subjects']}",
                spread(means),
                f"{min(subjects.values()):.0f}",
                f"{max(subjects.values()):.0f}",
                first["published"],
                f"{np.mean([r['seconds'] / r['epochs'] for r in of_model]):.1f}" if trained else "–",
            )
        )
    return out


def by_subject(records: Sequence[Record]) -> dict[str, float]:
    """Accuracy in per cent of every subject, mean over the seeds."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["subject"], []).append(100 * record["test_accuracy"])
    return {subject: float(np.mean(values)) for subject, values in found.items()}


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
    return (
        f"* {signals.name}: {trials} trials ({named}) of {len(signals.subjects)} subjects, {channels} "
        f"channels, {length} samples; the most frequent class has {100 * counts.max() / trials:.1f} %\n"
    )
