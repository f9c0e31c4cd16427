"""Speed and memory beside the usual tools: loader, store, featurizer, sums over neighbours, training step."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt
from ogb.utils import smiles2graph
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.profile import get_data_size

from wlkernelnn.datasets import PackedGraphs, PackedLoader, featurize, load_molecules
from wlkernelnn.files import write_text
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.ops.neighbor_sum import neighbor_sum, sort_edges

from .naive_wl import naive_network
from .timing import Comparison, compare, environment, torch_settings

CHANNELS = 176


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what, against: Our side and theirs.
        unit: Of ``ours`` and ``theirs``, which are medians.
        ratio, low, high: How many times better ours is: median, least and greatest over the rounds.
        goal: What is wanted, for people; ``""`` for nothing.
        met: Whether it was reached; ``None`` without a goal.
    """

    what: str
    against: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    goal: str = ""
    met: bool | None = None


def _row(what: str, against: str, unit: str, result: Comparison, goal: float | None = None) -> Row:
    ratios = result.ratios
    ratio = float(np.median(ratios))
    return Row(
        what,
        against,
        unit,
        float(np.median(result.ours)),
        float(np.median(result.theirs)),
        ratio,
        float(ratios.min()),
        float(ratios.max()),
        "" if goal is None else f"≥ {goal:g}×",
        None if goal is None else ratio >= goal,
    )


# A timer is compare() with the number of rounds filled in.
Timer = Callable[..., Comparison]


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


def _sizes(wanted: tuple[int, ...], data: PackedGraphs) -> list[int]:
    """Batch sizes that the molecules at hand can fill."""
    return sorted({min(size, len(data)) for size in wanted})


def _exhaust(batches: Iterable[Data]) -> None:
    for _ in batches:
        pass


def measure_loader(data: PackedGraphs, graphs: list[Data], timer: Timer) -> Iterator[Row]:
    """An epoch of shuffled batches, against PyG's loader."""
    goals = {128: 20.0, 1024: 25.0}
    for size in _sizes((128, 1024), data):
        ours = PackedLoader(data, size, shuffle=True)
        theirs = DataLoader(graphs, size, shuffle=True)
        result = timer(partial(_exhaust, ours), partial(_exhaust, theirs), work=len(data))
        against = "PyG DataLoader, list of Data"
        yield _row(f"PackedLoader, batch {size}", against, "molecules/s", result, goals.get(size))


def measure_store(data: PackedGraphs, graphs: list[Data]) -> Iterator[Row]:
    """Bytes per molecule: everything in our store against the tensors of theirs, without their objects."""
    ours = data.nbytes / data.len()
    theirs = sum(map(get_data_size, graphs)) / len(graphs)
    ratio = theirs / ours
    yield Row(
        "PackedGraphs, with SMILES",
        "list of Data, tensors alone",
        "bytes/molecule",
        ours,
        theirs,
        ratio,
        ratio,
        ratio,
        "≤ 350 bytes",
        ours <= 350,
    )


def _ogb(smiles: list[str]) -> None:
    for text in smiles:
        smiles2graph(text)


def measure_featurizer(smiles: list[str], timer: Timer) -> Iterator[Row]:
    """SMILES to codes, against OGB's on one process, and two of our processes against one."""
    one, two = (partial(featurize, smiles, num_workers=workers) for workers in (0, 2))
    result = timer(one, partial(_ogb, smiles), work=len(smiles))
    yield _row("featurize, 1 process", "ogb.utils.smiles2graph", "molecules/s", result, 1.8)
    yield _row("featurize, 2 processes", "1 process", "molecules/s", timer(two, one, work=len(smiles)), 1.8)


def sums(batch: Data, channels: int = CHANNELS) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Ways to sum over neighbours in a batch and to go back; each gives the sum and the gradient.

    All but ``"cached"`` start from what a fresh batch of ours knows: sorted edges and their pointers.
    """
    num_nodes = batch.ptr[-1].item()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, channels, generator=generator, requires_grad=True)
    cotangent = torch.randn(num_nodes, channels, generator=generator)
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

    return {
        "ours": lambda: there_and_back(neighbor_sum(x, sort_edges(batch.edge_index, num_nodes, num_nodes))),
        "EdgeIndex.matmul, fresh": lambda: there_and_back(edge_index().matmul(x, transpose=True)),
        "EdgeIndex.matmul, cached": lambda: there_and_back(cached.matmul(x, transpose=True)),
        "x[source], index_add": lambda: there_and_back(torch.zeros_like(x).index_add(0, target, x[source])),
    }


def measure_neighbor_sum(data: PackedGraphs, timer: Timer) -> Iterator[Row]:
    """Sums over neighbours, forwards and backwards, on the edges of batches."""
    for size in _sizes((128, 1024), data):
        batch = next(iter(PackedLoader(data, size, shuffle=True)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse")  # torch announces that its CSC tensors are young
            ways = sums(batch)
            ours = ways.pop("ours")
            for against, theirs in ways.items():
                goal = 2.5 if against.startswith("EdgeIndex") else None
                result = timer(ours, theirs, work=size)
                yield _row(f"neighbor_sum, batch {size}", against, "molecules/s", result, goal)


def training_step(net: GraphKernelNetwork, batch: Data) -> Callable[[], None]:
    """A function that trains ``net`` on ``batch`` by one step."""
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(batch), batch.y).backward()
        optimizer.step()

    return step


def measure_training_step(data: PackedGraphs, timer: Timer, threads: int) -> Iterator[Row]:
    """A training step of the gated Weisfeiler-Lehman network, against the same network edge by edge."""
    goals = {20: 1.0, 128: 1.5, 1024: 1.0}
    for precision in ("highest", "medium"):
        with torch_settings(threads, precision):
            for size in _sizes((20, 128, 1024), data):
                torch.manual_seed(0)
                net = GraphKernelNetwork.from_data(data, hidden_channels=CHANNELS, decay="gated")
                batch = next(iter(PackedLoader(data, size, shuffle=True)))
                plain = batch.clone()
                plain.edge_index = batch.edge_index.as_tensor().clone()
                ours, theirs = training_step(net, batch), training_step(naive_network(net), plain)
                result = timer(ours, theirs, work=size)
                what = f"WL training step, batch {size}, {precision} precision"
                yield _row(what, "plain MessagePassing", "molecules/s", result, goals.get(size))


COLUMNS = ("ours", "against", "unit", "ours", "theirs", "ratio (min–max)", "goal", "met")


def _cells(row: Row) -> tuple[str, ...]:
    def number(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    spread = "" if row.low == row.high else f" ({row.low:.3g}–{row.high:.3g})"
    met = {True: "yes", False: "**no**", None: ""}[row.met]
    ratio = f"{row.ratio:.3g}×{spread}"
    return row.what, row.against, row.unit, number(row.ours), number(row.theirs), ratio, row.goal, met


def _markdown(rows: list[Row]) -> str:
    lines = [COLUMNS, ["---"] * 3 + ["---:"] * 4 + ["---"], *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _printed(rows: list[Row], title: str) -> Table:
    table = Table(*COLUMNS, title=title)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def main(argv: list[str] | None = None) -> None:
    """Measure, print the table, and write it as ``speed.md`` and ``speed.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    parser = ArgumentParser(prog="wlkernelnn benchmark speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Fewer molecules and rounds: under a minute.")
    parser.add_argument("--dataset", default="cep", help="Name of a published data set.")
    parser.add_argument(
        "--molecules", type=PositiveInt | None, help="Take so many of its molecules; default all, or 500."
    )
    parser.add_argument("--threads", type=PositiveInt, default=2, help="Threads of torch.")
    parser.add_argument("--output-dir", default="bench/results", help="Folder of speed.md and speed.json.")
    options = parser.parse_args(argv)
    molecules = options.molecules or (500 if options.quick else None)
    timer = partial(compare, rounds=3 if options.quick else 9, min_seconds=0.02 if options.quick else 0.2)

    whole = load_molecules(options.dataset, progress=True)
    data = whole[np.random.default_rng(0).permutation(len(whole))[:molecules]]
    about = {
        "command": shlex.join(["wlkernelnn benchmark speed", *(sys.argv[1:] if argv is None else argv)]),
        "mode": "quick" if options.quick else "full",
        "dataset": options.dataset,
        "molecules": len(data),
        "threads": options.threads,
        **environment(),
    }
    console = Console()
    rows: list[Row] = []
    with torch_settings(options.threads), console.status("Measuring") as status:
        graphs = plain_data(data)
        for row in chain(
            measure_loader(data, graphs, timer),
            measure_store(data, graphs),
            measure_featurizer(data[:10_000].smiles, timer),
            measure_neighbor_sum(data, timer),
            measure_training_step(data, timer, options.threads),
        ):
            rows.append(row)
            status.update(f"Measured: {row.what} against {row.against}")

    title = f"Speed and memory ({about['mode']})"
    text = f"""# {title}

Both sides by turns in one run; medians, and the ratio turn by turn.

{_markdown(rows)}

"""
    text += "".join(f"* {key}: {value}\n" for key, value in about.items())
    folder = Path(options.output_dir)
    write_text(folder / "speed.md", text)
    write_text(
        folder / "speed.json", json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=2) + "\n"
    )
    console.print(_printed(rows, title))
    console.print(f"Written to {folder / 'speed.md'} and speed.json.")
