"""Speed of recursive-recurrent networks: the batched search beside a loop over candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from wlkernelnn.bench.harness.races import Known, Race, RaceOf, RaceOptions, Ratio
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.sequence import RRNN, RRNNGRU
from wlkernelnn.sequence.rrnn import TreeLoss
from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.naive import search_naive
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown

from .strings import gradients

# Of Qian et al., appendix E.2: width, batch and scorer on Wiki-5k.
CHANNELS, STRINGS, HIDDEN = 100, 16, 256
TUPLES = 3
ROUNDS = (4, 8)
# The paper's, and that of "wlkernelnn benchmark rrnn".
CHOICES = ("softmax", "hard")
GRU_LENGTH = 20
GOAL = 30

LEGEND = f"""Tokens per second of a training step: forwards, the loss (6) with the GRU as target, and
backwards; {STRINGS} strings of a token, {CHANNELS} channels, {TUPLES} tuples and the identity, two
operations, four activations, {HIDDEN} hidden units in the scorer, float32.

* RRNN: N̄ is the number of rounds; nodes are sums over all candidates (softmax), or the best one without
  gradients for the others (hard). "loop": Algorithm 1 as it stands, string by string and candidate by
  candidate; "loop, all strings at once": candidate by candidate. Otherwise model and step are the same.
* RRNNGRU, strings of {GRU_LENGTH} tokens, beside torch.nn.GRU: what the choice of tuples costs, without the
  loss of trees.
"""


class Looped(RRNN):
    """The same model with Algorithm 1 as it stands, for all strings at once."""

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        return self._searched(torch.stack(pool.nodes, 1), choice)

    def _searched(self, start: Tensor, choice: Choice) -> Grown:
        same = torch.eye(self.out_channels).expand(2, 1, -1, -1)
        weight, bias = torch.cat([self.tuples.weight, same], 1), self.tuples.biases()
        how, temperature = choice.how, choice.temperature
        return search_naive(start, weight, bias, self.space, self.scorer, self.ends[-1], how, temperature)


class LoopedByString(Looped):
    """The same, string by string."""

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        strings = torch.stack(pool.nodes, 1).split(1)
        parts = zip(*(self._searched(start, choice) for start in strings), strict=True)
        return Grown(*map(torch.cat, parts))


def _training_step(model: TreeModel, x: Tensor) -> Callable[[], None]:
    criterion = TreeLoss()
    model.keep_trees = True

    def step() -> None:
        model.zero_grad(set_to_none=True)
        out, _ = model(x)
        criterion(out.square().sum() / len(x), model, model.parameters()).total.backward()

    return step


def measure_search(num_rounds: int, choice: str, race: RaceOf) -> Iterator[Ratio]:
    """The search beside the loops."""
    x = torch.randn(STRINGS, 1, CHANNELS)
    loops = {"loop": (LoopedByString, GOAL), "loop, all strings at once": (Looped, None)}
    for against, (loop, goal) in loops.items():
        ours, theirs = (
            model(CHANNELS, CHANNELS, num_rounds, TUPLES, hidden_channels=HIDDEN, choice=choice, norm=None)
            for model in (RRNN, loop)
        )
        theirs.load_state_dict(ours.state_dict())
        sides = (_training_step(model, x) for model in (ours, theirs))
        yield race(f"RRNN, N̄ = {num_rounds}, {choice}", against, *sides, STRINGS, goal)


def measure_gru(race: RaceOf) -> Iterator[Ratio]:
    """The network of GRU trees beside the GRU."""
    x = torch.randn(STRINGS, GRU_LENGTH, CHANNELS)
    ours = RRNNGRU(CHANNELS, CHANNELS, TUPLES)
    theirs = torch.nn.GRU(CHANNELS, CHANNELS, batch_first=True)
    sides = (gradients(model, x, of_x=False) for model in (ours, theirs))
    yield race("RRNNGRU", "GRU", *sides, STRINGS * GRU_LENGTH)


@dataclass
class RRNNSpeedOptions(RaceOptions):
    """How contestants take turns, and where results go: fewer rounds, as a turn of a loop takes long."""

    rounds: PositiveInt = 2


def measure(options: RRNNSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    race = options.race(min_seconds=0.2)
    for num_rounds in ROUNDS[:1] if options.quick else ROUNDS:
        for choice in CHOICES:
            yield from measure_search(num_rounds, choice, race)
    yield from measure_gru(race)


TITLE = "Speed of recursive-recurrent networks"
main = Race("rrnn-speed", __doc__, RRNNSpeedOptions, TITLE, LEGEND, measure).main
