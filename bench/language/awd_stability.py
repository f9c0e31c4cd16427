"""Why RKM-LSTM diverges by the recipe of AWD-LSTM, and what makes it train: short runs, one change each."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Record, first
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Run
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.harness.provenance import digest
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import ProcessorOptions, chosen, kept
from wlkernelnn.datasets import RandomBPTTLoader, load_ptb
from wlkernelnn.sequence import RKM, LanguageModel, Stack, WeightDrop, detached
from wlkernelnn.training import AWDOptions, perplexity
from wlkernelnn.training.text.awd import slowness
from wlkernelnn.training.text.scores import negative_log_likelihood

from .awd_lm import WEIGHT_DROP, awd_init
from .awd_steps import mean_forget, sizes_of, summary

# Narrow layers on the beginning of the treebank, with its most frequent words only.
WIDTHS = (64, 128, 128, 64)
NUM_WORDS, TRAIN_TOKENS, SCORED_TOKENS = 2_000, 200_000, 10_000
# A memory that large does not come back.
LARGEST_STATE = 1e6
# A root mean square of h below which the softmax hears its own bias only.
SILENT = 0.01
QUICK_STEPS = 3


@dataclass(frozen=True)
class Change(Row):
    """A row: the recipe of AWD-LSTM but for this; ``arguments`` of the layers, ``training`` of the recipe."""

    warm_up: int = 0  # steps in which the learning rate rises
    weight_drop: float = WEIGHT_DROP
    embeddings: float = 0.1  # bound of their values, at first
    zero_biases: bool = False  # at first, but for that of f, which is 1: the release's
    carried: bool = True  # the state, from stretch to stretch
    times: int = 1  # as many steps as the other rows


_PLAIN: dict[str, Any] = {"variant": "rkm_lstm", "layer_norm": False}
_OUTPUT, _STATE = (_PLAIN | {"layer_norm": norm} for norm in ("output", "state"))
_SLOW: dict[str, Any] = {"lr": 3.0}
CHANGES = {
    "lstm": Change("LSTM", arguments=_PLAIN | {"variant": "lstm"}),
    "rkm-lstm": Change("RKM-LSTM", arguments=_PLAIN),
    "lr-10": Change("RKM-LSTM, learning rate 10", arguments=_PLAIN, training={"lr": 10.0}),
    "clip": Change(
        "RKM-LSTM, gradient norm at most 0.05", arguments=_PLAIN, training={"gradient_clip": 0.05}
    ),
    "warm-up": Change("RKM-LSTM, learning rate rises over 200 steps", arguments=_PLAIN, warm_up=200),
    "whole-weights": Change("RKM-LSTM, no recurrent weights dropped", arguments=_PLAIN, weight_drop=0.0),
    "not-carried": Change("RKM-LSTM, every stretch begins with 0", arguments=_PLAIN, carried=False),
    "zero-biases": Change("RKM-LSTM, biases 0, that of f 1", arguments=_PLAIN, zero_biases=True),
    "embeddings": Change("RKM-LSTM, embeddings in ±1", arguments=_PLAIN, embeddings=1.0),
    "ln-output": Change("RKM-LSTM, h sees LN(c)", arguments=_OUTPUT),
    "ln-state": Change("RKM-LSTM, LN(c) is carried", arguments=_STATE),
    "lstm-slow": Change("LSTM, learning rate 3", arguments=_PLAIN | {"variant": "lstm"}, training=_SLOW),
    "ln-output-slow": Change("RKM-LSTM, h sees LN(c), learning rate 3", arguments=_OUTPUT, training=_SLOW),
    "ln-state-slow": Change("RKM-LSTM, LN(c) is carried, learning rate 3", arguments=_STATE, training=_SLOW),
    "lr-10-long": Change(
        "RKM-LSTM, learning rate 10, 3 times as long", arguments=_PLAIN, training={"lr": 10.0}, times=3
    ),
    "lstm-slow-long": Change(
        "LSTM, learning rate 3, 3 times as long",
        arguments=_PLAIN | {"variant": "lstm"},
        training=_SLOW,
        times=3,
    ),
    "ln-state-slow-long": Change(
        "RKM-LSTM, LN(c) is carried, learning rate 3, 3 times as long",
        arguments=_STATE,
        training=_SLOW,
        times=3,
    ),
    "cifg-slow": Change(
        "RKM-CIFG, LN(c) is carried, learning rate 3",
        arguments=_STATE | {"variant": "rkm_cifg"},
        training=_SLOW,
    ),
    "linear-slow": Change(
        "Linear w/ o, LN(c) is carried, learning rate 3",
        arguments=_STATE | {"variant": "linear_gated"},
        training=_SLOW,
    ),
}
LEGEND = f"""\
* **Shortened**: no row is a result for the treebank. Embeddings and layers of {", ".join(map(str, WIDTHS))}
  (the recipe has 400, 1150, 1150, 400), the first {TRAIN_TOKENS:,} tokens with their {NUM_WORDS:,} most
  frequent words, a few hundred steps, no dropout but of recurrent weights. All else is the recipe of
  benchmark awd-lm: SGD with learning rate 30, gradient norm at most 0.25, half of the recurrent weights
  dropped, AR 2, TAR 1. A row says what differs.
* outcome: "diverged": the loss is not finite, or a memory is beyond {LARGEST_STATE:.0e}; the run ends.
  "says nothing": the root mean square of h ends below {SILENT}, and the softmax hears little but its bias.
* valid: perplexity of the first {SCORED_TOKENS:,} tokens of the validation part.
* gradient: norm before it is clipped; "of layers": of what the three layers weigh, at the first step;
  "largest": of all weights, over all steps before it diverged. memory: the largest value of a c. h: root mean
  square of what the last layer writes, at the first and the last step. norm of H: the largest of the matrices
  that take h into c̃. f: the mean forget gate of the layer where it is largest.
* LN(c) is carried: the norm is inside the recurrence, as in the authors' release; h sees LN(c): c is carried
  raw. In the release weights are Glorot's, which for these layers are torch's; its biases have a row.
"""


@dataclass
class StabilityOptions(ProcessorOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all. A row takes about 25 seconds of one core, a long one 75.
        steps: Of training; runs of other lengths are other rows.
    """

    run_dir: Path = Path("runs/awd-stability")
    steps: int = 300


def pages(options: StabilityOptions) -> Iterator[Page]:
    names = chosen("models", options.models, CHANGES)
    texts = reduced(options.root)
    content = digest(*texts)
    steps = QUICK_STEPS if options.quick else options.steps
    runs = (short_run(name, seed, texts, content, steps) for name in names for seed in options.all_seeds)
    yield Page(TABLE, runs, same_data=on_same_data("text", {"ptb": content}))


def reduced(root: str | None) -> tuple[Tensor, Tensor]:
    """Token ids of the beginnings of the treebank's training and validation part."""
    corpus = load_ptb(root)
    train, valid = corpus.train[:TRAIN_TOKENS], corpus.valid[:SCORED_TOKENS]
    by_frequency = train.bincount(minlength=len(corpus.vocabulary)).argsort(descending=True, stable=True)
    # The rarest of the words stands for all others.
    number = by_frequency.argsort().clamp(max=NUM_WORDS - 1)
    return number[train], number[valid]


def short_run(name: str, seed: int, texts: tuple[Tensor, Tensor], content: str, steps: int) -> Run:
    """A run of a row: its record, as the harness keeps it."""
    change = CHANGES[name]
    steps *= change.times
    recipe = AWDOptions(**change.training, seed=seed, epochs=1)

    def run(options: StabilityOptions, known: Record) -> Record:
        def train() -> Record:
            torch.manual_seed(seed)
            net = build(change)
            says = {"text": "ptb", "model": name, "content": content, "seed": seed, "recipe": asdict(recipe)}
            sizes = {"parameters": count_parameters(net), "steps": steps}
            return {**says, **sizes, **followed(net, change, recipe, texts, steps), **known}

        return kept(options.folder(f"{steps}_steps_{content}", name, f"seed_{seed}"), 1, train, known)

    return run


def build(change: Change) -> LanguageModel:
    """AWD-LSTM's model, narrow, with its initial weights but for what a row changes."""
    layers = [RKM(width, next_width, **change.arguments) for width, next_width in itertools.pairwise(WIDTHS)]
    dropped = [WeightDrop(layer, "lin_h.weight", change.weight_drop) for layer in layers]
    net = LanguageModel(NUM_WORDS, Stack(dropped))
    awd_init(net)
    with torch.no_grad():
        net.embedding.weight.uniform_(-change.embeddings, change.embeddings)
        for layer in layers:
            if change.zero_biases:
                assert layer.bias is not None
                layer.bias.copy_(torch.eye(3)[1].repeat_interleave(layer.out_channels))  # of i, f and o
    return net


def followed(
    net: LanguageModel, change: Change, recipe: AWDOptions, texts: tuple[Tensor, Tensor], steps: int
) -> Record:
    """Train by the recipe of AWD-LSTM, and write down what each step was like, or when it diverged."""
    train, valid = texts
    batches = RandomBPTTLoader(train, recipe.batch_size, recipe.bptt, recipe.seed)
    sgd = torch.optim.SGD(net.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    history: list[dict[str, float]] = []
    state, start = None, time.process_time()
    layers = [part for part in net.modules() if isinstance(part, RKM)]
    seen: dict[RKM, tuple[Tensor, Tensor]] = {}  # tokens and outputs of the layers in step order
    for layer in layers:
        layer.register_forward_hook(lambda layer, inputs, out: seen.update({layer: (inputs[0], out[0])}))
    net.train()
    for step, (inputs, targets) in enumerate(itertools.islice(_endless(batches), steps)):
        rise = min(1.0, (step + 1) / change.warm_up) if change.warm_up else 1.0
        sgd.param_groups[0]["lr"] = recipe.lr * rise * inputs.size(1) / recipe.bptt
        h, after = net.read(inputs, state=state)
        state = detached(after) if change.carried else None
        dropped = net.drop(h)
        loss = negative_log_likelihood(net.predict(dropped), targets) / targets.numel()
        penalty = recipe.activation * dropped.square().mean() + recipe.slowness * slowness(h)
        sgd.zero_grad()
        (loss + penalty).backward()
        history.append({"loss": loss.item(), **sizes_of(net, layers, h, detached(after))})
        if not (math.isfinite(loss.item()) and history[-1]["state"] < LARGEST_STATE):
            steps_before = summary(history[:-1] or history)
            return {"epochs": 0, "stopped": True, "diverged": step, "history": steps_before}
        if step % 25 == 0 or step == steps - 1:
            history[-1]["forget"] = max(mean_forget(layer, *seen[layer], len(inputs)) for layer in layers)
        torch.nn.utils.clip_grad_norm_(net.parameters(), recipe.gradient_clip)
        sgd.step()
    return {
        "epochs": 1,
        "stopped": True,
        "valid_perplexity": perplexity(net, valid),
        "seconds": time.process_time() - start,
        "history": summary(history),
    }


def _endless(batches: RandomBPTTLoader) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from batches


def _of_steps(which: str, name: str) -> cells.Cell:
    """A number of the steps that were followed by another; a row has one run."""

    def cell(runs: list[Record]) -> str:
        value = runs[0]["history"][which][name]
        # A file has null for what is beyond all numbers.
        return f"{math.inf if value is None else value:.2g}"

    return cell


def _outcome(runs: list[Record]) -> str:
    run = runs[0]
    if "diverged" in run:
        return f"diverged at step {run['diverged'] + 1}"
    if run["valid_perplexity"] > NUM_WORDS:
        return "worse than guessing"
    return "says nothing" if run["history"]["last"]["output"] < SILENT else "trains"


def _layers_at_first(runs: list[Record]) -> str:
    step = runs[0]["history"]["first"]
    return f"{math.hypot(step['gradient_lins'], step['gradient_lin_h']):.2g}"


TABLE = Table(
    "AWD language models, short runs",
    [
        ("", lambda runs: CHANGES[runs[0]["model"]].title),
        ("steps", first("steps")),
        ("outcome", _outcome),
        ("valid", lambda runs: "–" if "diverged" in runs[0] else f"{runs[0]['valid_perplexity']:.1f}"),
        ("gradient of layers, first", _layers_at_first),
        ("gradient, largest", _of_steps("largest", "gradient")),
        ("memory, largest", _of_steps("largest", "state")),
        ("h, first", _of_steps("first", "output")),
        ("h, last", _of_steps("last", "output")),
        ("norm of H, last", _of_steps("last", "recurrent")),
        ("f, last", _of_steps("last", "forget")),
    ],
    lambda run: (list(CHANGES).index(run["model"]), run["steps"]),
    LEGEND,
)
main = Experiment("awd-stability", __doc__, StabilityOptions, pages).main
