"""Who is compared: our network by nodes, by colours and fused; plain PyG, GINE, and chemprop if installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
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
# Sums are compiled for CPUs alone, and chemprop's batches stay there.
ON_GPU = ("plain PyG", *GINES, "by nodes", "colours")
BY_NODES = 2048
SIZES = (20, 128, 1024, 8192)
# By nodes larger batches gain little on a CPU, and a step would take up to half a minute.
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
* On a CPU those by nodes get {BY_NODES:,} molecules, as each costs as much, in batches of {NODES_UP_TO:,} at
  most.
* Our network has {CHANNELS} channels and {ITERATIONS} iterations; readout "sum" walks in every iteration (the
  paper), "last" in the last one only (the authors' release, the default). All optimizers are AdamW.
"""


@dataclass(frozen=True)
class Contestant:
    """A network, and its way to get at batches."""

    name: str  # one of names()
    net: torch.nn.Module
    molecules: int  # that it knows
    loader: Callable[[int, int, bool], Iterable[Any]]  # of the first so many molecules, batch size, shuffled
    outputs_and_targets: Callable[[Any], tuple[Tensor, Tensor]]  # of a batch
    store: PackedGraphs | None = None  # of ours
    device: str = "cpu"

    def sizes(self, wanted: tuple[int, ...]) -> list[int]:
        """Its batch sizes among these, and its default."""
        if self.name in BY_COLOURS or self.device != "cpu":
            return list(wanted)
        default = {chemprop.DEFAULT_BATCH} if self.name == "chemprop" else set()
        return sorted({size for size in wanted if size <= NODES_UP_TO} | default)

    def operations(self) -> AbstractContextManager[object]:
        return nullcontext() if self.name == "colours, fused" else stock_operations()

    def training_step(self) -> Callable[[Any], None]:
        """A function that trains the network on a batch by one step."""
        optimizer = torch.optim.AdamW(self.net.parameters())

        def step(batch: Any) -> None:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(*self.outputs_and_targets(batch)).backward()
            optimizer.step()

        return step

    @torch.no_grad()
    def predict(self, molecules: int, size: int) -> Any:
        """Go through the first so many molecules in batches of a size: ours as users do."""
        if self.store is not None:
            assert isinstance(self.net, GraphNetwork)
            return predict(self.net, self.store[:molecules], size)
        with evaluating(self.net):
            return [self.outputs_and_targets(batch)[0] for batch in self.loader(molecules, size, False)]


def train(step: Callable[[Any], None], batches: Iterable[Any]) -> None:
    """Step by step through an epoch."""
    for batch in batches:
        step(batch)


def names(device: str = "cpu") -> tuple[str, ...]:
    """All contestants that there are here."""
    if device != "cpu":
        return ON_GPU
    return tuple(name for name in (*THEIRS, *OURS) if name != "chemprop" or chemprop.installed())


@contextmanager
def stock_operations() -> Iterator[None]:
    """Without the compiled sums, as if numba were not installed."""
    with patch.dict(fused.LOOPS, {"cpu": lambda: None}):
        yield


@dataclass(frozen=True)
class Moved:
    """Batches that go to a device when it is their turn."""

    batches: Iterable[Any]
    device: str

    def __iter__(self) -> Iterator[Any]:
        return (batch.to(self.device) for batch in self.batches)


def moved(contestant: Contestant, device: str) -> Contestant:
    """The same on another device."""
    loader = contestant.loader
    return replace(
        contestant,
        device=device,
        net=contestant.net.to(device),
        loader=lambda molecules, size, shuffle: Moved(loader(molecules, size, shuffle), device),
    )


def plain_data(data: PackedGraphs) -> list[Data]:
    """The same graphs as a user of plain PyG has them: a list of ``Data`` that own their tensors."""
    return [
        Data(x=one.x, edge_index=one.edge_index.clone(), edge_type=one.edge_type, y=one.y) for one in data
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
        theirs, dataset = chemprop.default_network(data.num_tasks), chemprop.molecules(data)

        def of_chemprop(molecules: int, size: int, shuffle: bool) -> Iterable[Any]:
            return chemprop.default_loader(Subset(dataset, range(molecules)), size, shuffle)

        return Contestant(name, theirs, len(data), of_chemprop, partial(chemprop.outputs_and_targets, theirs))
    sizes = {"hidden_channels": channels, "num_iterations": iterations}
    ours = GraphKernelNetwork.from_data(data, **sizes, readout=readout, quotient=name in BY_COLOURS)
    if name in OURS:
        depth = ours.quotient_depth
        if depth is not None:
            data.colours(depth)  # once, for all epochs

        def packed(molecules: int, size: int, shuffle: bool) -> Iterable[Any]:
            return PackedLoader(data[:molecules], size, shuffle=shuffle, quotient=depth)

        return Contestant(name, ours, len(data), packed, partial(_of_data, ours), data)
    if name == "plain PyG":
        net: GraphNetwork = naive_network(ours)
    else:
        gine = partial(GINENetwork.from_data, data, num_layers=4, quotient=False)
        if name != GINES[0]:
            channels = width_for(lambda width: gine(hidden_channels=width), count_parameters(ours))
        net = gine(hidden_channels=channels)
    graphs = plain_data(data)

    def plain(molecules: int, size: int, shuffle: bool) -> Iterable[Any]:
        return DataLoader(graphs[:molecules], size, shuffle=shuffle)

    return Contestant(name, net, len(data), plain, partial(_of_data, net))


def contestants(data: PackedGraphs, readout: str, device: str = "cpu") -> Iterator[Contestant]:
    """All of them; on a CPU those by nodes know ``BY_NODES`` molecules, as each costs them the same."""
    for name in names(device):
        if device != "cpu":
            yield moved(contestant(name, data, readout), device)
        else:
            yield contestant(name, data if name in BY_COLOURS else data[:BY_NODES], readout)


def _of_data(net: GraphNetwork, batch: Data) -> tuple[Tensor, Tensor]:
    return net(batch), batch.y
