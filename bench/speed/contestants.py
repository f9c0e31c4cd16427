"""Who is compared: our network by nodes, by colours and fused; plain PyG, GINE, and chemprop if installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.data import Subset
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.baselines.molecules import GINENetwork
from wlkernelnn.bench.baselines.naive_wl import naive_network
from wlkernelnn.bench.harness.parameters import count_parameters, width_for
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork
from wlkernelnn.ops.graph import fused
from wlkernelnn.training import predict
from wlkernelnn.utils.modes import evaluating

CHANNELS, ITERATIONS = 176, 4
GINES = ("GINE×4", "GINE×4, our size")
THEIRS = ("plain PyG", *GINES, "chemprop")
OURS = ("by nodes", "colours", "colours, fused")
BY_COLOURS = OURS[1:]
BY_NODES = 2048
SIZES = (20, 128, 1024, 8192)
# By nodes larger batches gain little, and a step would take up to half a minute.
NODES_UP_TO = 1024

LEGEND = f"""Who is compared, where a table has no other words for it:

* plain PyG: our network as one would write it first, messages written out and Linears at edges.
* GINE×4: four GINE convolutions with the same encoder, pooling and head, of as many channels as ours, which
  are twice as many parameters; "our size": of as many parameters, in fewer channels.
* chemprop: its default network (bond messages of 300 channels, depth 3), featurized beforehand; its default
  batch is {chemprop.DEFAULT_BATCH}.
* by nodes: our layers with stock torch operations, every node computed. colours: every Weisfeiler-Lehman
  colour of a batch once, stock torch operations. colours, fused: with the compiled sums over edges of the
  extra "fast". All three, and plain PyG, give the same numbers.
* Those by nodes get {BY_NODES:,} molecules at most: each costs them the same.
* Our network has {CHANNELS} channels and {ITERATIONS} iterations; readout "sum" walks in every iteration (the
  paper), "last" in the last one only (the authors' release, the default). All optimizers are AdamW. Who
  computes by nodes gets batches of {NODES_UP_TO:,} at most.
"""


@dataclass(frozen=True)
class Contestant:
    """A network, and how it gets at its batches.

    Attributes:
        name: One of ``names()``.
        net: The network.
        molecules: How many molecules it knows.
        loader: Gives an iterable of batches of the first so many molecules, of a size, shuffled or not.
        outputs_and_targets: Of a batch.
        predict: Goes through the first so many molecules in batches of a size.
    """

    name: str
    net: torch.nn.Module
    molecules: int
    loader: Callable[[int, int, bool], Iterable[Any]]
    outputs_and_targets: Callable[[Any], tuple[Tensor, Tensor]]
    predict: Callable[[int, int], object]

    def sizes(self, wanted: tuple[int, ...]) -> list[int]:
        """Its batch sizes among these, and its default."""
        if self.name in BY_COLOURS:
            return list(wanted)
        default = {chemprop.DEFAULT_BATCH} if self.name == "chemprop" else set()
        return sorted({size for size in wanted if size <= NODES_UP_TO} | default)

    def operations(self) -> AbstractContextManager[object]:
        """The operations that it stands for."""
        return nullcontext() if self.name == "colours, fused" else stock_operations()

    def training_step(self) -> Callable[[Any], None]:
        """A function that trains the network on a batch by one step."""
        optimizer = torch.optim.AdamW(self.net.parameters())

        def step(batch: Any) -> None:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(*self.outputs_and_targets(batch)).backward()
            optimizer.step()

        return step


def train(step: Callable[[Any], None], batches: Iterable[Any]) -> None:
    """Step by step through an epoch."""
    for batch in batches:
        step(batch)


def names() -> tuple[str, ...]:
    """All contestants that there are here."""
    return tuple(name for name in (*THEIRS, *OURS) if name != "chemprop" or chemprop.installed())


def stock_operations() -> AbstractContextManager[object]:
    """Without the compiled sums, as if numba were not installed."""
    return patch.dict(fused.LOOPS, {"cpu": lambda: None})


def plain_data(data: PackedGraphs) -> list[Data]:
    """The same graphs as a user of plain PyG has them: a list of ``Data`` that own their tensors."""
    return [
        Data(
            x=graph.x,
            edge_index=graph.edge_index.as_tensor().clone(),
            edge_type=graph.edge_type,
            y=graph.y,
        )
        for graph in data
    ]


def contestant(
    name: str,
    data: PackedGraphs,
    readout: str = "sum",
    *,
    channels: int = CHANNELS,
    iterations: int = ITERATIONS,
) -> Contestant:
    """One of ``names()`` for these molecules; ours and plain PyG with the same weights."""
    torch.manual_seed(0)
    if name == "chemprop":
        return _chemprop(data)
    net = GraphKernelNetwork.from_data(
        data,
        hidden_channels=channels,
        num_iterations=iterations,
        readout=readout,
        quotient=name in BY_COLOURS,
    )
    if name == "plain PyG":
        return _plain(name, naive_network(net), data)
    if name in GINES:
        gine = partial(GINENetwork.from_data, data, num_layers=4)
        if name != GINES[0]:
            channels = width_for(lambda width: gine(hidden_channels=width), count_parameters(net))
        return _plain(name, gine(hidden_channels=channels), data)
    if net.quotient_depth is not None:
        data.colours(net.quotient_depth)  # once, for all epochs

    def loader(molecules: int, size: int, shuffle: bool) -> PackedLoader:
        return PackedLoader(data[:molecules], size, shuffle=shuffle, quotient=net.quotient_depth)

    def predict_some(molecules: int, size: int) -> object:
        return predict(net, data[:molecules], size)

    return Contestant(name, net, len(data), loader, partial(_of_data, net), predict_some)


def contestants(data: PackedGraphs, readout: str) -> Iterator[Contestant]:
    """All of them; those by nodes know ``BY_NODES`` molecules, as each costs them the same."""
    for name in names():
        yield contestant(name, data if name in BY_COLOURS else data[:BY_NODES], readout)


def _of_data(net: GraphNetwork, batch: Data) -> tuple[Tensor, Tensor]:
    return net(batch), batch.y


def _plain(name: str, net: GraphNetwork, data: PackedGraphs) -> Contestant:
    graphs = plain_data(data)

    def loader(molecules: int, size: int, shuffle: bool) -> DataLoader:
        return DataLoader(graphs[:molecules], size, shuffle=shuffle)

    return _by_forward_passes(name, net, len(data), loader, partial(_of_data, net))


def _chemprop(data: PackedGraphs) -> Contestant:
    net = chemprop.default_network(data.num_tasks)
    dataset = chemprop.molecules(data)

    def loader(molecules: int, size: int, shuffle: bool) -> Iterable[Any]:
        return chemprop.default_loader(Subset(dataset, range(molecules)), size, shuffle)

    outputs_and_targets = partial(chemprop.outputs_and_targets, net)
    return _by_forward_passes("chemprop", net, len(data), loader, outputs_and_targets)


def _by_forward_passes(
    name: str,
    net: torch.nn.Module,
    molecules: int,
    loader: Callable[[int, int, bool], Iterable[Any]],
    outputs_and_targets: Callable[[Any], tuple[Tensor, Tensor]],
) -> Contestant:
    @torch.no_grad()
    def forward_passes(molecules: int, size: int) -> list[Tensor]:
        with evaluating(net):
            return [outputs_and_targets(batch)[0] for batch in loader(molecules, size, False)]

    return Contestant(name, net, molecules, loader, outputs_and_targets, forward_passes)
