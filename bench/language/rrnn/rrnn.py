"""Recursive-recurrent networks beside the GRU: Table 1 of Qian et al. with our figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wlkernelnn.bench.harness.cells import Cell, Record, cell, seconds_per_epoch, survivors, thousands
from wlkernelnn.bench.harness.experiment import Experiment, Page, Trial
from wlkernelnn.bench.harness.provenance import digest_of_strings
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.tables import markdown
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen
from wlkernelnn.datasets import PackedStrings
from wlkernelnn.sequence.rrnn import gradient_constants, state_gradients
from wlkernelnn.training import TreeFit, TreeOptions, fit_trees, score_strings
from wlkernelnn.training.text.trees import tree_model_of

from .pictures import draw
from .tasks import (
    BIAS_STD,
    CHANNELS,
    IMITATION,
    LENGTH,
    ROUNDS,
    TASKS,
    TEMPERATURE,
    TUPLES,
    WARM_START,
    Network,
    Strings,
    build,
)

# Not published: how long, and the bound of gradients where the paper has none.
RECIPE: dict[str, Any] = {"epochs": 100, "patience": 15, "gradient_clip": 5.0}
# Learning rates that are tried, beside the published one.
FACTORS = (1.0, 1 / 3, 3.0)
NUM_DIAGNOSED = 64

LEGEND = f"""* Bits per character (bpc), accuracy in per cent, perplexity, with hard choices. The
  weights are those of the epoch with the best validation score. By default three learning rates are tried
  for every model: the published one, a third of it and three times it; "0.001 of 2" is the best of two on
  the validation part, and "epochs" and "s / epoch" are of this run. The test part is scored with the kept
  weights.
* Wiki: letters a to z and blanks; 5,000 or 10,000 snippets of {LENGTH} for training, 1,000 for validation
  and 2,000 for the test, drawn from a text of Wikipedia that is not the Hutter prize's: **figures do not
  compare with the paper's, only models with each other.** Embeddings of letters are learned; the paper took
  GloVe's.
* SST: sentences, all of the validation and test parts (the paper drew 1,000 and 2,000), labels at the last
  token, without the paper's zeros before the first. PTB: snippets of {LENGTH} words, 10,000, 1,000 and
  2,000, each drawn from its own part of the treebank; 10,000 different words. GloVe's vectors are fixed;
  words without one are 0. A snippet has {LENGTH - 1} labels.
* Width {CHANNELS}, one layer, Adam. Batch size, learning rate, λ1 … λ4, margin, width of the scorer, bound
  of the gradient and alternation are those of appendix E.2. Not published, and chosen here: N̄ = {ROUNDS};
  {TUPLES} tuples and the identity; + and ×; σ, tanh, 1 − v and v; the GRU as target, with the minimum over
  isomorphic ones; the best candidate in training too, of RRNN-GRU with gradients of a softmax at temperature
  {TEMPERATURE}; nodes of RRNN normalised over their channels (the paper
  has batch normalisation), of RRNN-GRU bounded; a linear output layer on x_t and h_t; λ_4 is of all
  parameters but embeddings; the batch size of RRNN-GRU on SST, 32; gradient norm at most
  {RECIPE["gradient_clip"]:g} where the paper has no bound; at most {RECIPE["epochs"]} epochs, stopped after
  {RECIPE["patience"]} without a better validation score.
* RRNN's scorer imitates the GRU's trees, which is not the paper's: {IMITATION:g} times the improbability
  of their nodes, made of RRNN's own tuples, is part of its loss; for {WARM_START} epochs all trees are the
  GRU's in training, and then RRNN's own. The choice is hard, without gradients for the scorer: it learns by
  imitation and margin alone. Biases have a standard deviation of {BIAS_STD:g} at first. The first state is
  learned, as all products with 0 are the same vector. Validation is always with RRNN's own trees. All this
  was chosen in some twenty short trials on Wiki-5k, seed 0, by validation strings and by how many trees were
  the GRU's; the GRU was not searched beyond its learning rates.
* "epochs": training so far, and the best one; "stopped": how many runs, over learning rates and seeds,
  reached the end of this recipe. **A row that was not stopped by the recipe is not a result yet.**
"""


@dataclass
class RRNNOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: rrnn, rrnn-gru and gru, of those that a task has; by default all.
        tasks: Which tasks: wiki-5k, wiki-10k, sst, ptb; by default all.
        rates: How many learning rates are tried: the published one, a third of it, and three times it.
        glove: File of word vectors in GloVe's format, of any width.
    """

    run_dir: Path = Path("runs/rrnn")
    tasks: list[str] | None = None
    rates: int = len(FACTORS)
    glove: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.rates <= len(FACTORS):
            raise ValueError(f"--rates: expected from 1 to {len(FACTORS)}, got {self.rates}")


def pages(options: RRNNOptions) -> Iterator[Page]:
    tasks = chosen("tasks", options.tasks, TASKS)
    names = chosen("models", options.models, ("rrnn", "rrnn-gru", "gru"))
    for task in options.tasks or ():
        if not any(name in TASKS[task].models for name in names):
            there = ", ".join(TASKS[task].models)
            raise ValueError(f"--models: {task} has {there}, got {', '.join(names)}")
    # What is missing is said before anything is trained.
    loaded = {task: TASKS[task].load(options.root, options.glove) for task in tasks}
    for task, strings in loaded.items():
        if options.quick:
            strings = strings.shortened()
        content = digest_of_strings(strings, *([] if strings.vectors is None else [strings.vectors]))
        trials = (
            trial(task, name, seed, factor, strings, content, options)
            for name in names
            if name in TASKS[task].models
            for seed in options.all_seeds
            for factor in FACTORS[: 1 if options.quick else options.rates]
        )
        table = replace(TABLE, title=f"{TABLE.title}: {TASKS[task].title}")
        same_data = on_same_data("task", {task: content})
        yield Page(
            table, trials, f"rrnn_{task}", same_data, draw=lambda runs, path: draw(best_runs(runs), path)
        )


def trial(
    task_name: str, name: str, seed: int, factor: float, strings: Strings, content: str, options: RRNNOptions
) -> Trial:
    task = TASKS[task_name]
    model = task.models[name]
    recipe = TreeOptions(**RECIPE | model.training, **options.of_run(seed))
    recipe = replace(recipe, lr=factor * recipe.lr)

    def fit(network: Network, recipe: TreeOptions, **where: Any) -> TreeFit:
        return fit_trees(network, strings.train, strings.valid, task.metric, recipe, **where)

    def score(network: Network, fitted: TreeFit) -> Record:
        kept = (0, fitted.epoch) if fitted.common else ()  # of the first and of the best epoch
        return {
            "valid": fitted.score,
            "test": score_strings(network, strings.test, task.metric),
            "common_trees": {str(epoch): fitted.common[epoch] for epoch in kept},
            **diagnose(network, strings.valid),
        }

    of_data = f"{task_name}_{options.matmul_precision}_{content}"
    says = {
        "task": task_name,
        "model": name,
        "content": content,
        "hidden_channels": model.hidden_channels,
        "metric": task.metric,
        "published": model.published,
    }
    return Trial(
        (of_data, name, f"lr_{recipe.lr:.3g}", f"seed_{seed}"),
        recipe,
        partial(build, name, task, strings),
        fit,
        score,
        says,
    )


def diagnose(network: Network, strings: PackedStrings) -> Record:
    """Norms of ∂E_T/∂h_t for strings of one length, and the constants of theorems 7 and 8 for them.

    E_t is the loss of the output layer alone.
    """
    same = np.flatnonzero((strings.lengths == strings.lengths.median()).numpy())[:NUM_DIAGNOSED]
    some = strings.select(same)
    device = network.head.weight.device
    labels = some.y.view(len(some), -1).to(device)
    encoder = network.encoder
    x = network.embedding(some.tokens.long().to(device)).view(len(some), -1, encoder.in_channels).detach()

    def nll(x: torch.Tensor, h: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = network.head(torch.cat([x, h], -1))
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="sum")

    state = network.first_state(len(x))
    norms = state_gradients(encoder, x, lambda h: nll(x[:, -1], h, labels[:, -1]), state).mean(1)
    found: Record = {"gradient_norms": norms.tolist()}
    trees = tree_model_of(network)
    if trees is not None:
        trees.keep_trees = True
        with torch.no_grad():
            h, _ = trees(x, state=state)
        h.requires_grad_()
        last = slice(-labels.size(1), None)
        loss = nll(x[:, last], h[:, last], labels)
        (gradients,) = torch.autograd.grad(loss, h)
        constants = gradient_constants(trees, gradients.flatten(0, 1))
        follows = {name: getattr(constants, name) for name in ("vanishing", "may_explode")}
        found["constants"] = asdict(constants) | follows
    return found


def best_runs(records: Sequence[Record]) -> list[Record]:
    """Of every task, model and seed the run whose learning rate has the best validation score."""
    runs: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        runs.setdefault((record["task"], record["model"], record["seed"]), []).append(record)
    return [max(same, key=_goodness) for same in runs.values()]


def _goodness(record: Record) -> float:
    """Validation score of a run, the more the better; one that diverged is worse than all."""
    if "diverged" in record:
        return -math.inf
    return (1 if record["metric"] == "accuracy" else -1) * float(record["valid"])


def _scores(part: str) -> Cell:
    def scores(runs: list[Record]) -> str:
        best, task = best_runs(runs), TASKS[runs[0]["task"]]
        scale = 100 if task.metric == "accuracy" else 1
        return cell([scale * run[part] for run in survivors(best)], best, task.digits)

    return scores


def learning_rates(runs: list[Record]) -> str:
    """The learning rates of the best runs, and how many were tried."""
    rates = ", ".join(dict.fromkeys(f"{run['recipe']['lr']:.2g}" for run in best_runs(runs)))
    return f"{rates} of {_span(Counter(run['seed'] for run in runs).values())}"


def _epochs(runs: list[Record]) -> str:
    best = best_runs(runs)
    bests = [run["best_epoch"] + 1 for run in survivors(best)]
    return f"{_span(run['epochs'] for run in best)}, best {_span(bests) if bests else '–'}"


def _span(values: Iterable[int]) -> str:
    first, *_, last = sorted(values) * 2
    return f"{first}–{last}" if first < last else str(first)


DIAGNOSED = """* Gradients and trees of the kept weights, below: for validation strings of one length,
  C_1 … C_5 of theorem 7 with the output layer's loss as E_t (the identity counts in C_1, norms of nodes do
  not); whether C_1 C_2 C_3 < 1/2, so that gradients vanish by theorem 7; whether a condition of theorem 8
  holds, without which they cannot explode (with tanh or + one always does); the norm of ∂E_T/∂h_1 by that
  of ∂E_T/∂h_T; and N_e, the nodes of all validation strings whose tuple is another than an epoch before, at
  the second and at the last epoch.
"""


def diagnosed(records: Sequence[Record]) -> str:
    """What is known of gradients and trees, as a second table, for the first seed of every row."""
    columns = ("task", "model", "C_1", "C_2", "C_3", "C_4", "C_5", "theorem 7", "theorem 8")
    rows: list[tuple[str, ...]] = [(*columns, "first / last gradient", "N_e")]
    for record in best_runs(records):
        if record["seed"] or "constants" not in record:
            continue
        task, constants, norms = TASKS[record["task"]], record["constants"], record["gradient_norms"]
        changes = [epoch["changed_tuples"] for epoch in record["history"] if "changed_tuples" in epoch]
        cells = (
            task.title,
            task.models[record["model"]].title,
            *(f"{constants[f'c{i}']:.3g}" for i in range(1, 6)),
            *("yes" if constants[theorem] else "no" for theorem in ("vanishing", "may_explode")),
            f"{norms[0] / norms[-1]:.2g}",
            f"{changes[0]:,.0f} → {changes[-1]:,.0f}" if changes else "–",
        )
        rows.append(cells)
    return f"{DIAGNOSED}\n{markdown(rows)}\n" if len(rows) > 1 else ""


TABLE = Table(
    "Recursive-recurrent networks",
    [
        ("task", lambda runs: f"{TASKS[runs[0]['task']].title} ({TASKS[runs[0]['task']].metric})"),
        ("model", lambda runs: TASKS[runs[0]["task"]].models[runs[0]["model"]].title),
        ("size", thousands("parameters")),
        ("learning rate", learning_rates),
        ("seeds", lambda runs: str(len(best_runs(runs)))),
        ("epochs", _epochs),
        ("stopped", lambda runs: f"{sum(run['stopped'] for run in runs)} of {len(runs)}"),
        ("valid", _scores("valid")),
        ("paper", lambda runs: runs[0]["published"][0]),
        ("test", _scores("test")),
        ("paper", lambda runs: runs[0]["published"][1]),
        ("s / epoch", lambda runs: seconds_per_epoch(best_runs(runs))),
    ],
    lambda run: (list(TASKS).index(run["task"]), list(TASKS[run["task"]].models).index(run["model"])),
    lambda runs: LEGEND + diagnosed(runs),
    which=lambda run: (run["seed"], run["recipe"]["lr"]),
)
main = Experiment("rrnn", __doc__, RRNNOptions, pages).main
