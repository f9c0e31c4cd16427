"""Classification of documents: Table 2 of Liang et al. 2019 beside our figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.experiment import Experiment, Page, Run, Trial
from wlkernelnn.bench.harness.provenance import digest_of_strings
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, glove_file, kept
from wlkernelnn.datasets import (
    DOCUMENT_SETS,
    LabelledStrings,
    PackedStrings,
    WordVectors,
    document_files,
    load_documents,
    load_glove,
)
from wlkernelnn.sequence import RKM, TextNetwork
from wlkernelnn.training import ClassifierOptions, accuracy, fit_classifier

from .documents_published import CHANNELS, MODELS, NGRAMS, PAPER, RECIPES, REPORT, Recipe
from .spectrum import IMBALANCE, OURS, TITLE, of_networks, spectrum_machine, text_machine
from .spectrum import LEGEND as SPECTRUM

# The rows: networks, and two without any.
ROWS = MODELS | {"spectrum": TITLE, "machine": OURS}
# Vectors of tokens that GloVe lacks are drawn with this standard deviation; neither paper says how.
OOV_STD = 0.1
QUICK_DOCUMENTS, QUICK_STEPS = 160, 5

LEGEND = f"""* Test accuracy in per cent, mean and standard deviation over the seeds. The weights are those of
  the epoch with the best accuracy on the validation documents, which are drawn from the training documents;
  the test part is scored once, with these.
* The paper's network: trainable word vectors that start as GloVe's, one layer of {CHANNELS} units with layer
  norm, the mean over the tokens, two fully connected layers. "weights" are those of the layer without biases
  and norm, (n m + d) times the width of its parts; they are fewer than in the paper where word vectors are
  shorter than its 300.
* "release", the settings of the authors' release: fully connected layers with ReLU between 300 units, dropout
  0.5 before both, Adam 1e-3, 40,000 batches of 16, gradient values clipped to ±1, forget bias 1, and LN(c)
  carried from token to token, σ_i² and σ_f² of the linear kernels learned; an epoch is 500 batches, after
  which it validates. Its 3-grams look ahead, its mean runs over padding, and c̃ has a bias in all variants;
  ours don't (but for the LSTM's c̃).
* "report", those of the reproduction report: 100 units (1-gram) or 200 (3-gram) with sigmoid, batches of 64
  (AG News), 256 (DBpedia, Yahoo!) or 512 (Yelp), σ_i² = 0.5 of the CNNs too. Of the ranges it names (20 to
  40 epochs, learning rate 0.01 and 0.001) ours are 30 epochs and 0.001; it says nothing of dropout and
  clipping, and there are none, nor of what its layer norm changes: here h sees LN(c), and c is carried.
* "epochs": training so far, and the whole recipe. **A row with fewer epochs is not a result yet.**
* Documents are cut after 128 tokens (Yahoo! 96). Texts are lower-cased and split into words and signs; tokens
  that the training part lacks are one unknown token, whose vector is never trained, even where GloVe has one.
* "diverged at epoch k", counted from 1: the loss or the score was no number then. Such a run is over, and
  nothing of it is scored.
* The {TITLE}: "weights" are dual coefficients, n is that of its runs.
{SPECTRUM}* paper: Table 2; report: what the reproduction report measured. Both trained on the whole sets.
"""


@dataclass
class DocumentsOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: lstm, rkm_lstm, rkm_cifg, linear_gated, linear, gated_cnn, cnn, spectrum, machine;
            by default all.
        ngrams: Lengths of the filters: 1, 3; by default both.
        sets: Which sets: ag_news, dbpedia, yahoo_answers, yelp_full; by default the first two.
        recipe: Settings of the authors' release, or of the reproduction report.
        glove: File of word vectors in GloVe's format, of any width.
    """

    run_dir: Path = Path("runs/documents")
    ngrams: list[int] | None = None
    sets: list[str] | None = None
    recipe: Literal["release", "report"] = "release"
    glove: Path | None = None


def pages(options: DocumentsOptions) -> Iterator[Page]:
    names = chosen("models", options.models, ROWS)
    sets = chosen("sets", options.sets or ["ag_news", "dbpedia"], DOCUMENT_SETS)
    ngrams = list(
        map(int, chosen("ngrams", list(map(str, options.ngrams or NGRAMS)), list(map(str, NGRAMS))))
    )
    glove = options.glove or glove_file(options.root)
    suffix = "" if options.recipe == "release" else f"_{options.recipe}"
    for set_name in sets:
        document_files(set_name, options.root)  # what is missing is told now, not after days
    for set_name in sets:
        about_set = DOCUMENT_SETS[set_name]
        data = load_documents(set_name, options.root, max_length=about_set.max_length)
        vectors = load_glove(glove, data.vocabulary, oov_std=OOV_STD)
        title = f"{TABLE.title}: {about_set.title}{suffix.replace('_', ', recipe of the ')}"
        table = replace(TABLE, title=title, notes=LEGEND + _of_set(data, vectors))
        if options.quick:
            data = replace(data, train=_few(data.train), valid=_few(data.valid), test=_few(data.test))
        content = digest_of_strings(data, vectors.weight)
        trials = (
            trial(name, ngram, seed, data, vectors, content, options)
            for seed in options.all_seeds
            for ngram in ngrams
            for name in names
            if not seed or name in MODELS
        )
        same_data = on_same_data("set", {set_name: content})
        yield Page(table, trials, f"documents_{set_name}{suffix}", same_data)


def _few(documents: PackedStrings) -> PackedStrings:
    """Few documents, from all over them."""
    count = min(QUICK_DOCUMENTS, len(documents))
    return documents.select(np.linspace(0, len(documents) - 1, count, dtype=np.int64))


def build(name: str, ngram: int, recipe: Recipe, vectors: WordVectors, num_classes: int) -> TextNetwork:
    """The network of a row."""
    options = recipe.layer | recipe.sigma2.get(name, {})
    return TextNetwork(
        torch.nn.Embedding.from_pretrained(vectors.weight.clone(), freeze=False),
        RKM(vectors.weight.size(1), CHANNELS, name, ngram, **options),
        num_classes,
        hidden_channels=recipe.hidden_channels[ngram],
        embedding_dropout=0.0,
        **recipe.head,
    )


def num_weights(model: TextNetwork) -> int:
    """As the paper counts them: of the sequence model, without biases and norm."""
    return sum(weight.numel() for weight in model.encoder.parameters() if weight.dim() > 1)


def trial(
    name: str,
    ngram: int,
    seed: int,
    data: LabelledStrings,
    vectors: WordVectors,
    content: str,
    options: DocumentsOptions,
) -> Run:
    recipe = RECIPES[options.recipe]
    of_set: dict[str, Any] = {"batch_size": recipe.batch_size[data.name], "balance": _uneven(data)}
    training = ClassifierOptions(**recipe.training, **of_set, **options.of_run(seed))
    if options.quick:
        training = replace(training, steps_per_epoch=QUICK_STEPS)
    # Runs on a sample are not those on the whole set, nor are those with other word vectors.
    of_data = f"{data.name}_{len(data.train)}_{vectors.weight.size(1)}d_{content}"
    trained_as = f"{options.recipe}_{options.matmul_precision}"
    says = {
        "model": name,
        "ngram": ngram,
        "set": data.name,
        "note": data.note,
        "content": content,
        "embedding_dim": vectors.weight.size(1),
        "class_counts": data.class_counts(),
        "recipe": options.recipe,
        "training": asdict(training),
        "paper": PAPER.get((data.name, ngram, name), "–"),
        "report": REPORT.get((data.name, ngram, name), "–"),
    }
    names = (trained_as, of_data, f"{name}_{ngram}", f"seed_{seed}")
    if name not in MODELS:
        machine = partial(spectrum_machine, data, (ngram,), says)
        if name == "machine":
            machine = partial(text_machine, data, ngram, says)
        return lambda options, known: kept(options.folder(*names), 0, partial(machine, known), known)
    return Trial(
        names,
        training,
        partial(build, name, ngram, recipe, vectors, len(data.classes)),
        lambda model, training, **where: fit_classifier(model, data.train, data.valid, training, **where),
        lambda model, fitted: {"valid_accuracy": fitted.score, "test_accuracy": accuracy(model, data.test)},
        says,
        lambda model: {"weights": num_weights(model)},
    )


def _uneven(data: LabelledStrings) -> bool:
    counts = data.class_counts()["train"]
    return max(counts) > IMBALANCE * min(counts)


def _of_set(data: LabelledStrings, vectors: WordVectors) -> str:
    counts = data.class_counts()
    missing = vectors.out_of_vocabulary(data.train.tokens)
    smallest, largest = min(counts["train"]), max(counts["train"])
    weighted = ", weighted in the loss" if _uneven(data) else ""
    parts = " / ".join(f"{len(getattr(data, part)):,}" for part in counts)
    title = f"{DOCUMENT_SETS[data.name].title}{', **' + data.note + '**' if data.note else ''}"
    return (
        f"* {title}: {parts} documents to train, validate and test, {smallest:,} to {largest:,} of a class "
        f"for training{weighted}; {vectors.weight.size(1)}-dimensional word vectors without "
        f"{100 * missing['oov_token_fraction']:.1f} % of the training tokens\n"
    )


TABLE = Table(
    "Documents",
    [
        ("model", lambda runs: ROWS[runs[0]["model"]]),
        ("n-gram", cells.first("ngram")),
        ("weights", lambda runs: f"{runs[0]['weights'] / 1e3:,.0f}k"),
        ("seeds", of_networks(cells.count)),
        ("epochs", of_networks(lambda runs: f"{cells.epochs_of(runs)} of {runs[0]['training']['epochs']}")),
        ("valid", cells.scored("valid_accuracy", 100)),
        ("test", cells.scored("test_accuracy", 100)),
        ("paper", cells.first("paper")),
        ("report", cells.first("report")),
        ("s / epoch", of_networks(cells.seconds_per_epoch)),
    ],
    lambda run: (run["ngram"], list(ROWS).index(run["model"])),
    LEGEND,
)
main = Experiment("documents", __doc__, DocumentsOptions, pages).main
