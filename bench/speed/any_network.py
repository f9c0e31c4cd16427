"""Speed and memory of networks of PyG by colours beside the same networks by nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, GATv2Conv, GINConv, GINEConv, SAGEConv, global_add_pool

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race, Ratio, compared
from wlkernelnn.bench.harness.timing import race, torch_settings, usage
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.colours import Colours, to_colours
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.training.allocator import freed_memory_kept

from .contestants import plain_data
from .tables import sample

CHANNELS, LAYERS = 176, 4
DATASETS = ("cep", "hiv", "organic_ri")
SIZES = (128, 1024)
LARGE = 8192  # by colours alone: by nodes larger batches gain nothing
GOALS = {("cep", 1024): 6.0, ("cep", 128): 2.5, ("hiv", 1024): 3.0, ("hiv", 128): 1.25}

LEGEND = f"""Molecules per second: {LAYERS} layers of {CHANNELS} channels with sums of embeddings before
them, ReLU between, global_add_pool and a perceptron behind; float32, Adam. Ours is `to_colours(net)`, theirs
the same `net`; a number after a comma is the batch size.

* step: forward, backward and optimizer on batches that are there, with the colours of PackedLoader;
  "searched": every batch searches for its colours in the step.
* best batches: theirs of {" or ".join(map(str, SIZES))}, ours also of {LARGE}, each at its best.
* epoch: steps on shuffled batches as they come from a loader. PackedLoader gives both the same batches;
  DataLoader is PyG's, of a list of Data, for ours after the transform Colours.
* inference: forward passes without gradients, with PackedLoader.
* memory: bytes that training on three batches takes beyond what is there before, in a process of its own.
"""

_MAKE: dict[str, Callable[[], torch.nn.Module]] = {
    "GINE": lambda: GINEConv(MLP([CHANNELS] * 3, norm=None), train_eps=True),
    "GIN": lambda: GINConv(MLP([CHANNELS] * 3, norm=None), train_eps=True),
    "SAGE": lambda: SAGEConv(CHANNELS, CHANNELS),
    "GATv2": lambda: GATv2Conv(CHANNELS, CHANNELS // 4, 4, edge_dim=CHANNELS, add_self_loops=False),
}
_WITH_EDGES = ("GINE", "GATv2")


class Network(torch.nn.Module):
    """Layers of PyG on codes of atoms and bonds, as a user writes them."""

    def __init__(self, layer: str, data: PackedGraphs) -> None:
        super().__init__()
        self.atoms = torch.nn.ModuleList(torch.nn.Embedding(n, CHANNELS) for n in data.description.node_dims)
        self.convs = torch.nn.ModuleList(_MAKE[layer]() for _ in range(LAYERS))
        number = data.description.num_edge_types
        self.bonds = torch.nn.ModuleList(
            torch.nn.Embedding(number, CHANNELS) for _ in range(LAYERS if layer in _WITH_EDGES else 0)
        )
        self.head = MLP([CHANNELS, CHANNELS, 1], norm=None)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, batch: Tensor) -> Tensor:
        h = sum(table(x[:, column]) for column, table in enumerate(self.atoms))
        for layer, conv in enumerate(self.convs):
            h = conv(h, edge_index, self.bonds[layer](edge_type)) if self.bonds else conv(h, edge_index)
            h = h.relu()
        return self.head(global_add_pool(h, batch))


@dataclass
class Side:
    """A network, by nodes or by colours, and its batches."""

    net: Network
    by_colours: bool

    def __post_init__(self) -> None:
        self.fast = to_colours(self.net) if self.by_colours else None
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def predict(self, batch: Data) -> Tensor:
        if self.fast is not None:
            return self.fast(batch)
        edges = batch.edge_index
        return self.net(
            batch.x, edges.as_tensor() if hasattr(edges, "as_tensor") else edges, batch.edge_type, batch.batch
        )

    def train(self, batches: Any) -> None:
        for batch in batches:
            self.optimizer.zero_grad()
            self.predict(batch).square().mean().backward()
            self.optimizer.step()

    @torch.no_grad()
    def infer(self, batches: Any) -> None:
        for batch in batches:
            self.predict(batch)

    def loader(self, data: PackedGraphs, size: int, shuffle: bool = False) -> PackedLoader:
        return PackedLoader(data, size, shuffle, quotient=LAYERS if self.by_colours else None)


@dataclass
class Options(TableOptions):
    """How contestants take turns, and where results go.

    Args:
        datasets: Sets of molecules.
        num_threads: Numbers of torch's threads, one after the other.
        rounds: Turns of each contestant; of a quick run always 2.
        molecules: How many molecules of each set take part.
    """

    datasets: list[str] = field(default_factory=lambda: list(DATASETS))
    num_threads: list[PositiveInt] = field(default_factory=lambda: [1, 2])
    rounds: PositiveInt = 3
    molecules: PositiveInt = 8192


def rates(calls: list[Callable[[], object]], work: list[int], options: Options) -> np.ndarray:
    rounds, seconds = (2, 0.02) if options.quick else (options.rounds, 0.3)
    return race(calls, work, rounds=rounds, min_seconds=seconds)


def measure_layer(layer: str, name: str, data: PackedGraphs, options: Options) -> Iterator[Ratio]:
    """Steps of a network at all batch sizes."""
    torch.manual_seed(0)
    nodes, colours = (Side(Network(layer, data), by_colours) for by_colours in (False, True))
    of_nodes = sizes_of(data)
    of_colours = sorted({*of_nodes, min(LARGE, len(data))})
    calls: dict[tuple[str, int], Callable[[], object]] = {}
    work: dict[tuple[str, int], int] = {}
    for size in of_colours:
        number = max(of_nodes[-1], size) // size * size
        batches = list(colours.loader(data[:number], size))
        calls["colours", size] = partial(colours.train, batches)
        calls["searched", size] = partial(colours.train, [without_colours(batch) for batch in batches])
        if size in of_nodes:
            calls["nodes", size] = partial(nodes.train, batches)
        work |= {key: number for key in calls if key[1] == size}
    found = dict(zip(calls, rates(list(calls.values()), list(work.values()), options), strict=True))
    what = f"{layer}, step, {name}"
    for size in of_nodes:
        goal = GOALS.get((name, size)) if layer == "GINE" else None
        by_nodes = found["nodes", size]
        yield compared(f"{what}, {size:,}", "by nodes", found["colours", size], by_nodes, goal)
        yield compared(f"{what}, searched, {size:,}", "by nodes", found["searched", size], by_nodes)
    best = {
        who: max(
            (rate for (of, _), rate in found.items() if of == who), key=lambda rate: float(np.median(rate))
        )
        for who in ("colours", "nodes")
    }
    yield compared(f"{what}, best batches", "by nodes", best["colours"], best["nodes"])


def sizes_of(data: PackedGraphs) -> list[int]:
    """Batch sizes that the molecules at hand can fill."""
    return sorted({min(size, len(data)) for size in SIZES})


def without_colours(batch: Data) -> Data:
    """The batch as another loader gives it."""
    return Data(
        x=batch.x, edge_index=batch.edge_index.as_tensor(), edge_type=batch.edge_type, batch=batch.batch
    )


def measure_whole(name: str, data: PackedGraphs, options: Options) -> Iterator[Ratio]:
    """Epochs and inference of GINE, loaders included."""
    torch.manual_seed(0)
    nodes, colours = (Side(Network("GINE", data), by_colours) for by_colours in (False, True))
    size = sizes_of(data)[-1]
    sides = (colours, nodes)
    of_packed = [side.loader(data, size, True) for side in sides]
    found = rates(
        [partial(side.train, it) for side, it in zip(sides, of_packed, strict=True)], [len(data)] * 2, options
    )
    yield compared(f"GINE, epoch, {name}, PackedLoader, {size:,}", "by nodes", *found)
    graphs = plain_data(data)
    transform = Colours(LAYERS)
    of_pyg = [
        DataLoader([transform(graph) for graph in graphs], size, True),
        DataLoader(plain_data(data), size, True),
    ]
    found = rates(
        [partial(side.train, it) for side, it in zip(sides, of_pyg, strict=True)], [len(data)] * 2, options
    )
    yield compared(f"GINE, epoch, {name}, DataLoader, {size:,}", "by nodes", *found)
    of_packed = [side.loader(data, size) for side in sides]
    found = rates(
        [partial(side.infer, it) for side, it in zip(sides, of_packed, strict=True)], [len(data)] * 2, options
    )
    yield compared(f"GINE, inference, {name}, {size:,}", "by nodes", *found)


def peak(name: str, by_colours: bool, size: int) -> int:
    return usage(train_some, prepared, name, by_colours, size).peak


def prepared(name: str, by_colours: bool, size: int) -> tuple[Side, PackedLoader]:
    torch.set_num_threads(1)
    data = sample(name, 3 * size)
    if by_colours:
        data.colours(LAYERS)
    side = Side(Network("GINE", data), by_colours)
    return side, side.loader(data, size)


def train_some(side: Side, loader: PackedLoader) -> None:
    side.train(loader)


def measure_memory(name: str, options: Options) -> Iterator[Ratio]:
    """The most memory that training of GINE takes."""
    for size in [20] if options.quick else SIZES:
        ours, theirs = (peak(name, by_colours, size) for by_colours in (True, False))
        ratio = theirs / max(ours, 1)
        goal, met = ("", None) if options.quick else ("≥ 2", ratio >= 2)
        what = f"GINE, memory, {name}, {size:,}"
        yield Ratio(what, "by nodes", ours, theirs, ratio, ratio, ratio, goal, met)


def measure(options: Options, known: Known) -> Iterator[Ratio]:
    """All rows."""
    molecules = 60 if options.quick else options.molecules
    known["molecules"] = molecules
    for name in options.datasets[:1] if options.quick else options.datasets:
        data = sample(name, molecules)
        data.colours(LAYERS)
        for threads in options.num_threads[:1] if options.quick else options.num_threads:
            with torch_settings(threads), freed_memory_kept():
                rows = [row for layer in _MAKE for row in measure_layer(layer, name, data, options)]
                rows += measure_whole(name, data, options)
            for row in rows:
                yield with_threads(row, threads)
        yield from measure_memory(name, options)


def with_threads(row: Ratio, threads: int) -> Ratio:
    return replace(row, what=f"{row.what}, {threads} thread{'s' * (threads > 1)}")


main = Race("colour-speed", __doc__, Options, "Speed of networks of PyG by colours", LEGEND, measure).main
