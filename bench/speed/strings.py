"""Speed of the string layers: scans beside loops, layers beside LSTM and GRU, ragged beside padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.bench.harness.races import Known, Race, RaceOf, RaceOptions, Ratio
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.datasets import LengthGroupedShuffle, PackedStrings, StringLoader
from wlkernelnn.ops.string import Steps, decayed_scan, decayed_scan_naive
from wlkernelnn.ops.string.ngram import SCANS
from wlkernelnn.sequence import LanguageModel, StringKernelConv, StringKernelNetwork
from wlkernelnn.training.text.replay import Replay

# Tokens of a string, and strings in a batch: of the same cost, more or less.
SHAPES = ((35, 32), (200, 32), (1000, 8))
CHANNELS = 256
NAIVE_UP_TO = 200
# Batches of an epoch.
GROUPED = 100
# Of the language model, of 5M parameters.
VOCABULARY, WIDTH, DEPTH = 10_000, 355, 3
PRECISIONS = {"cpu": ("highest", "medium"), "cuda": ("high",)}
LAYERS: dict[str, dict[str, Any]] = {
    "n = 1": {"ngram": 1},
    "n = 2": {"ngram": 2},
    "n = 1, feedback": {"ngram": 1, "feedback": True},
    "n = 2, feedback": {"ngram": 2, "feedback": True},
}

LEGEND = f"""Tokens per second, forward and backward with gradients of inputs and weights, float32,
{CHANNELS} channels.

* scan: c[t] = λ[t] c[t−1] + u[t] with a λ per token and channel, of equally long strings. "every token": the
  equation as it stands, string by string and token by token. "addcmul loop": over the steps of all strings
  at once, autograd's own.
* n = 1, n = 2: StringKernelConv, λ gated by x ("feedback": by x and h), beside one layer of torch.nn.LSTM and
  torch.nn.GRU of the same width, batch first. "highest" and "medium" are precisions of float32 matrix
  products as torch calls them; on some processors "medium" is another library at the same precision, which
  torch's LSTM uses at both. On a GPU all have "high", TensorFloat-32.
* ragged: strings of 1 … T tokens, equally often, given end to end, n = 2. "equal lengths": the same layer on
  as many tokens in strings of equal length; "padded LSTM": what stands for it without packing. Rates count
  real tokens only.
* by length: an epoch of {GROUPED} batches. Lengths are geometrically distributed with a mean of T / 4, much
  as those of a treebank's phrases are. Batches hold strings of similar length, against shuffled ones.
* language model (on a GPU only): steps of training, optimizer and all, of {DEPTH} layers of {WIDTH} channels,
  n = 1, λ gated by x and h, with highway, and {VOCABULARY:,} tokens. "loops in Python": the recurrence step
  by step, without its Triton kernel. "not recorded": without a CUDA graph, where "recorded" has one.
"""


def gradients(model: torch.nn.Module, x: Tensor, *more: Tensor, of_x: bool = True) -> Callable[[], None]:
    """Forwards and backwards."""
    x = x.clone().requires_grad_(of_x)

    def call() -> None:
        model.zero_grad(set_to_none=True)
        x.grad = None
        model(x, *more)[0].sum().backward()

    return call


def _scan_loop(u: Tensor, decay: Tensor) -> Tensor:
    """As one writes it with torch: over the steps ``[T, B, d]``."""
    c, out = torch.zeros_like(u[0]), []
    for u_t, decay_t in zip(u.unbind(0), decay.unbind(0), strict=True):
        c = torch.addcmul(u_t, decay_t, c)
        out.append(c)
    return torch.stack(out)


def measure_scan(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """The scan beside two loops."""
    steps = Steps.padded(strings, length)
    u, decay = (torch.rand(length * strings, CHANNELS).requires_grad_() for _ in range(2))

    def run(scan: Callable[[], Tensor]) -> None:
        u.grad = decay.grad = None
        scan().sum().backward()

    def by_steps() -> Tensor:
        return _scan_loop(u.view(length, strings, -1), decay.view(length, strings, -1))

    ours = partial(run, lambda: decayed_scan(u, decay, steps))
    what = f"scan, T = {length}, B = {strings}"
    if length <= NAIVE_UP_TO:
        naive = partial(run, lambda: decayed_scan_naive(u, decay, steps.ptr)[0])
        yield race(what, "every token", ours, naive, len(u), 10)
    yield race(what, "addcmul loop", ours, partial(run, by_steps), len(u), 2)


def measure_layer(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """The layer beside torch's recurrent layers."""
    x = torch.randn(strings, length, CHANNELS)
    for precision, (title, options) in product(PRECISIONS[x.device.type], LAYERS.items()):
        layer = StringKernelConv(CHANNELS, CHANNELS, **options)
        what = f'{title}, T = {length}, B = {strings}, "{precision}"'
        for other, goal in ((torch.nn.LSTM, 1.2), (torch.nn.GRU, 1.7)):
            theirs = other(CHANNELS, CHANNELS, batch_first=True)
            sides = gradients(layer, x), gradients(theirs, x)
            with torch_settings(torch.get_num_threads(), precision):
                yield race(what, other.__name__, *sides, strings * length, None if layer.feedback else goal)


@contextmanager
def loops_in_python() -> Iterator[None]:
    """Without the scans of Triton."""
    with patch.dict(SCANS, clear=True):
        yield


def language_steps(length: int, strings: int, recorded: bool) -> Callable[[], None]:
    """A step of training that goes on with a state, as those of ``fit_language_model``."""
    layers: dict[str, Any] = {"ngram": 1, "decay": "gated", "feedback": True, "highway": True}
    model = LanguageModel(VOCABULARY, StringKernelNetwork(WIDTH, WIDTH, DEPTH, dropout=0.5, **layers), 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(VOCABULARY, (strings, length + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    steps = Replay(model, recorded)
    _, state = Replay(model, False)(inputs, targets, None)

    def call() -> None:
        nonlocal state
        optimizer.zero_grad()
        nll, state = steps(inputs, targets, state)
        (nll / strings).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return call


def measure_language_model(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """On a GPU, what the kernel of the recurrence gains, and what CUDA graphs gain."""
    if torch.get_default_device().type != "cuda":
        return
    what = f"language model, T = {length}, B = {strings}"
    with torch_settings(torch.get_num_threads(), "high"):
        plain = language_steps(length, strings, False)
        slow = loops_in_python()(language_steps(length, strings, False))
        yield race(what, "loops in Python", plain, slow, length * strings, 1.3)
        recorded = language_steps(length, strings, True)
        yield race(f"{what}, recorded", "not recorded", recorded, plain, length * strings, 1.3)


def measure_ragged(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """Strings of many lengths."""
    lengths = torch.tensor(np.random.default_rng(0).integers(1, length + 1, 2 * strings))
    ptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    num_tokens = int(ptr[-1])
    x = torch.randn(num_tokens, CHANNELS)
    layer = StringKernelConv(CHANNELS, CHANNELS)
    what = f"ragged, T ≤ {length}, B = {2 * strings}"
    equal = torch.randn(strings, num_tokens // strings, CHANNELS)
    padded = torch.randn(2 * strings, length, CHANNELS)
    lstm = torch.nn.LSTM(CHANNELS, CHANNELS, batch_first=True)
    for against, theirs, goal in (
        ("equal lengths", gradients(layer, equal), 0.8),
        ("padded LSTM", gradients(lstm, padded), None),
    ):
        yield race(what, against, gradients(layer, x, ptr), theirs, num_tokens, goal)


def measure_grouped(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """Batches of strings of similar length."""
    lengths = np.random.default_rng(0).geometric(4 / length, GROUPED * strings).clip(max=length)
    ptr = np.concatenate([[0], lengths.cumsum()])
    data = PackedStrings(np.arange(ptr[-1]) % VOCABULARY, ptr, np.zeros(len(lengths)))
    vectors = torch.randn(VOCABULARY, CHANNELS)
    by_length = LengthGroupedShuffle(lengths, strings)
    for title in ("n = 2", "n = 2, feedback"):
        layer = StringKernelConv(CHANNELS, CHANNELS, **LAYERS[title])

        def epoch(loader: StringLoader, layer: torch.nn.Module = layer) -> None:
            for batch in loader:
                batch = batch.to(torch.get_default_device())
                gradients(layer, vectors[batch.x], batch.ptr)()

        grouped = partial(epoch, StringLoader(data, strings, resample=by_length))
        shuffled = partial(epoch, StringLoader(data, strings, shuffle=True))
        what = f"by length, {title}, T ≤ {length}, B = {strings}"
        yield race(what, "shuffled", grouped, shuffled, int(ptr[-1]), 1.3)


@dataclass
class StringSpeedOptions(RaceOptions):
    """How contestants take turns, and where.

    Args:
        device: "cpu", or "cuda": then the table is "string_speed_gpu".

    The other options are those of every race.
    """

    device: Literal["cpu", "cuda"] = "cpu"


def measure(options: StringSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    race = options.race(min_seconds=0.3 if options.device == "cpu" else 0.1)
    for part in (measure_scan, measure_layer, measure_ragged, measure_grouped, measure_language_model):
        for length, strings in SHAPES[:1] if options.quick else SHAPES:
            with torch.device(options.device):  # where tensors are made
                yield from part(length, strings, race)


main = Race("string-speed", __doc__, StringSpeedOptions, "Speed of the string layers", LEGEND, measure).main
