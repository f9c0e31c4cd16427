"""Sentiment of sentences: Table 2 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wlkernelnn.bench.harness.digest import digest_of_strings
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.outcomes import cell, outcome, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.runs import Place, Runs, on_same_data
from wlkernelnn.bench.harness.trained import (
    Record,
    TrainedOptions,
    about_training,
    chosen,
    glove_file,
    kept,
    of_seeds,
)
from wlkernelnn.datasets import LabelledStrings, WordVectors, load_glove, load_sst
from wlkernelnn.sequence import StringKernelNetwork, TextClassifier
from wlkernelnn.training import ClassifierOptions, FitResult, accuracy, fit_classifier

from .lei_networks import release_init

CHANNELS, LAYERS, DROPOUT = 200, 3, 0.35
LABELS = ("fine", "binary")
QUICK_STRINGS = 3_000


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        published: Test accuracy in per cent of both tasks: the best of five runs in the paper, and in
            brackets the mean of the release's notes.
        layer: Options of the layers beside those that all have.
    """

    title: str
    published: dict[str, str]
    layer: dict[str, Any]


# Section 6.2 and the release: n = 2, c_1 + c_2, ReLU, normalised; its gate sees x and h.
_RELEASE = {"ngram": 2, "readout": "sum", "act": "relu"}
MODELS = {
    "constant": Model("λ = 0.5", {"fine": "51.2", "binary": "88.6"}, {"decay": 0.5}),
    "gated-x": Model("λ gated by x", {"fine": "–", "binary": "–"}, {"decay": "gated"}),
    "gated-xh": Model(
        "λ gated by x and h",
        {"fine": "53.2 (52.4 ± 0.5)", "binary": "89.9 (89.6 ± 0.3)"},
        {"decay": "gated", "feedback": True},
    ),
}
# Variational dropout of the release.
RNN_DROPOUT = {"fine": 0.2, "binary": 0.1}

TITLE = "Stanford Sentiment Treebank"
LEGEND = f"""* Test accuracy in per cent, mean and standard deviation over the seeds. The weights are those of
  the epoch with the best accuracy on the validation sentences; the test part is scored once, with these.
* Trained on all distinct phrases of the training trees, validated and tested on whole sentences; "binary"
  leaves neutral ones out. Tokens are lower-cased.
* Recipe of the authors' release: {LAYERS} layers of {CHANNELS}, n = 2, c_1 + c_2, ReLU, normalised; means
  over the tokens, all layers side by side; Adam 1e-3, times 0.95 every epoch, batches of 32, dropout
  {DROPOUT}, variational dropout {RNN_DROPOUT["fine"]} (fine) and {RNN_DROPOUT["binary"]} (binary), 1e-6 times
  the squared weights in the loss, at most 200 epochs, stopped after 20 without a better validation accuracy.
  Word vectors are divided by their norms and fixed; tokens without one are 0. The release's batches hold
  phrases of one length, and it stops at once where accuracy falls 5 points below its best; ours don't.
* "epochs" are those that were trained, "stopped" whether the recipe's own end was reached. **A row that was
  not stopped by the recipe is not a result yet.**
* published: the paper's best of five runs, in brackets the means of the release's notes, with 300-dimensional
  vectors. Compare means with means.
"""


@dataclass
class SSTOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: constant, gated-x, gated-xh; by default all.
        labels: Which tasks: fine, binary; by default both.
        glove: File of word vectors in GloVe's format, of any width.
    """

    seeds: int = 5
    run_dir: Path = Path("runs/sst")
    labels: list[str] | None = None
    glove: Path | None = None


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``sst.md`` and ``sst.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("sst", __doc__, SSTOptions, argv)
    names, tasks = chosen("models", options.models, MODELS), chosen("labels", options.labels, LABELS)
    glove = options.glove or glove_file(options.root)
    known, stem = about_training("sst", argv, options), options.output_dir / "sst"
    loaded = {task: _load(task, glove, options) for task in tasks}
    contents = {task: digest_of_strings(data, vectors.weight) for task, (data, vectors) in loaded.items()}
    runs = Runs(stem, known, place, on_same_data("labels", contents))
    made = (
        evaluate(name, task, seed, data, vectors, contents[task], options, known)
        for task, (data, vectors) in loaded.items()
        for seed in range(1 if options.quick else options.seeds)
        for name in names
    )
    runs.fill(made, TITLE, rows, lambda records: _notes(records[0]))


def _load(task: str, glove: Path, options: SSTOptions) -> tuple[LabelledStrings, WordVectors]:
    data = load_sst(options.root, labels=task)  # type: ignore[arg-type]  # checked by now
    vectors = load_glove(glove, data.vocabulary, unit_norm=True)
    if options.quick:
        data = replace(data, train=data.train.select(np.arange(QUICK_STRINGS)))
    return data, vectors


def place(run: Record) -> Place:
    """Where a run stands in the table."""
    return (LABELS.index(run["labels"]), list(MODELS).index(run["model"])), (run["seed"],)


def build(name: str, task: str, vectors: WordVectors, num_classes: int) -> TextClassifier:
    """The network of a row, with the release's initial weights."""
    embedding = torch.nn.Embedding.from_pretrained(vectors.weight, freeze=True)
    encoder = StringKernelNetwork(
        embedding.embedding_dim,
        CHANNELS,
        LAYERS,
        dropout=DROPOUT,
        rnn_dropout=RNN_DROPOUT[task],
        jumping="cat",
        **_RELEASE | MODELS[name].layer,
    )
    model = TextClassifier(embedding, encoder, num_classes, DROPOUT, bias=False)
    release_init(model)
    return model


def evaluate(
    name: str,
    task: str,
    seed: int,
    data: LabelledStrings,
    vectors: WordVectors,
    content: str,
    options: SSTOptions,
    known: dict[str, str | int],
) -> Record:
    """Train a model, or go on with it, and score it."""
    recipe = ClassifierOptions(
        epochs=200,
        patience=20,
        lr_decay=0.95,
        l2=1e-6,
        gradient_clip=0.0,
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    epochs = options.limit(recipe.epochs)
    directory = options.folder(f"{task}_{options.matmul_precision}_{content}", name, f"seed_{seed}")

    def train() -> Record:
        torch.manual_seed(seed)
        model = build(name, task, vectors, len(data.classes))

        def fit() -> FitResult:
            limited = replace(recipe, epochs=epochs)
            return fit_classifier(model, data.train, data.valid, limited, directory=directory, resume=True)

        def scores(fitted: FitResult) -> Record:
            return {
                "best_epoch": fitted.epoch,
                "valid_accuracy": fitted.score,
                "test_accuracy": accuracy(model, data.test),
            }

        return {
            "model": name,
            "labels": task,
            "seed": seed,
            "content": content,
            "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "embedding_dim": vectors.weight.size(1),
            "recipe": asdict(recipe),
            "published": MODELS[name].published[task],
            **outcome(model, options.accelerator, recipe.epochs, fit, scores, epochs),
            **vectors.out_of_vocabulary(data.train.tokens),
            **known,
        }

    return kept(directory, epochs, train, known)


COLUMNS = (
    "task",
    "model",
    "parameters",
    "seeds",
    "epochs",
    "stopped",
    "valid",
    "test",
    "best",
    "published",
    "s / epoch",
)


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per task and model, over its seeds."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for task, name in dict.fromkeys((record["labels"], record["model"]) for record in records):
        of_row = [record for record in records if (record["labels"], record["model"]) == (task, name)]
        scored = survivors(of_row)
        epochs = sorted(record["epochs"] for record in of_row)
        scores = [
            cell([100 * record[f"{part}_accuracy"] for record in scored], of_row)
            for part in ("valid", "test")
        ]
        best = max((100 * record["test_accuracy"] for record in scored), default=math.nan)
        out.append(
            (
                task,
                MODELS[name].title,
                f"{of_row[0]['parameters'] / 1e3:.0f}k",
                of_seeds(len(of_row), SSTOptions.seeds),
                "–".join(map(str, dict.fromkeys((epochs[0], epochs[-1])))),
                f"{sum(record['stopped'] for record in of_row)} of {len(of_row)}",
                *scores,
                f"{best:.1f}",
                of_row[0]["published"],
                seconds_per_epoch(of_row),
            )
        )
    return out


def _notes(record: Record) -> str:
    return LEGEND + (
        f"* word vectors: {record['embedding_dim']}-dimensional; out of them are {record['oov_types']:,} "
        f"({100 * record['oov_type_fraction']:.1f} %) of the distinct tokens and "
        f"{100 * record['oov_token_fraction']:.1f} % of the tokens of the training phrases\n"
    )
