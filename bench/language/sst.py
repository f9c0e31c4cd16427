"""Sentiment of sentences: Table 2 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Run, Trial
from wlkernelnn.bench.harness.provenance import digest_of_strings
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, glove_file, kept
from wlkernelnn.datasets import LabelledStrings, WordVectors, load_glove, load_sst
from wlkernelnn.sequence import StringKernelNetwork, TextNetwork
from wlkernelnn.training import ClassifierOptions, accuracy, fit_classifier

from .lei_networks import release_init
from .spectrum import LEGEND as SPECTRUM
from .spectrum import OURS, TITLE, of_networks, spectrum_machine, text_machine

CHANNELS, LAYERS, DROPOUT = 200, 3, 0.35
RECIPE: dict[str, Any] = {
    "epochs": 200,
    "patience": 20,
    "lr_decay": 0.95,
    "l2": 1e-6,
    "gradient_clip": 0.0,
    "group_by_length": True,
}
LABELS = ("fine", "binary")
QUICK_STRINGS, QUICK_SENTENCES = 3_000, 300

# Section 6.2 and the release: n = 2, c_1 + c_2, ReLU, normalised; its gate sees x and h.
_RELEASE = {"ngram": 2, "readout": "sum", "act": "relu"}
# Published: the best of five runs in the paper, and in brackets the mean of the release's notes.
MODELS = {
    "cnn": Row("λ = 0: CNN over 2 words", {"fine": "–", "binary": "–"}, {"decay": 0.0}),
    "constant": Row("λ = 0.5", {"fine": "51.2", "binary": "88.6"}, {"decay": 0.5}),
    "gated-x": Row("λ gated by x", {"fine": "–", "binary": "–"}, {"decay": "gated"}),
    "gated-xh": Row(
        "λ gated by x and h",
        {"fine": "53.2 (52.4 ± 0.5)", "binary": "89.9 (89.6 ± 0.3)"},
        {"decay": "gated", "feedback": True},
    ),
    "gated-xh-missing": Row(
        "λ gated by x and h, vectors of missing words learned",
        {"fine": "–", "binary": "–"},
        {"decay": "gated", "feedback": True},
    ),
    "spectrum": Row(f"{TITLE} (sentences)", {"fine": "–", "binary": "–"}, trained=False),
    "machine": Row(f"{OURS} (sentences)", {"fine": "–", "binary": "–"}, trained=False),
}
# Words in the runs that the spectrum kernel counts; the validation part chooses.
NGRAMS = (1, 2)
# Variational dropout of the release.
RNN_DROPOUT = {"fine": 0.2, "binary": 0.1}

LEGEND = f"""* Test accuracy in per cent, mean and standard deviation over the seeds. The weights are those of
  the epoch with the best accuracy on the validation sentences; the test part is scored once, with these.
* Trained on all distinct phrases of the training trees, validated and tested on whole sentences; "binary"
  leaves neutral ones out. Tokens are lower-cased.
* Recipe of the authors' release: {LAYERS} layers of {CHANNELS}, n = 2, c_1 + c_2, ReLU, normalised; means
  over the tokens, all layers side by side; Adam 1e-3, times 0.95 every epoch, batches of 32, dropout
  {DROPOUT}, variational dropout {RNN_DROPOUT["fine"]} (fine) and {RNN_DROPOUT["binary"]} (binary), 1e-6 times
  the squared weights in the loss, at most 200 epochs, stopped after 20 without a better validation accuracy.
  Word vectors are divided by their norms and fixed; tokens without one are 0. Batches hold phrases of
  similar length (of one length in the release). The release stops at once where accuracy falls 5 points
  below its best; ours don't.
* "vectors of missing words learned" is not of the paper: tokens without a vector, such as "n't", have one
  that is 0 at first and is learned with the network.
* "epochs" are those that were trained, "stopped" whether the recipe's own end was reached. **A row that was
  not stopped by the recipe is not a result yet.**
* "s / epoch" is by the clock, and some trainings were paused for hours: compare no speeds by it.
* "λ" are networks. The last two rows are trained on the whole training sentences, without their phrases;
  parameters of the {TITLE} are dual coefficients.
{SPECTRUM}* published: the paper's best of five runs, in brackets the means of the release's notes, with
  300-dimensional vectors. Compare means with means.
"""


@dataclass
class SSTOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: cnn, constant, gated-x, gated-xh, gated-xh-missing, spectrum, machine; by default
            all.
        labels: Which tasks: fine, binary; by default both.
        glove: File of word vectors in GloVe's format, of any width.
    """

    seeds: int = 5
    run_dir: Path = Path("runs/sst")
    labels: list[str] | None = None
    glove: Path | None = None


def pages(options: SSTOptions) -> Iterator[Page]:
    names, tasks = chosen("models", options.models, MODELS), chosen("labels", options.labels, LABELS)
    glove = options.glove or glove_file(options.root)
    loaded = {task: _load(task, glove, options) for task in tasks}
    contents = {task: digest_of_strings(data, vectors.weight) for task, (data, vectors) in loaded.items()}
    trials = (
        trial(name, task, seed, *loaded[task], contents[task], options)
        for task in tasks
        for seed in options.all_seeds
        for name in names
        if not seed or MODELS[name].trained
    )
    yield Page(TABLE, trials, same_data=on_same_data("labels", contents))


def _load(task: str, glove: Path, options: SSTOptions) -> tuple[LabelledStrings, WordVectors]:
    data = load_sst(options.root, labels=task)  # type: ignore[arg-type]  # checked by now
    vectors = load_glove(glove, data.vocabulary, unit_norm=True)
    if options.quick:
        data = replace(data, train=data.train.select(np.arange(QUICK_STRINGS)))
    return data, vectors


class PartlyLearned(torch.nn.Embedding):
    """Fixed vectors of the words that have one; those of all others are learned, from 0 on."""

    place: Tensor

    def __init__(self, vectors: WordVectors) -> None:
        num_tokens, width = vectors.weight.shape
        super().__init__(num_tokens, width, _weight=vectors.weight, _freeze=True)
        missing = ~vectors.known
        self.register_buffer("place", missing.cumsum(0) * missing, persistent=False)  # 0 for words with one
        self.learned = torch.nn.Embedding(int(missing.sum()) + 1, self.embedding_dim, padding_idx=0)
        torch.nn.init.zeros_(self.learned.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + self.learned(self.place[tokens])


def build(name: str, task: str, vectors: WordVectors, num_classes: int) -> TextNetwork:
    """The network of a row, with the release's initial weights."""
    embedding = torch.nn.Embedding.from_pretrained(vectors.weight, freeze=True)
    if name == "gated-xh-missing":
        embedding = PartlyLearned(vectors)
    arguments: dict[str, Any] = {**_RELEASE, **MODELS[name].arguments}
    encoder = StringKernelNetwork(
        embedding.embedding_dim,
        CHANNELS,
        LAYERS,
        dropout=DROPOUT,
        rnn_dropout=RNN_DROPOUT[task],
        jumping="cat",
        **arguments,
    )
    model = TextNetwork(embedding, encoder, num_classes, DROPOUT, bias=False)
    release_init(model)
    return model


def trial(
    name: str,
    task: str,
    seed: int,
    data: LabelledStrings,
    vectors: WordVectors,
    content: str,
    options: SSTOptions,
) -> Run:
    names = (f"{task}_{options.matmul_precision}_{content}", name, f"seed_{seed}")
    says = {
        "model": name,
        "labels": task,
        "content": content,
        "embedding_dim": vectors.weight.size(1),
        "published": MODELS[name].published[task],
        **vectors.out_of_vocabulary(data.train.tokens),
    }
    if not MODELS[name].trained:

        def machine(known: Record) -> Record:
            sentences = load_sst(options.root, labels=task, phrases=False)  # type: ignore[arg-type]
            if options.quick:
                sentences = replace(sentences, train=sentences.train.select(np.arange(QUICK_SENTENCES)))
            if name == "machine":
                return text_machine(sentences, NGRAMS[-1], says, known)
            return spectrum_machine(sentences, NGRAMS, says, known)

        return lambda options, known: kept(options.folder(*names), 0, partial(machine, known), known)
    return Trial(
        names,
        ClassifierOptions(**RECIPE, **options.of_run(seed)),
        partial(build, name, task, vectors, len(data.classes)),
        lambda model, recipe, **where: fit_classifier(model, data.train, data.valid, recipe, **where),
        lambda model, fitted: {"valid_accuracy": fitted.score, "test_accuracy": accuracy(model, data.test)},
        says,
    )


def _epochs(runs: list[Record]) -> str:
    fewest, *_, most = sorted(run["epochs"] for run in runs) * 2
    return "–".join(map(str, dict.fromkeys((fewest, most))))


def _best(runs: list[Record]) -> str:
    return f"{max((100 * run['test_accuracy'] for run in cells.survivors(runs)), default=math.nan):.1f}"


def _notes(runs: list[Record]) -> str:
    of_task = {run["labels"]: run for run in runs}
    return LEGEND + "".join(
        f"* word vectors ({task}): {run['embedding_dim']}-dimensional; out of them are {run['oov_types']:,} "
        f"({100 * run['oov_type_fraction']:.1f} %) of the distinct tokens and "
        f"{100 * run['oov_token_fraction']:.1f} % of the tokens of the training phrases\n"
        for task, run in of_task.items()
    )


TABLE = Table(
    "Stanford Sentiment Treebank",
    [
        ("task", cells.first("labels")),
        ("model", lambda runs: MODELS[runs[0]["model"]].title),
        ("parameters", cells.thousands("parameters")),
        ("seeds", of_networks(cells.seeds(SSTOptions.seeds))),
        ("epochs", of_networks(_epochs)),
        ("stopped", of_networks(lambda runs: f"{sum(run['stopped'] for run in runs)} of {len(runs)}")),
        ("valid", cells.scored("valid_accuracy", 100)),
        ("test", cells.scored("test_accuracy", 100)),
        ("best", _best),
        ("published", cells.first("published")),
        ("s / epoch", of_networks(cells.seconds_per_epoch)),
    ],
    lambda run: (LABELS.index(run["labels"]), list(MODELS).index(run["model"])),
    _notes,
)
main = Experiment("sst", __doc__, SSTOptions, pages).main
