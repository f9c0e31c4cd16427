"""Language modelling with the cell exchanged: Table 3 of Liang et al. 2019 beside our figures."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from wlkernelnn.bench.harness.digest import digest
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.outcomes import cell, epochs_of, outcome, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.harness.runs import Place, Runs, on_same_data
from wlkernelnn.bench.harness.trained import (
    Record,
    TrainedOptions,
    about_training,
    check_shorten,
    chosen,
    kept,
    of_recipe,
)
from wlkernelnn.datasets import Corpus, load_ptb, load_wikitext
from wlkernelnn.sequence import RKM, LanguageModel, Stack, WeightDrop
from wlkernelnn.training import AWDOptions, FitResult, fit_awd, perplexity

# Merity et al. 2018, as their release has it: embeddings, and what each layer writes.
WIDTHS = (400, 1150, 1150, 400)
WEIGHT_DROP, WORD_DROPOUT = 0.5, 0.1
QUICK_TOKENS = {"train": 2_000, "valid": 1_000, "test": 200}


@dataclass(frozen=True)
class Text:
    """What the recipe is for a corpus.

    Attributes:
        title: Its name.
        dropout: On the embeddings and on the output.
        between: Dropout between layers.
        training: Where the training is not the default.
    """

    title: str
    dropout: tuple[float, float]
    between: float
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        layer: Options of the layers.
        published: Perplexities on the validation and the test part in the paper, of each text.
    """

    title: str
    layer: dict[str, Any]
    published: dict[str, tuple[str, str]] = field(default_factory=dict)

    def build(self, num_tokens: int, text: Text) -> LanguageModel:
        layers = [
            WeightDrop(RKM(width, next_width, **self.layer), "lin_h.weight", WEIGHT_DROP)
            for width, next_width in itertools.pairwise(WIDTHS)
        ]
        encoder = Stack(layers, text.between, locked=True)
        return LanguageModel(num_tokens, encoder, text.dropout, locked=True, word_dropout=WORD_DROPOUT)


TEXTS = {
    "ptb": Text("PTB", dropout=(0.4, 0.4), between=0.25),
    "wikitext-2": Text(
        "WikiText-2", dropout=(0.65, 0.4), between=0.2, training={"epochs": 750, "batch_size": 80}
    ),
}
_LSTM = {"ptb": ("61.2", "58.9"), "wikitext-2": ("68.74", "65.68")}
_RKM_LSTM = {"ptb": ("60.3", "58.2"), "wikitext-2": ("67.85", "65.22")}
_RKM_CIFG = {"ptb": ("61.9", "59.5"), "wikitext-2": ("69.12", "66.03")}
_LINEAR = {"ptb": ("72.3", "69.7"), "wikitext-2": ("84.23", "80.21")}
_PLAIN = {"layer_norm": False}
MODELS = {
    "lstm": Model("LSTM", {"variant": "lstm", **_PLAIN}, _LSTM),
    "rkm-lstm": Model("RKM-LSTM", {"variant": "rkm_lstm", **_PLAIN}, _RKM_LSTM),
    "rkm-cifg": Model("RKM-CIFG", {"variant": "rkm_cifg", **_PLAIN}, _RKM_CIFG),
    "linear-gated": Model("Linear w/ o", {"variant": "linear_gated", **_PLAIN}, _LINEAR),
    "lstm-norm": Model("LSTM, LN", {"variant": "lstm"}),
    "rkm-lstm-norm": Model("RKM-LSTM, LN", {"variant": "rkm_lstm"}, _RKM_LSTM),
    "rkm-cifg-norm": Model("RKM-CIFG, LN", {"variant": "rkm_cifg"}, _RKM_CIFG),
    "linear-gated-norm": Model("Linear w/ o, LN", {"variant": "linear_gated"}, _LINEAR),
}
TITLE = "AWD language models"
LEGEND = """\
* Perplexity before any fine-tuning, as in the paper. valid: in 10 streams, as the release of AWD-LSTM does;
  the weights are those of the epoch where it was best. test: over all N − 1 targets, read as one text, once,
  with these weights.
* Recipe of that release (Merity et al. 2018): three layers of 1150, 1150 and 400 on embeddings of 400 that
  are the softmax's too; half of the recurrent weights dropped, one mask a batch; locked dropout of 0.4 on
  embeddings and output and 0.25 between layers (WikiText-2: 0.65, 0.4 and 0.2), a tenth of the words
  dropped; AR 2, TAR 1, weight decay 1.2e-6; SGD with learning rate 30 ("lr": that of the row) in 20 streams
  (80) of about 70 tokens, gradient norm at most 0.25; averages of the weights (NT-ASGD) from the epoch
  "averaged" on, counted from 1.
* Only the cell differs: one layer, one initialisation, one recipe. LN: h sees LN(c), c is carried as it is.
  The paper has a layer norm in its classifiers, and does not say whether its language models have one;
  AWD-LSTM has none. No tanh bounds what RKMs write, and RKM-LSTM's memory has no bound either.
* "diverged at epoch k", counted from 1: the loss or the score was no number then. Such a run is over, and
  nothing of it is scored.
* "epochs": training so far, of the whole recipe (500, WikiText-2 750). **A row with fewer epochs is not a
  result yet**: it is a run that was cut short. "shortened": a recipe of so many epochs; such rows compare
  with each other, not with published ones.
* paper: Table 3. WikiText-2 has rows if its files are there. The treebank is licensed by the LDC and no
  part of this package.
"""


@dataclass
class AWDLMOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all: lstm, rkm-lstm, rkm-cifg, linear-gated, and these with a layer
            norm: lstm-norm, rkm-lstm-norm, rkm-cifg-norm and linear-gated-norm.
        shorten: Make it a recipe of so many epochs; by default it is as published.
        lr: Learning rate; by default the recipe's, 30.
    """

    run_dir: Path = Path("runs/awd-lm")
    shorten: int | None = None
    lr: float | None = None


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``awd_lm.md`` and ``awd_lm.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("awd-lm", __doc__, AWDLMOptions, argv)
    names = chosen("models", options.models, MODELS)
    known = about_training("awd-lm", argv, options)
    texts, stem = corpora(options), options.output_dir / "awd_lm"
    contents = {text: digest(corpus.train, corpus.valid, corpus.test) for text, corpus in texts.items()}
    runs = Runs(stem, known, place, on_same_data("text", contents))
    made = (
        evaluate(text, name, seed, corpus, contents[text], options, known)
        for text, corpus in texts.items()
        for name in names
        for seed in range(options.seeds)
    )
    runs.fill(made, TITLE, rows, LEGEND)


def place(run: Record) -> Place:
    """Where a run stands in the table."""
    text, model = list(TEXTS).index(run["text"]), list(MODELS).index(run["model"])
    return (text, model, run["recipe"]["epochs"], run["recipe"]["lr"]), (run["seed"],)


def corpora(options: AWDLMOptions) -> dict[str, Corpus]:
    """The treebank, and WikiText-2 if it is there."""
    found = {"ptb": load_ptb(options.root)}
    with contextlib.suppress(FileNotFoundError):
        found["wikitext-2"] = load_wikitext("wikitext-2", options.root)
    if not options.quick:
        return found
    return {
        text: replace(corpus, **{part: getattr(corpus, part)[:n] for part, n in QUICK_TOKENS.items()})
        for text, corpus in found.items()
    }


def evaluate(
    text: str,
    name: str,
    seed: int,
    corpus: Corpus,
    content: str,
    options: AWDLMOptions,
    known: dict[str, str | int],
) -> Record:
    """Train a model, or go on with it, and score it."""
    model = MODELS[name]
    recipe = AWDOptions(
        **TEXTS[text].training,
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    published_epochs = recipe.epochs
    if options.shorten is not None:
        recipe = shortened(recipe, options.shorten)
    if options.lr is not None:
        recipe = replace(recipe, lr=options.lr)
    epochs = options.limit(recipe.epochs)
    trained_as = f"{recipe.epochs}_epochs_lr_{recipe.lr:g}_{options.matmul_precision}"
    directory = options.folder(trained_as, f"{text}_{content}", name, f"seed_{seed}")

    def train() -> Record:
        torch.manual_seed(seed)
        net = model.build(len(corpus.vocabulary), TEXTS[text])
        awd_init(net)

        def fit() -> FitResult:
            return fit_awd(net, corpus, replace(recipe, epochs=epochs), directory=directory, resume=True)

        def scores(fitted: FitResult) -> Record:
            averaged = [epoch["epoch"] for epoch in fitted.history if epoch["averaged_steps"]]
            return {
                "averaged_from": averaged[0] if averaged else None,
                "best_epoch": fitted.epoch,
                "valid_perplexity": fitted.score,
                "test_perplexity": perplexity(net, corpus.test),
            }

        return {
            "text": text,
            "model": name,
            "seed": seed,
            "content": content,
            "layer": model.layer,
            "parameters": count_parameters(net),
            "recipe": asdict(recipe),
            "published_epochs": published_epochs,
            "published": model.published.get(text, ("–", "–")),
            **outcome(net, options.accelerator, recipe.epochs, fit, scores),
            **known,
        }

    return kept(directory, epochs, train, known)


def shortened(recipe: AWDOptions, epochs: int) -> AWDOptions:
    """Fewer epochs, of which fewer have to pass before weights are averaged."""
    check_shorten(epochs, recipe.epochs)
    nonmonotone = max(1, round(recipe.nonmonotone * epochs / recipe.epochs))
    return replace(recipe, epochs=epochs, nonmonotone=nonmonotone)


@torch.no_grad()
def awd_init(net: LanguageModel) -> None:
    """Initial weights as in the authors' release: torch's of an LSTM, and embeddings uniform in ±0.1."""
    torch.nn.init.uniform_(net.embedding.weight, -0.1, 0.1)
    for layer in net.modules():
        if isinstance(layer, RKM):
            bound = 1 / math.sqrt(layer.out_channels)
            for weight in (lin.weight for lin in (*layer.lins, layer.lin_h) if lin is not None):
                torch.nn.init.uniform_(cast(Tensor, weight), -bound, bound)


COLUMNS = (
    "text",
    "model",
    "size",
    "lr",
    "seeds",
    "epochs",
    "averaged",
    "valid",
    "paper",
    "test",
    "paper",
    "s/epoch",
)


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per text, model, length and learning rate, over its seeds."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for key in dict.fromkeys(place(record)[0] for record in records):
        of_model = [record for record in records if place(record)[0] == key]
        first = of_model[0]
        scored = survivors(of_model)
        valid, test = (
            cell([record[f"{part}_perplexity"] for record in scored], of_model) for part in ("valid", "test")
        )
        valid_paper, test_paper = first["published"]
        epochs = f"{epochs_of(of_model)} of {of_recipe(first)}"
        begins = (record["averaged_from"] for record in scored)
        averaged = ", ".join("–" if begin is None else f"{begin + 1:.0f}" for begin in begins) or "–"
        about_run = (
            TEXTS[first["text"]].title,
            MODELS[first["model"]].title,
            f"{first['parameters'] / 1e6:.1f}M",
            f"{first['recipe']['lr']:g}",
            str(len(of_model)),
            epochs,
            averaged,
        )
        out.append((*about_run, valid, valid_paper, test, test_paper, seconds_per_epoch(of_model)))
    return out
