"""Speed of recurrent kernel machines beside torch.nn.LSTM: all variants, n-grams, feedback or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from wlkernelnn.bench.harness.races import Known, Race, RaceOf, RaceOptions, Ratio
from wlkernelnn.sequence import RKM
from wlkernelnn.sequence.layers.rkm import VARIANTS

from .strings import CHANNELS, SHAPES, gradients

NGRAM = 3
MACHINES: dict[str, dict[str, Any]] = {variant: {"variant": variant} for variant in VARIANTS}
MACHINES["rkm_lstm, layer norm"] = {"variant": "rkm_lstm", "layer_norm": True}
MACHINES |= {
    f"{variant}, n = {NGRAM}": {"variant": variant, "ngram": NGRAM}
    for variant in ("lstm", "rkm_lstm", "gated_cnn")
}
# Signals as those of "wlkernelnn benchmark lfp": trials, samples, channels, filters and their length.
SIGNALS = (10, 256, 64, 30, 40)
SIGNAL_VARIANTS = ("cnn", "gated_cnn", "rkm_cifg", "rkm_lstm")
# Of the LSTM's rate, with feedback and without.
GOALS = {True: 0.8, False: 1.5}

LEGEND = f"""Tokens per second, forward and backward with gradients of inputs and weights, float32,
{CHANNELS} channels, beside one layer of torch.nn.LSTM of the same width, batch first.

* n = 1 and no layer norm, as nn.LSTM has none, where nothing else is said; "at once": without feedback.
* n = {NGRAM}: the LSTM reads {NGRAM} tokens side by side, and has as many weights as the variant "lstm".
* Sync filters beside free ones of the same length: {SIGNALS[0]} trials of {SIGNALS[1]} samples of
  {SIGNALS[2]} channels, {SIGNALS[3]} filters of {SIGNALS[4]} samples, without gradients of the signals.
* What is elementwise, and small products, are compiled where numba is installed (the extra "fast").
"""


def measure_machines(length: int, strings: int, race: RaceOf) -> Iterator[Ratio]:
    """All machines on strings of a length."""
    for feedback, goal in GOALS.items():
        for name, options in MACHINES.items():
            model = RKM(CHANNELS, CHANNELS, **{"layer_norm": False, "feedback": feedback} | options)
            if model.feedback != feedback:  # the CNNs never have it
                continue
            x = torch.randn(strings, length, CHANNELS)
            side_by_side = x.repeat(1, 1, model.size)
            theirs = torch.nn.LSTM(side_by_side.size(-1), CHANNELS, batch_first=True)
            sides = gradients(model, x), gradients(theirs, side_by_side)
            what = f"{name if feedback else f'{name}, at once'}, T = {length}, B = {strings}"
            yield race(what, "LSTM", *sides, strings * length, goal)


def measure_signals(race: RaceOf) -> Iterator[Ratio]:
    """Filters that are wavelets beside free ones."""
    trials, samples, channels, filters, length = SIGNALS
    x = torch.randn(trials, samples, channels)
    for variant in SIGNAL_VARIANTS:
        models = (RKM(channels, filters, variant, length, filters=kind) for kind in ("sync", "free"))
        sides = (gradients(model, x, of_x=False) for model in models)
        yield race(f"{variant}, Sync filters, n = {length}", "free filters", *sides, trials * samples)


def measure(options: RaceOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    race = options.race(min_seconds=0.3)
    for length, strings in SHAPES[:1] if options.quick else SHAPES:
        yield from measure_machines(length, strings, race)
    yield from measure_signals(race)


main = Race("rkm-speed", __doc__, RaceOptions, "Speed of recurrent kernel machines", LEGEND, measure).main
