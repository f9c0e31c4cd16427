"""Language modelling on the Penn Treebank: Table 1 and Figure 3 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from wlkernelnn.bench.harness.digest import digest
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.outcomes import cell, epochs_of, outcome, seconds_per_epoch, survivors
from wlkernelnn.bench.harness.parameters import count_parameters, width_for
from wlkernelnn.bench.harness.runs import Place, Runs
from wlkernelnn.bench.harness.trained import (
    Record,
    TrainedOptions,
    about_training,
    check_shorten,
    chosen,
    kept,
    of_recipe,
)
from wlkernelnn.datasets import Corpus, load_ptb
from wlkernelnn.sequence import LanguageModel, Stack, StringKernelNetwork
from wlkernelnn.training import FitResult, LanguageOptions, fit_language_model, perplexity

from .lei_networks import LSTM, release_init

SMALL, LARGE = 5_074_430, 20_000_000
QUICK_TOKENS = 12_000


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        published: Test perplexity in the paper (and, in brackets, in the release's notes).
        parameters: Size to come as close to as a width can, unless ``width`` is given.
        width: Of embeddings and layers.
        num_layers: Layers.
        layer: Options of the layers; ``None`` for an LSTM.
        dropout: On embeddings and output.
        rnn_dropout: Variational dropout within the layers.
        training: Where the recipe is not the default.
    """

    title: str
    published: str
    parameters: int = SMALL
    width: int | None = None
    num_layers: int = 3
    layer: dict[str, Any] | None = field(default_factory=dict)
    dropout: float = 0.5
    rnn_dropout: float = 0.0
    training: dict[str, Any] = field(default_factory=dict)

    def build(self, num_tokens: int, width: int) -> LanguageModel:
        if self.layer is None:
            layers = [LSTM(width, width) for _ in range(self.num_layers)]
            return LanguageModel(num_tokens, Stack(layers), self.dropout)
        encoder = StringKernelNetwork(
            width, width, self.num_layers, rnn_dropout=self.rnn_dropout, **_RELEASE | self.layer
        )
        return LanguageModel(num_tokens, encoder, self.dropout)

    def fitting_width(self, num_tokens: int) -> int:
        """The width, or that which comes closest to the size."""
        if self.width is not None:
            return self.width
        return width_for(partial(self.build, num_tokens), self.parameters)


# Section 6.1: n = 1, normalised, highway, no activation; the release's gate sees x and h.
_RELEASE: dict[str, Any] = {"ngram": 1, "decay": "gated", "feedback": True, "highway": True}
_PLAIN = {"feedback": False}
_DROPOUT: dict[str, Any] = {"parameters": LARGE, "width": 950, "dropout": 0.7}
_SLOW = {"lr_decay": 0.95, "decay_from": 30}
MODELS = {
    "cnn": Model(
        "λ = 0: CNN over 3 words",
        "Figure 3 only",
        layer=_PLAIN | {"decay": 0.0, "ngram": 3, "compose": "add"},
    ),
    "constant": Model("λ = 0.8", "84.3", layer=_PLAIN | {"decay": 0.8}),
    "learned": Model("λ learned", "76.8", layer=_PLAIN | {"decay": "learned"}),
    "gated-x": Model("λ gated by x", "Figure 3 only", layer=_PLAIN),
    "gated-xh": Model("λ gated by x and h", "73.6 (69.3)", width=355),
    "lstm": Model("LSTM (ours)", "–", num_layers=2, layer=None),
    "20m": Model("gated by x and h, 20M", "69.2", **_DROPOUT, training=_SLOW),
    "20m-variational": Model(
        "+ variational dropout", "65.5 (65.5)", **_DROPOUT, rnn_dropout=0.1, training=_SLOW
    ),
    "20m-depth-4": Model(
        "+ variational dropout, 4 layers",
        "63.8 (63.8)",
        **_DROPOUT | {"width": 860},
        num_layers=4,
        rnn_dropout=0.1,
        training={"lr_decay": 0.98, "epochs": 200},
    ),
}
TITLE = "Penn Treebank"
LEGEND = """* Perplexity over all N − 1 targets of a part, read as one text with the state carried along. The
  weights are those of the best epoch on the validation part; the test part is scored once, with these.
* Recipe of the authors' release: SGD with learning rate 1, gradients through 35 tokens of 32 streams, the
  loss summed over the tokens and averaged over the streams, gradient norm at most 5, tied embeddings,
  highway, no activation, initial weights uniform of variance 1 / inputs. The learning rate falls by a factor
  (0.9 for the models of 5M parameters) every epoch from epoch 20 on.
* "LSTM (ours)" is torch's by the same recipe, its weights drawn alike, in two layers, where the others have
  three, and without highway.
* "epochs" of "of": training so far, and the whole recipe (100 epochs, 200 for 4 layers). **A row with fewer
  epochs is not a result yet**: it is a run that was cut short. "shortened": the course of the learning rate
  was squeezed into so many epochs; such rows compare with each other, not with published ones.
* published: test perplexity in the paper, in brackets in the notes of the authors' release. The paper chose
  hyper-parameters for each variant; here all share the recipe above. Its CNN's n is not published.
* The text is licensed by the LDC and no part of this package.
"""


@dataclass
class PTBOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all of 5M parameters: cnn, constant, learned, gated-x, gated-xh, lstm.
            There are also 20m, 20m-variational and 20m-depth-4.
        shorten: Squeeze the recipe, learning rates and all, into so many epochs; by default it is as
            published.
    """

    run_dir: Path = Path("runs/ptb")
    shorten: int | None = None


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``ptb.md`` and ``ptb.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    options = parsed("ptb", __doc__, PTBOptions, argv)
    names = chosen("models", options.models or _small(), MODELS)
    corpus = load_ptb(options.root)
    if options.quick:
        parts = {part: getattr(corpus, part)[:QUICK_TOKENS] for part in ("train", "valid", "test")}
        corpus = replace(corpus, **parts)
    known = about_training("ptb", argv, options)
    content, stem = digest(corpus.train, corpus.valid, corpus.test), options.output_dir / "ptb"
    runs = Runs(stem, known, place, lambda run: run.get("content", content) == content)
    made = (
        evaluate(name, seed, corpus, content, options, known)
        for name in names
        for seed in range(options.seeds)
    )
    runs.fill(made, TITLE, rows, LEGEND)


def place(run: Record) -> Place:
    """Where a run stands in the table."""
    return (list(MODELS).index(run["model"]), run["recipe"]["epochs"]), (run["seed"],)


def _small() -> list[str]:
    return [name for name, model in MODELS.items() if model.parameters == SMALL]


def evaluate(
    name: str, seed: int, corpus: Corpus, content: str, options: PTBOptions, known: dict[str, str | int]
) -> Record:
    """Train a model, or go on with it, and score it."""
    model = MODELS[name]
    recipe = LanguageOptions(
        **model.training,
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    published_epochs = recipe.epochs
    if options.shorten is not None:
        recipe = shortened(recipe, options.shorten)
    epochs = options.limit(recipe.epochs)
    trained_as = f"{recipe.epochs}_epochs_{options.matmul_precision}_{content}"
    directory = options.folder(trained_as, name, f"seed_{seed}")

    def train() -> Record:
        torch.manual_seed(seed)
        width = model.fitting_width(len(corpus.vocabulary))
        net = model.build(len(corpus.vocabulary), width)
        release_init(net)

        def fit() -> FitResult:
            limited = replace(recipe, epochs=epochs)
            return fit_language_model(net, corpus, limited, directory=directory, resume=True)

        def scores(fitted: FitResult) -> Record:
            return {
                "best_epoch": fitted.epoch,
                "valid_perplexity": fitted.score,
                "test_perplexity": perplexity(net, corpus.test),
            }

        return {
            "model": name,
            "title": model.title,
            "seed": seed,
            "content": content,
            "width": width,
            "parameters": count_parameters(net),
            "recipe": asdict(recipe),
            "published_epochs": published_epochs,
            "published": model.published,
            **outcome(net, options.accelerator, recipe.epochs, fit, scores),
            **known,
        }

    return kept(directory, epochs, train, known)


def shortened(recipe: LanguageOptions, epochs: int) -> LanguageOptions:
    """The same course of the learning rate in fewer epochs."""
    check_shorten(epochs, recipe.epochs)
    ratio = epochs / recipe.epochs
    return replace(
        recipe,
        epochs=epochs,
        decay_from=round(recipe.decay_from * ratio),
        lr_decay=recipe.lr_decay ** (1 / ratio),
    )


COLUMNS = ("model", "parameters", "d", "seeds", "epochs", "of", "valid", "test", "published", "s / epoch")


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The table, its header first: a row per model and length of the recipe, over its seeds."""
    out: list[tuple[str, ...]] = [COLUMNS]
    for key in dict.fromkeys(place(record)[0] for record in records):
        of_row = [record for record in records if place(record)[0] == key]
        first = of_row[0]
        scores = [
            cell([record[f"{part}_perplexity"] for record in survivors(of_row)], of_row)
            for part in ("valid", "test")
        ]
        size = f"{first['parameters'] / 1e6:.2f}M"
        counts = (str(first["width"]), str(len(of_row)), str(epochs_of(of_row)), of_recipe(first))
        out.append((first["title"], size, *counts, *scores, first["published"], seconds_per_epoch(of_row)))
    return out
