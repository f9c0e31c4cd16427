"""Predictions and graph vectors of a store: each colour of the store once, beside batches with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from wlkernelnn.bench.harness.races import Known, Race, RaceOptions, Ratio, compared
from wlkernelnn.bench.harness.timing import race
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.models import ColourCache, GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import embed, predict
from wlkernelnn.training.options import BATCH

from .tables import sample

LEGEND = f"""Molecules per second from a store in memory to numbers, by networks with their initial weights.

* predict, embed: `wlkernelnn.training.predict` and `embed`, as a user calls them. All graphs go by the
  colours of the store, which are known.
* in batches: the same calls with an empty `ColourCache`, which go through batches of {BATCH:,}. The numbers
  are the same.
* first call: the colours of the store are found as well. They are kept with it, in memory and by `save`.
* WL network: the default one (176 channels, 4 iterations, readout "last"); "sum" is the paper's readout, of
  the networks of `wlkernelnn benchmark speed`. Stack: the default one (128 channels, 4 layers, side by side).
"""

NETWORKS: dict[str, Callable[[PackedGraphs], GraphNetwork]] = {
    "WL network": GraphKernelNetwork.from_data,
    'WL network, "sum"': partial(GraphKernelNetwork.from_data, readout="sum"),
    "stack": KernelStackNetwork.from_data,
}
QUICK_MOLECULES = 100
# What the way by the store has to be worth.
GOAL = 1.3


@dataclass
class StoreSpeedOptions(RaceOptions):
    """What is measured, and where results go.

    Args:
        dataset: A published data set of molecules.
        molecules: How many of them at most, drawn from a seed.
    """

    dataset: str = "cep"
    molecules: PositiveInt = 32_768

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quick:
            self.molecules, self.rounds = min(self.molecules, QUICK_MOLECULES), 2


def in_batches(compute: Callable[..., np.ndarray], net: GraphNetwork, data: PackedGraphs) -> np.ndarray:
    """Predictions or vectors in batches, with a cache of their colours."""
    return compute(net, data, cache=ColourCache())


def first_predictions(net: GraphNetwork, data: PackedGraphs) -> np.ndarray:
    """Those of a store that knows no colours."""
    return predict(net, PackedGraphs(data.arrays, data.description)[data.index])


def measure(options: StoreSpeedOptions, known: Known) -> Iterator[Ratio]:
    """A race for each network."""
    data = sample(options.dataset, options.molecules)
    known |= {"dataset": options.dataset, "molecules": len(data), "rounds": options.rounds}
    batches = f"in batches of {BATCH:,}"
    for name, make in NETWORKS.items():
        torch.manual_seed(0)
        net = make(data)
        calls: list[Callable[[], object]] = [
            partial(predict, net, data),
            partial(in_batches, predict, net, data),
            partial(embed, net, data),
            partial(in_batches, embed, net, data),
            partial(first_predictions, net, data),
        ]
        ours, batched, vectors, batched_vectors, first = race(
            calls,
            [len(data)] * len(calls),
            rounds=options.rounds,
            min_seconds=0.02 if options.quick else 0.5,
        )
        yield compared(f"predict, {name}", batches, ours, batched, GOAL)
        yield compared(f"embed, {name}", batches, vectors, batched_vectors, GOAL)
        yield compared(f"predict, {name}, first call", f"{batches}, later calls", first, batched)


TITLE = "Predictions of a store"
main = Race("store-speed", __doc__, StoreSpeedOptions, TITLE, LEGEND, measure).main
