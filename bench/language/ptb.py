"""Language modelling on the Penn Treebank: Table 1 and Figure 3 of Lei et al. 2017 beside our figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from wlkernelnn.bench.harness.cells import count, epochs_of, first, of_recipe, scored, seconds_per_epoch
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Trial
from wlkernelnn.bench.harness.parameters import width_for
from wlkernelnn.bench.harness.provenance import digest
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.harness.trained import TrainedOptions, check_shorten, chosen
from wlkernelnn.datasets import Corpus, load_ptb
from wlkernelnn.sequence import LanguageModel, Stack, StringKernelNetwork
from wlkernelnn.training import LanguageOptions, fit_language_model, perplexity

from .lei_networks import release_init
from .ptb_picture import draw
from .recurrent import Recurrent

SMALL, LARGE = 5_074_430, 20_000_000
QUICK_TOKENS = 12_000


@dataclass(frozen=True)
class Model(Row):
    """A row of the table; ``published`` is a test perplexity (in brackets that of the release's notes).

    Without a ``width`` it comes closest to so many ``parameters``. ``dropout`` is on embeddings
    and output, the variational ``rnn_dropout`` within the layers.
    """

    parameters: int = SMALL
    width: int | None = None
    num_layers: int = 3
    lstm: bool = False
    dropout: float = 0.5
    rnn_dropout: float = 0.0

    def build(self, num_tokens: int, width: int) -> LanguageModel:
        if self.lstm:
            layers = [Recurrent(torch.nn.LSTM, width, width) for _ in range(self.num_layers)]
            return LanguageModel(num_tokens, Stack(layers), self.dropout)
        options = _RELEASE | self.arguments
        encoder = StringKernelNetwork(width, width, self.num_layers, rnn_dropout=self.rnn_dropout, **options)
        return LanguageModel(num_tokens, encoder, self.dropout)

    def fitting_width(self, num_tokens: int) -> int:
        return self.width or width_for(partial(self.build, num_tokens), self.parameters)


# Section 6.1: n = 1, normalised, highway, no activation; the release's gate sees x and h.
_RELEASE: dict[str, Any] = {"ngram": 1, "decay": "gated", "feedback": True, "highway": True}
_PLAIN = {"feedback": False}
_DROPOUT: dict[str, Any] = {"parameters": LARGE, "width": 950, "dropout": 0.7}
_SLOW = {"lr_decay": 0.95, "decay_from": 30}
MODELS = {
    "cnn": Model(
        "λ = 0: CNN over 3 words",
        "Figure 3 only",
        arguments=_PLAIN | {"decay": 0.0, "ngram": 3, "compose": "add"},
    ),
    "constant": Model("λ = 0.8", "84.3", arguments=_PLAIN | {"decay": 0.8}),
    "learned": Model("λ learned", "76.8", arguments=_PLAIN | {"decay": "learned"}),
    "gated-x": Model("λ gated by x", "Figure 3 only", arguments=_PLAIN),
    "gated-xh": Model("λ gated by x and h", "73.6 (69.3)", width=355),
    "lstm": Model("LSTM (ours)", "–", num_layers=2, lstm=True),
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


def pages(options: PTBOptions) -> Iterator[Page]:
    small = [name for name, model in MODELS.items() if model.parameters == SMALL]
    names = chosen("models", options.models or small, MODELS)
    corpus = load_ptb(options.root)
    if options.quick:
        parts = {part: getattr(corpus, part)[:QUICK_TOKENS] for part in ("train", "valid", "test")}
        corpus = replace(corpus, **parts)
    content = digest(corpus.train, corpus.valid, corpus.test)
    trials = (trial(name, seed, corpus, content, options) for name in names for seed in options.all_seeds)
    yield Page(TABLE, trials, same_data=lambda run: run.get("content", content) == content, draw=draw)


def trial(name: str, seed: int, corpus: Corpus, content: str, options: PTBOptions) -> Trial:
    model = MODELS[name]
    whole = LanguageOptions(**model.training, **options.of_run(seed), cuda_graphs=True)
    recipe = whole if options.shorten is None else shortened(whole, options.shorten)
    num_tokens = len(corpus.vocabulary)
    width = model.fitting_width(num_tokens)

    def build() -> LanguageModel:
        net = model.build(num_tokens, width)
        release_init(net)
        return net

    says = {
        "model": name,
        "title": model.title,
        "content": content,
        "width": width,
        "published_epochs": whole.epochs,
        "published": model.published,
    }
    return Trial(
        (f"{recipe.epochs}_epochs_{options.matmul_precision}_{content}", name, f"seed_{seed}"),
        recipe,
        build,
        lambda net, recipe, **where: fit_language_model(net, corpus, recipe, **where),
        lambda net, fitted: {
            "valid_perplexity": fitted.score,
            "test_perplexity": perplexity(net, corpus.test),
        },
        says,
    )


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


TABLE = Table(
    "Penn Treebank",
    [
        ("model", first("title")),
        ("parameters", lambda runs: f"{runs[0]['parameters'] / 1e6:.2f}M"),
        ("d", first("width")),
        ("seeds", count),
        ("epochs", lambda runs: str(epochs_of(runs))),
        ("of", lambda runs: of_recipe(runs[0])),
        ("valid", scored("valid_perplexity")),
        ("test", scored("test_perplexity")),
        ("published", first("published")),
        ("s / epoch", seconds_per_epoch),
    ],
    lambda run: (list(MODELS).index(run["model"]), run["recipe"]["epochs"]),
    LEGEND,
)
main = Experiment("ptb", __doc__, PTBOptions, pages).main
