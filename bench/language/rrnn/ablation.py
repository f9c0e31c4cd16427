"""What RRNN and RRNN-GRU lose beside the GRU: short runs from the GRU to RRNN, one change after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wlkernelnn.bench.harness.cells import Record, cell, epochs_of, out_of, survivors, thousands
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Trial
from wlkernelnn.bench.harness.provenance import digest_of_strings
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen
from wlkernelnn.bench.language.recurrent import Recurrent
from wlkernelnn.datasets import StringLoader
from wlkernelnn.sequence import RRNN, RRNNGRU, StringModel
from wlkernelnn.sequence.rrnn import GRU, tree_counts
from wlkernelnn.training import TreeFit, TreeOptions, fit_trees, score_strings
from wlkernelnn.training.text.scores import EVALUATION_BATCH

from .gru_trees import GrownGRU, MistakenGRU
from .rrnn import best_runs, learning_rates
from .tasks import BIAS_STD, CHANNELS, IMITATION, ROUNDS, TASKS, TEMPERATURE, TUPLES, Network, Strings

# So short that all rows fit into an hour or two of one core.
RECIPE: dict[str, Any] = {"epochs": 3, "batch_size": 64, "gradient_clip": 5.0}
NUM_VALID = 256
# Learning rates are drawn from here, evenly on a logarithmic scale.
SLOWEST, FASTEST, NUM_DRAWS = 3e-4, 3e-2, 5
# λ1 … λ4: the output's loss with a little weight decay, and the recipe of RRNN.
PLAIN, WHOLE, DECAYED = (1.0, 0.0, 0.0, 1e-5), (1.0, 1e-3, 1e-3, 1e-5), (1.0, 0.0, 0.0, 3e-3)


@dataclass(frozen=True)
class Change(Row):
    """A row; ``arguments`` are those of the cell, ``training`` those that differ from the short recipe."""

    kind: str = "tree"  # a key of KINDS
    learned_state: bool = False

    def build(self, strings: Strings) -> Network:
        encoder = KINDS[self.kind](**self.arguments)
        embedding = torch.nn.Embedding(strings.num_tokens, CHANNELS)
        return Network(embedding, encoder, strings.num_classes, last=False, learned_state=self.learned_state)


def _rrnn(kind: type[RRNN], **arguments: Any) -> RRNN:
    return kind(CHANNELS, CHANNELS, ROUNDS, TUPLES, **{"choice": "hard"} | arguments)


def _rrnn_gru(**arguments: Any) -> StringModel:
    return RRNNGRU(CHANNELS, CHANNELS, TUPLES, temperature=TEMPERATURE, **arguments)


def _mistaken(share: float, **arguments: Any) -> RRNN:
    cell = MistakenGRU(CHANNELS, CHANNELS, ROUNDS, TUPLES, choice="hard", **arguments)
    cell.mistaken = share
    return cell


KINDS: dict[str, Callable[..., StringModel]] = {
    "gru": lambda: Recurrent(torch.nn.GRU, CHANNELS, CHANNELS),
    "tree": partial(_rrnn, GrownGRU),
    "rrnn": partial(_rrnn, RRNN),
    "rrnn-gru": _rrnn_gru,
    "mistaken": _mistaken,
}
_PLAIN: dict[str, Any] = {"weights": PLAIN}
_BARE: dict[str, Any] = {"norm": None}
_OFFSETS = _BARE | {"bias_std": BIAS_STD}
_LAYER = _OFFSETS | {"norm": "layer"}
_OWN: dict[str, Any] = {"arguments": _LAYER | {"hidden_channels": 256}, "kind": "rrnn", "learned_state": True}
_IMITATION: dict[str, Any] = {"weights": WHOLE, "imitation": IMITATION}
CHANGES = {
    "gru": Change("GRU", kind="gru", training=_PLAIN),
    "gru-decay": Change("GRU, λ4 = 0.003", kind="gru", training={"weights": DECAYED}),
    "gru-clip": Change("GRU, gradient norm at most 1", kind="gru", training=_PLAIN | {"gradient_clip": 1.0}),
    "tree": Change("the GRU's tree", arguments=_BARE, training=_PLAIN),
    "tree-turns": Change(
        "the GRU's tree, tuples learn every second epoch",
        arguments=_BARE,
        training=_PLAIN | {"alternate": 1},
    ),
    "state": Change(
        "the GRU's tree + biases, first state", arguments=_OFFSETS, training=_PLAIN, learned_state=True
    ),
    "max": Change(
        "the GRU's tree + biases, first state, bound",
        arguments=_OFFSETS | {"norm": "max"},
        training=_PLAIN,
        learned_state=True,
    ),
    "batch": Change(
        "the GRU's tree + biases, first state, batch norm",
        arguments=_OFFSETS | {"norm": "batch"},
        training=_PLAIN,
        learned_state=True,
    ),
    "layer": Change(
        "the GRU's tree + biases, first state, layer norm",
        arguments=_LAYER,
        training=_PLAIN,
        learned_state=True,
    ),
    **{
        f"mistaken-{share}": Change(
            f"the same, but {share} % of the trees drawn by chance",
            kind="mistaken",
            arguments=_LAYER | {"share": share / 100},
            training=_PLAIN,
            learned_state=True,
        )
        for share in (1, 6)
    },
    "imitation": Change(
        "+ imitation; trees are the GRU's in training",
        training=_IMITATION | {"warm_start": RECIPE["epochs"]},
        **_OWN,
    ),
    "imitation-light": Change(
        "the same, weight of imitation 0.01",
        training=_IMITATION | {"warm_start": RECIPE["epochs"], "imitation": 0.01},
        **_OWN,
    ),
    "rrnn": Change("+ own trees from the third epoch: RRNN", training=_IMITATION | {"warm_start": 2}, **_OWN),
    "paper": Change(
        "RRNN without imitation: softmax of τ = 1, batch norm, own trees from the start",
        kind="rrnn",
        arguments={"norm": "batch", "hidden_channels": 256, "choice": "softmax"},
        training={"weights": WHOLE},
        learned_state=True,
    ),
    "rrnn-gru-hard": Change(
        "RRNN-GRU, hard", kind="rrnn-gru", arguments={"norm": "max", "choice": "hard"}, training=_PLAIN
    ),
    "rrnn-gru": Change(
        "RRNN-GRU, straight-through",
        kind="rrnn-gru",
        arguments={"norm": "max", "choice": "straight_through"},
        training=_PLAIN,
    ),
    "rrnn-gru-turns": Change(
        "RRNN-GRU, straight-through, tuples and scorer take turns, λ4 = 0.003, gradient norm at most 1",
        kind="rrnn-gru",
        arguments={"norm": "max", "choice": "straight_through"},
        training={"weights": DECAYED, "alternate": 1, "gradient_clip": 1.0},
    ),
}

LEGEND = f"""\
* **Shortened**: no row is a result. Wiki-5k, {RECIPE["epochs"]} epochs of {RECIPE["batch_size"]} strings
  a step, width {CHANNELS}; bits per character of the first {NUM_VALID} validation strings at the best epoch.
  All else is as in benchmark rrnn. A row says what differs from the one above it that it extends. In another
  kind of network a seed draws other first weights.
* learning rate: "0.0041 of 5" is the best on the validation part of five that are drawn, for all rows alike:
  evenly on a logarithmic scale from {SLOWEST:g} to {FASTEST:g}; "0.0041 of 1" was not chosen for the row.
* own trees: with the trees that the network grows, as everywhere else. the GRU's trees: the same weights,
  with the GRU's tree at every token. agree: share of tokens whose own tree is the GRU's, tuples included.
* the GRU's tree: the nodes of eq. (1) to (4), nothing is searched; without a norm and with biases of 0 it is
  the GRU (a test compares losses step by step). biases: of a standard deviation of {BIAS_STD:g} at first, not
  torch's. first state: learned, not 0. bound, batch norm, layer norm: of every node, gates too.
* drawn by chance: in training and validation alike, every node from all candidates of its round. 6 % is the
  share of tokens whose tree was not the GRU's at the end of the longest run of RRNN in benchmark rrnn.
* imitation: of weight {IMITATION:g}, as in benchmark rrnn; its gradients go to the scorer and to the tuples.
* RRNN: the scorer has 256 hidden units, λ = {", ".join(f"{w:g}" for w in WHOLE)}; elsewhere λ2 = λ3 = 0 and
  λ4 = {PLAIN[3]:g}. RRNN-GRU: the GRU's tree, whose nodes choose their tuples.
"""


@dataclass
class AblationOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows; by default all.
        rates: How many of the drawn learning rates are tried.
        lr: One learning rate instead.
    """

    run_dir: Path = Path("runs/rrnn-ablation")
    rates: int = NUM_DRAWS
    lr: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.rates <= NUM_DRAWS:
            raise ValueError(f"--rates: expected from 1 to {NUM_DRAWS}, got {self.rates}")
        if self.lr is not None and not 0 < self.lr < 1:
            raise ValueError(f"--lr: expected above 0 and below 1, got {self.lr}")


def drawn_rates() -> list[float]:
    """The learning rates of all rows."""
    logarithms = np.random.default_rng(0).uniform(np.log(SLOWEST), np.log(FASTEST), NUM_DRAWS)
    return [float(f"{rate:.2g}") for rate in np.exp(logarithms)]


def pages(options: AblationOptions) -> Iterator[Page]:
    names = chosen("models", options.models, CHANGES)
    task = TASKS["wiki-5k"]
    strings = task.load(options.root, None)
    strings = replace(strings, valid=strings.valid.select(np.arange(min(NUM_VALID, len(strings.valid)))))
    if options.quick:
        strings = strings.shortened()
    content = digest_of_strings(strings)
    rates = drawn_rates()[: 1 if options.quick else options.rates] if options.lr is None else [options.lr]
    trials = (
        trial(name, seed, lr, strings, content, options)
        for name in names
        for seed in options.all_seeds
        for lr in rates
    )
    yield Page(TABLE, trials, same_data=on_same_data("task", {"wiki-5k": content}))


def trial(name: str, seed: int, lr: float, strings: Strings, content: str, options: AblationOptions) -> Trial:
    change, metric = CHANGES[name], TASKS["wiki-5k"].metric
    recipe = TreeOptions(**RECIPE | change.training | {"lr": lr}, **options.of_run(seed))

    def fit(network: Network, recipe: TreeOptions, **where: Any) -> TreeFit:
        return fit_trees(network, strings.train, strings.valid, metric, recipe, **where)

    def score(network: Network, fitted: TreeFit) -> Record:
        return {"valid": fitted.score} | beside_gru(network, strings, metric)

    says = {"task": "wiki-5k", "model": name, "content": content, "metric": metric}
    folder = (f"{options.matmul_precision}_{content}", name, f"lr_{lr}", f"seed_{seed}")
    return Trial(folder, recipe, lambda: change.build(strings), fit, score, says)


@torch.no_grad()
def beside_gru(network: Network, strings: Strings, metric: str) -> Record:
    """Of a network that grows any trees: how it does with the GRU's instead, and how many are the GRU's."""
    trees = network.encoder
    if not isinstance(trees, RRNN) or isinstance(trees, (GrownGRU, MistakenGRU)):
        return {}
    network.eval()
    trees.keep_trees = True
    own: Counter[Any] = Counter()
    for batch in StringLoader(strings.valid, EVALUATION_BATCH):
        network(batch.x.to(network.head.weight.device), batch.ptr.to(network.head.weight.device))
        if trees.last_trees is not None:
            own.update(tree_counts(trees.last_trees))
    trees.cell = GRU
    score = score_strings(network, strings.valid, metric)
    assert trees.last_trees is not None
    (gru,) = tree_counts(trees.last_trees)
    trees.cell = None
    return {"valid_as_gru": score, "agree": own[gru] / own.total()}


def _of_best(name: str, scale: float, digits: int) -> Any:
    def text(runs: list[Record]) -> str:
        best = [run for run in survivors(best_runs(runs)) if name in run]
        return cell([scale * run[name] for run in best], best, digits) if best else "–"

    return text


def _train_bits(runs: list[Record]) -> str:
    """Bits per character of the last epoch's training, in training mode."""
    best = survivors(best_runs(runs))
    return cell([run["history"][-1]["train_loss"] / np.log(2) for run in best], best_runs(runs), 2)


TABLE = Table(
    "From the GRU to RRNN, short runs",
    [
        ("", lambda runs: CHANGES[runs[0]["model"]].title),
        ("size", thousands("parameters")),
        ("learning rate", learning_rates),
        ("seeds", lambda runs: str(len(best_runs(runs)))),
        ("epochs", lambda runs: out_of(epochs_of(runs), RECIPE["epochs"])),
        ("training, last epoch", _train_bits),
        ("valid, own trees", _of_best("valid", 1, 2)),
        ("the GRU's trees", _of_best("valid_as_gru", 1, 2)),
        ("agree, %", _of_best("agree", 100, 1)),
    ],
    lambda run: (list(CHANGES).index(run["model"]),),
    LEGEND,
    which=lambda run: (run["seed"], run["recipe"]["lr"]),
)
main = Experiment("rrnn-ablation", __doc__, AblationOptions, pages).main
