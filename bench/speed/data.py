"""Loader, store, featurizer and sums over neighbours beside the usual tools."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from ogb.utils import smiles2graph
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.profile import get_data_size

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.harness.races import RaceOf, Ratio, raced, ratios
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.datasets import PackedGraphs, PackedLoader, featurize
from wlkernelnn.datasets.molecules.smiles import PARALLEL_FROM
from wlkernelnn.ops.graph import neighbor_sum, sort_edges
from wlkernelnn.ops.graph.segments import segment_csr

from .contestants import plain_data
from .tables import Options, Part, Records, Setting, sample, settings

CHANNELS = 176

LEGEND = f"""Medians in molecules per second (of the store: bytes per molecule), the two sides taken by turns
in one run; the ratio (median, and least to greatest) is taken turn by turn. The goals are those for CEP.

* A number after a comma is the batch size.
* featurize: SMILES to codes; the same codes as ogb.utils.smiles2graph. chemprop's features are others.
* loader: an epoch of shuffled batches; PyG's DataLoader has a list of Data.
* store: all arrays, SMILES included; of the list of Data only its tensors, not its Python objects.
* neighbor_sum: forwards and backwards, {CHANNELS} channels, on the edges of a batch. EdgeIndex.matmul
  starts, as ours does, from sorted edges and their pointers; the cached one has had its caches filled before.
"""


def _sizes(wanted: tuple[int, ...], data: PackedGraphs) -> list[int]:
    """Batch sizes that the molecules at hand can fill."""
    return sorted({min(size, len(data)) for size in wanted})


def exhaust(batches: Iterable[Any]) -> None:
    for _ in batches:
        pass


def measure_featurizer(smiles: list[str], race: RaceOf) -> Iterator[Ratio]:
    """SMILES to codes, against OGB's and chemprop's on one process, and two of our processes against one."""
    one, two = (partial(featurize, smiles, num_workers=workers) for workers in (0, 2))
    count = len(smiles)

    def by_ogb() -> None:
        exhaust(map(smiles2graph, smiles))

    yield race("featurize, 1 process", "smiles2graph", one, by_ogb, count, 1.8)
    if chemprop.installed():
        theirs = partial(chemprop.featurize_all, smiles)
        yield race("featurize, 1 process", "chemprop", one, theirs, count)
    if count >= PARALLEL_FROM:  # fewer are no work for two
        yield race("featurize, 2 processes", "1 process", two, one, count, 1.8)


def measure_loader(data: PackedGraphs, race: RaceOf) -> Iterator[Ratio]:
    """An epoch of shuffled batches, against PyG's loader of a list of ``Data``; and how large both are."""
    graphs = plain_data(data)
    goals = {128: 20.0, 1024: 25.0}
    for size in _sizes((20, 128, 1024, 8192), data):
        ours = PackedLoader(data, size, shuffle=True)
        theirs = DataLoader(graphs, size, shuffle=True)
        sides = partial(exhaust, ours), partial(exhaust, theirs)
        yield race(f"loader, {size}", "DataLoader", *sides, len(data), goals.get(size))
    bytes_ours = data.nbytes / data.len()
    bytes_theirs = sum(map(get_data_size, graphs)) / len(graphs)
    ratio, met = bytes_theirs / bytes_ours, bytes_ours <= 350
    yield Ratio("store", "list of Data", bytes_ours, bytes_theirs, ratio, ratio, ratio, "≤ 350", met)


def sums(batch: Data, channels: int = CHANNELS) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Ways to sum over neighbours in a batch and to go back; each gives the sum and the gradient."""
    num_nodes = batch.ptr[-1].item()
    generator = torch.Generator().manual_seed(0)
    x, cotangent = torch.randn(2, num_nodes, channels, generator=generator).to(batch.x.device)
    x.requires_grad_()
    edges = batch.edge_index.as_tensor()
    source, target = edges

    def edge_index() -> EdgeIndex:
        result = EdgeIndex(
            edges,
            sparse_size=(num_nodes, num_nodes),
            sort_order="col",
            is_undirected=batch.edge_index.is_undirected,
        )
        result._indptr = batch.edge_index._indptr
        return result

    cached = edge_index().fill_cache_()

    def there_and_back(out: Tensor) -> tuple[Tensor, Tensor]:
        return out, torch.autograd.grad(out, x, cotangent)[0]

    ways = {
        "ours": lambda: there_and_back(neighbor_sum(x, sort_edges(batch.edge_index, num_nodes, num_nodes))),
        "EdgeIndex.matmul": lambda: there_and_back(edge_index().matmul(x, transpose=True)),
        "EdgeIndex cached": lambda: there_and_back(cached.matmul(x, transpose=True)),
        "index_add": lambda: there_and_back(torch.zeros_like(x).index_add(0, target, x[source])),
    }
    if segment_csr is not None:
        indptr = sort_edges(batch.edge_index, num_nodes, num_nodes).indptr
        ways["torch-scatter"] = lambda: there_and_back(segment_csr(x[source], indptr, reduce="sum"))
    return ways


def measure_neighbor_sum(data: PackedGraphs, race: RaceOf, device: str = "cpu") -> Iterator[Ratio]:
    """Sums over neighbours, forwards and backwards, on the edges of batches."""
    for size in _sizes((128, 1024) if device == "cpu" else (128, 1024, 8192), data):
        batch = next(iter(PackedLoader(data, size, shuffle=True))).to(device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse")  # torch announces that its CSC tensors are young
            ways = sums(batch)
            ours = ways.pop("ours")
            for against, theirs in ways.items():
                goal = 2.5 if against.startswith("EdgeIndex") and device == "cpu" else None
                yield race(f"neighbor_sum, {size}", against, ours, theirs, size, goal)


def measure(options: Options) -> Iterator[tuple[Setting, Records]]:
    """For each data set and number of threads, the rows of a table."""
    race = partial(raced, **options.turns(0.2))
    for setting in settings(options, "dataset", "threads"):
        data = sample(setting["dataset"], options.molecules)
        rows: list[Ratio] = []
        with torch_settings(setting["threads"]):
            if options.device == "cpu":
                rows += measure_featurizer(data[:10_000].smiles, race)
                rows += measure_loader(data, race)
            rows += measure_neighbor_sum(data, race, options.device)
        whole = setting | {"molecules": len(data)} | options.shortening()
        yield whole, [asdict(row) for row in rows]


PART = Part(LEGEND, measure, lambda table: ratios([Ratio(**record) for record in table.records]))
