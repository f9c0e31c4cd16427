"""Language modelling with the cell exchanged: Table 3 of Liang et al. 2019 beside our figures."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.nn.inits import uniform

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Trial
from wlkernelnn.bench.harness.provenance import digest
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, check_shorten, chosen
from wlkernelnn.datasets import Corpus, load_ptb, load_wikitext
from wlkernelnn.sequence import RKM, LanguageModel, Stack, WeightDrop
from wlkernelnn.training import AWDOptions, FitResult, fit_awd, perplexity

# Merity et al. 2018, as their release has it: embeddings, and what each layer writes.
WIDTHS = (400, 1150, 1150, 400)
WEIGHT_DROP, WORD_DROPOUT = 0.5, 0.1
QUICK_TOKENS = {"train": 2_000, "valid": 1_000, "test": 200}


@dataclass(frozen=True)
class Text:
    """What the recipe is for a corpus: dropout on embeddings and output, and between layers."""

    title: str
    dropout: tuple[float, float]
    between: float
    training: dict[str, Any] = field(default_factory=dict)


TEXTS = {
    "ptb": Text("PTB", dropout=(0.4, 0.4), between=0.25),
    "wikitext-2": Text(
        "WikiText-2", dropout=(0.65, 0.4), between=0.2, training={"epochs": 750, "batch_size": 80}
    ),
}
# Perplexities on the validation and the test part in the paper, of each text.
_PUBLISHED: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "lstm": ("LSTM", {"ptb": ("61.2", "58.9"), "wikitext-2": ("68.74", "65.68")}),
    "rkm_lstm": ("RKM-LSTM", {"ptb": ("60.3", "58.2"), "wikitext-2": ("67.85", "65.22")}),
    "rkm_cifg": ("RKM-CIFG", {"ptb": ("61.9", "59.5"), "wikitext-2": ("69.12", "66.03")}),
    "linear_gated": ("Linear w/ o", {"ptb": ("72.3", "69.7"), "wikitext-2": ("84.23", "80.21")}),
}
# An LSTM with layer norm is not the paper's.
MODELS = {
    f"{variant.replace('_', '-')}{suffix}": Row(
        f"{title}{', LN' if suffix else ''}",
        {} if (variant, suffix) == ("lstm", "-norm") else published,
        {"variant": variant} | ({} if suffix else {"layer_norm": False}),
    )
    for suffix in ("", "-norm")
    for variant, (title, published) in _PUBLISHED.items()
}
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


def pages(options: AWDLMOptions) -> Iterator[Page]:
    names = chosen("models", options.models, MODELS)
    texts = corpora(options)
    contents = {text: digest(corpus.train, corpus.valid, corpus.test) for text, corpus in texts.items()}
    trials = (
        trial(text, name, seed, corpus, contents[text], options)
        for text, corpus in texts.items()
        for name in names
        for seed in options.all_seeds
    )
    yield Page(TABLE, trials, same_data=on_same_data("text", contents))


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


def build(layer: Mapping[str, Any], num_tokens: int, text: Text) -> LanguageModel:
    layers = [
        WeightDrop(RKM(width, next_width, **layer), "lin_h.weight", WEIGHT_DROP)
        for width, next_width in itertools.pairwise(WIDTHS)
    ]
    encoder = Stack(layers, text.between, locked=True)
    net = LanguageModel(num_tokens, encoder, text.dropout, locked=True, word_dropout=WORD_DROPOUT)
    awd_init(net)
    return net


def trial(text: str, name: str, seed: int, corpus: Corpus, content: str, options: AWDLMOptions) -> Trial:
    model = MODELS[name]
    whole = AWDOptions(**TEXTS[text].training, **options.of_run(seed))
    recipe = whole if options.shorten is None else shortened(whole, options.shorten)
    if options.lr is not None:
        recipe = replace(recipe, lr=options.lr)

    def score(net: LanguageModel, fitted: FitResult) -> Record:
        averaged = (epoch["epoch"] for epoch in fitted.history if epoch["averaged_steps"])
        return {
            "averaged_from": next(averaged, None),
            "valid_perplexity": fitted.score,
            "test_perplexity": perplexity(net, corpus.test),
        }

    trained_as = f"{recipe.epochs}_epochs_lr_{recipe.lr}_{options.matmul_precision}"
    says = {
        "text": text,
        "model": name,
        "content": content,
        "layer": model.arguments,
        "published_epochs": whole.epochs,
        "published": model.published.get(text, ("–", "–")),
    }
    return Trial(
        (trained_as, f"{text}_{content}", name, f"seed_{seed}"),
        recipe,
        partial(build, model.arguments, len(corpus.vocabulary), TEXTS[text]),
        lambda net, recipe, **where: fit_awd(net, corpus, recipe, **where),
        score,
        says,
    )


def shortened(recipe: AWDOptions, epochs: int) -> AWDOptions:
    """Fewer epochs, and averaging of weights that starts earlier."""
    check_shorten(epochs, recipe.epochs)
    nonmonotone = max(1, round(recipe.nonmonotone * epochs / recipe.epochs))
    return replace(recipe, epochs=epochs, nonmonotone=nonmonotone)


@torch.no_grad()
def awd_init(net: LanguageModel) -> None:
    """Initial weights as in the authors' release: torch's of an LSTM, and embeddings uniform in ±0.1."""
    torch.nn.init.uniform_(net.embedding.weight, -0.1, 0.1)
    for layer in net.modules():
        if isinstance(layer, RKM):
            for lin in (*layer.lins, layer.lin_h):
                if lin is not None:
                    uniform(layer.out_channels, lin.weight)


def _averaged_from(runs: list[Record]) -> str:
    """From which epoch on each run has averages of its weights, counted from 1."""
    begins = (run["averaged_from"] for run in cells.survivors(runs))
    return ", ".join("–" if begin is None else f"{begin + 1:.0f}" for begin in begins) or "–"


TABLE = Table(
    "AWD language models",
    [
        ("text", lambda runs: TEXTS[runs[0]["text"]].title),
        ("model", lambda runs: MODELS[runs[0]["model"]].title),
        ("size", lambda runs: f"{runs[0]['parameters'] / 1e6:.1f}M"),
        ("lr", lambda runs: f"{runs[0]['recipe']['lr']:g}"),
        ("seeds", cells.count),
        ("epochs", lambda runs: f"{cells.epochs_of(runs)} of {cells.of_recipe(runs[0])}"),
        ("averaged", _averaged_from),
        ("valid", cells.scored("valid_perplexity")),
        ("paper", lambda runs: runs[0]["published"][0]),
        ("test", cells.scored("test_perplexity")),
        ("paper", lambda runs: runs[0]["published"][1]),
        ("s/epoch", cells.seconds_per_epoch),
    ],
    lambda run: (
        list(TEXTS).index(run["text"]),
        list(MODELS).index(run["model"]),
        run["recipe"]["epochs"],
        run["recipe"]["lr"],
    ),
    LEGEND,
)
main = Experiment("awd-lm", __doc__, AWDLMOptions, pages).main
