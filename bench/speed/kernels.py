"""Speed and memory of the exact kernels beside GraKeL's, at the same results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from grakel import Graph
from grakel.kernels import (
    RandomWalk,
    VertexHistogram,
    WeisfeilerLehman,
    WeisfeilerLehmanOptimalAssignment,
)
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race, RaceOf, Ratio, raced
from wlkernelnn.bench.harness.timing import Usage, usage
from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu
from wlkernelnn.kernels import RandomWalkKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.ops.colours import wl_colours, wl_colours_naive

ITERATIONS = 4
# Molecules have ρ < 3, and the sum exists below 1/ρ².
DECAY = 0.1
# Rows of a min-max Gram that the dense side fills in a turn.
DENSE_ROWS = 10
GOALS = {"WL Gram, 1,000": 7.0, "WL Gram, 3,000": 7.0, "random walk, 100": 20.0}

LEGEND = f"""Kernel values per second (n² of the Gram matrix of n molecules), of colours molecules per second,
of memory bytes. One thread; molecules are drawn at random.

* WL Gram: the subtree kernel, {ITERATIONS} iterations, node labels only (GraKeL's has no edge labels). Each
  side starts from its own form of the data, whose making is not timed: ours from a packed store, GraKeL's
  from a list of its Graph objects. Nothing is timed before both Grams have been found bitwise equal.
* min-max Gram: Σ min / Σ max of the same counts of colours, by all sides bitwise equal. GraKeL's is its
  optimal assignment kernel, which is Σ min; Σ max follows from the diagonal. numpy's takes minima row by row
  of a dense matrix of counts (float32), whose making is not timed; a turn fills {DENSE_ROWS} of its rows.
* random walk: the geometric kernel of molecules without labels, λ = {DECAY:g}: ours from a list of PyG Data,
  GraKeL's ("fast", conjugate gradients) from its Graph objects, after both have been found to differ by 1e-5
  (relative) at most. The labelled kernels are not compared because they are different ones: GraKeL's is
  1ᵀ(I − λ D A× D)⁻¹1, where both ends of a walk have to match, and ours 1ᵀ(I − λ A× D)⁻¹1.
* WL colours: {ITERATIONS} iterations with edge labels, against dictionaries of tuples; the goal is one of
  ours alone.
* large Gram: the same subtree kernel by blocks into a float64 file (numpy.memmap), measured once in a process
  of its own. Memory is what the process takes beyond the data, without pages of the file, which the system
  writes out and drops as it needs. GraKeL holds the matrices of all iterations at once: its numbers are no
  measurement, but a n + b n² through two sizes, each measured in a process of its own (below).
"""


def grakel_graphs(data: PackedGraphs, labelled: bool = True) -> list[Graph]:
    """The same graphs as GraKeL has them: distinct rows of ``x`` as integers, or without labels."""
    flat = flat_graphs(data)
    labels = node_labels(flat)
    graphs = []
    for i in range(len(flat)):
        first, last = flat.node_ptr[i : i + 2].tolist()
        edges = slice(*flat.edge_ptr[i : i + 2])
        source, target = flat.source[edges] - first, flat.target[edges] - first
        if labelled:
            neighbours: dict[int, dict[int, float]] = {v: {} for v in range(last - first)}
            for u, v in zip(source.tolist(), target.tolist(), strict=True):
                neighbours[v][u] = 1.0
            names = dict(enumerate(labels[first:last].tolist()))
            graphs.append(Graph(neighbours, names, {}, graph_format="dictionary"))
        else:
            adjacency = np.zeros((last - first, last - first))
            adjacency[target, source] = 1.0
            graphs.append(Graph(adjacency, {}, {}, graph_format="adjacency"))
    return graphs


def plain_graphs(data: PackedGraphs) -> list[Data]:
    """Nodes and edges only, as PyG has them."""
    return [Data(edge_index=one.edge_index.clone(), num_nodes=one.num_nodes) for one in data]


def wl_gram(data: PackedGraphs, out: np.ndarray | None = None) -> np.ndarray:
    with threadpool_limits(1):
        return WLSubtreeKernel(ITERATIONS, edge_labels=False).gram(data, out=out)


def grakel_wl_gram(graphs: list[Graph]) -> np.ndarray:
    with threadpool_limits(1):
        return WeisfeilerLehman(n_iter=ITERATIONS, base_graph_kernel=VertexHistogram).fit_transform(graphs)


def min_max_gram(data: PackedGraphs) -> np.ndarray:
    with threadpool_limits(1):
        return WLSubtreeKernel(ITERATIONS, edge_labels=False, normalize="minmax").gram(data)


def grakel_min_max_gram(graphs: list[Graph]) -> np.ndarray:
    with threadpool_limits(1):
        least = WeisfeilerLehmanOptimalAssignment(n_iter=ITERATIONS).fit_transform(graphs)
    sizes = np.diagonal(least)
    return least / (sizes[:, None] + sizes - least)


def dense_min_max_rows(counts: np.ndarray, num_rows: int) -> np.ndarray:
    """The first rows of the min-max Gram of dense counts ``[G, columns]``."""
    least = np.stack([np.minimum(row, counts).sum(axis=1) for row in counts[:num_rows]]).astype(np.float64)
    sizes = counts.sum(axis=1, dtype=np.float64)
    return least / (sizes[:num_rows, None] + sizes - least)


def walk_gram(graphs: list[Data]) -> np.ndarray:
    return RandomWalkKernel(None, decay=DECAY).gram(graphs)


def grakel_walk_gram(graphs: list[Graph]) -> np.ndarray:
    return RandomWalk(lamda=DECAY, method_type="fast").fit_transform(graphs)


def agree(what: str, difference: float, tolerance: float, known: Known) -> None:
    """Note how far two Grams are apart; a RuntimeError if it is too far."""
    if not difference <= tolerance:
        raise RuntimeError(f"{what}: our Gram and theirs are {difference:.1e} apart, not comparable")
    known[f"{what}, largest difference"] = f"{difference:.1e}" if difference else "0 (bitwise equal)"


def check_tu(names: tuple[str, ...], known: Known) -> None:
    """Whole data sets of the TU collection: is our Gram GraKeL's, bitwise?"""
    for name in names:
        data = load_tu(name)
        difference = abs(wl_gram(data) - grakel_wl_gram(grakel_graphs(data))).max()
        agree(f"WL Gram, {name}", difference, 0.0, known)


def measure_wl(data: PackedGraphs, sizes: tuple[int, ...], race: RaceOf, known: Known) -> Iterator[Ratio]:
    """Grams of the subtree kernel."""
    for size in sorted({min(size, len(data)) for size in sizes}):
        some = data[:size]
        graphs = grakel_graphs(some)
        what = f"WL Gram, {size:,}"
        agree(what, abs(wl_gram(some) - grakel_wl_gram(graphs)).max(), 0.0, known)
        sides = partial(wl_gram, some), partial(grakel_wl_gram, graphs)
        yield race(what, "GraKeL", *sides, size**2, GOALS.get(what))


def measure_min_max(data: PackedGraphs, num_grakel: int, race: RaceOf, known: Known) -> Iterator[Ratio]:
    """Grams of the min-max kernel: of a few molecules beside GraKeL's, of all beside numpy's."""
    few, size, num_rows = data[:num_grakel], len(data), min(len(data), DENSE_ROWS)
    graphs = grakel_graphs(few)
    what = f"min-max Gram, {len(few):,}"
    agree(what, abs(min_max_gram(few) - grakel_min_max_gram(graphs)).max(), 0.0, known)
    sides = partial(min_max_gram, few), partial(grakel_min_max_gram, graphs)
    yield race(what, "GraKeL", *sides, len(few) ** 2)
    counts = WLSubtreeKernel(ITERATIONS, edge_labels=False).features(data).astype(np.float32).toarray()
    what = f"min-max Gram, {size:,}"
    agree(what, abs(min_max_gram(data)[:num_rows] - dense_min_max_rows(counts, num_rows)).max(), 0.0, known)
    sides = partial(min_max_gram, data), partial(dense_min_max_rows, counts, num_rows)
    yield race(what, "dense numpy", *sides, size**2, their_work=num_rows * size)


def measure_walks(data: PackedGraphs, race: RaceOf, known: Known) -> Iterator[Ratio]:
    """Grams of the geometric random walk kernel on plain graphs."""
    plain, graphs = plain_graphs(data), grakel_graphs(data, labelled=False)
    what = f"random walk, {len(data):,}"
    with threadpool_limits(1):
        agree(what, abs(walk_gram(plain) / grakel_walk_gram(graphs) - 1).max(), 1e-5, known)
        sides = partial(walk_gram, plain), partial(grakel_walk_gram, graphs)
        yield race(what, "GraKeL", *sides, len(data) ** 2, GOALS.get(what))


def measure_colours(data: PackedGraphs, race: RaceOf) -> Iterator[Ratio]:
    """The colours of all molecules at once."""
    flat = flat_graphs(data)
    nodes, edges = node_labels(flat), edge_labels(flat)
    ours, theirs = (
        partial(colours, nodes, flat.source, flat.target, ITERATIONS, edges)
        for colours in (wl_colours, wl_colours_naive)
    )
    row = race(f"WL colours, {len(data):,}", "dictionaries", ours, theirs, len(data))
    yield replace(row, goal="≥ 50k", met=row.ours >= 50e3)


def _ours_prepared(dataset: str, molecules: np.ndarray, file: str) -> tuple[PackedGraphs, np.ndarray]:
    size = len(molecules)
    return load_molecules(dataset)[molecules], np.memmap(file, np.float64, "w+", shape=(size, size))


def _grakel_prepared(dataset: str, molecules: np.ndarray) -> tuple[list[Graph]]:
    return (grakel_graphs(load_molecules(dataset)[molecules]),)


def extrapolated(sizes: tuple[int, int], usages: list[Usage], size: int) -> Usage:
    """a n + b n² through two measurements, with a, b ≥ 0."""
    terms = np.array([[n, n**2] for n in (*sizes, size)], dtype=np.float64)
    measured = np.array([[used.seconds, used.peak] for used in usages])
    seconds, peak = (float(terms[-1] @ nnls(terms[:-1], values)[0]) for values in measured.T)
    return Usage(seconds, round(peak))


def measure_large(
    dataset: str, molecules: np.ndarray, sizes: tuple[int, int], scratch: str | None, known: Known
) -> Iterator[Ratio]:
    """The Gram of everything, which GraKeL's memory is too small for."""
    size = len(molecules)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        ours = usage(wl_gram, _ours_prepared, dataset, molecules, str(Path(folder, "gram")))
    measured = [usage(grakel_wl_gram, _grakel_prepared, dataset, molecules[:n]) for n in sizes]
    theirs = extrapolated(sizes, measured, size)
    for n, used in zip((size, *sizes), (ours, *measured), strict=True):
        whose = "large Gram, ours" if n == size else "large Gram, GraKeL's"
        known[f"{whose}, {n:,}"] = f"{used.seconds:.3g} s, {used.peak / 1e6:,.0f} MB"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    known["memory of this machine"] = f"{memory / 1e9:.3g} GB"
    rate, their_rate, against = size**2 / ours.seconds, size**2 / theirs.seconds, "GraKeL (extrapolated)"
    faster, smaller = theirs.seconds / ours.seconds, theirs.peak / max(ours.peak, 1)
    what = f"large Gram, {size:,}"
    yield Ratio(f"{what}, values/s", against, rate, their_rate, faster, faster, faster)
    yield Ratio(f"{what}, memory", against, float(ours.peak), float(theirs.peak), smaller, smaller, smaller)


@dataclass
class KernelSpeedOptions(TableOptions):
    """What is measured, and where results go.

    Args:
        quick: Fewer molecules and rounds: only to see that everything works.
        dataset: Name of a published data set of molecules.
        scratch_dir: Where 8 bytes per value of the large Gram fit; default the system's folder.
    """

    dataset: str = "cep"
    scratch_dir: str | None = None


def measure(options: KernelSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    quick = options.quick
    race = partial(raced, rounds=3 if quick else 5, min_seconds=0.02 if quick else 0.2)
    whole = load_molecules(options.dataset, progress=True)
    molecules = np.random.default_rng(0).permutation(len(whole))[: 2000 if quick else None]
    data = whole[molecules]
    known |= {"dataset": options.dataset, "molecules": len(data)}
    check_tu(("MUTAG",) if quick else ("MUTAG", "NCI1"), known)
    yield from measure_wl(data, (300,) if quick else (1000, 3000), race, known)
    yield from measure_min_max(data[: 300 if quick else 3000], 50 if quick else 300, race, known)
    yield from measure_walks(data[: 20 if quick else 100], race, known)
    yield from measure_colours(data, race)
    sizes = (200, 400) if quick else (2000, 4000)
    yield from measure_large(options.dataset, molecules, sizes, options.scratch_dir, known)


TITLE, PACKAGES = "Speed of the exact kernels", ("grakel", "scipy", "scikit-learn")
main = Race("kernel-speed", __doc__, KernelSpeedOptions, TITLE, LEGEND, measure, PACKAGES).main
