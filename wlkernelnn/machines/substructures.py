"""What each substructure of a graph adds to a weighted sum of kernels of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from wlkernelnn.kernels import CountKernel, objects
from wlkernelnn.kernels.flat_graphs import FlatGraphs, end_to_end
from wlkernelnn.kernels.graphs.codings import coded
from wlkernelnn.kernels.graphs.count_kernel import counted, unary
from wlkernelnn.kernels.graphs.counts import unit_rows
from wlkernelnn.kernels.names import Names
from wlkernelnn.kernels.ring_nodes import atom_shares
from wlkernelnn.ops.spans import bounds_of

COLUMNS = ["graph", "target", "kernel", "coding", "radius", "contribution", "atoms"]

# Graphs that are compared with all training graphs at once.
_BLOCK = 64


@dataclass
class Substructures:
    """The substructures of some graphs: E pairs of a graph and a pattern that it has.

    Attributes:
        kernel: Says which patterns there are.
        graph: ``[E]``, increasing.
        value: What each adds, ``[E, T]``.
        bounds: ``[E+1]``: where the occurrences of each begin and end.
        nodes: Of each occurrence ``[M, k]``, counted over all graphs.
        radius: ``[M]``, see :class:`~wlkernelnn.kernels.graphs.count_kernel.Occurrences`.
        alike: What graphs without any pattern share with others of the kind, ``[n, T]``.
        gram: The kernel with the training graphs, ``[n, n']``.
    """

    kernel: CountKernel
    graph: np.ndarray
    value: np.ndarray
    bounds: np.ndarray
    nodes: np.ndarray
    radius: np.ndarray
    alike: np.ndarray
    gram: np.ndarray

    def of_nodes(self, sizes: np.ndarray) -> np.ndarray:
        """What each node adds, ``[ΣV, T]``: equal shares of what it is part of."""
        times, width = np.diff(self.bounds), self.nodes.shape[1]
        share = np.repeat(self.value / (times * width)[:, None], times, axis=0)
        sums = np.repeat(self.alike / sizes[:, None], sizes, axis=0)
        for column in self.nodes.T:
            np.add.at(sums, column, share)
        return sums


def substructures(
    kernel: CountKernel, new: FlatGraphs, known: FlatGraphs, weight: np.ndarray
) -> Substructures:
    r"""The substructures of new graphs, and what each adds to :math:`\sum_i w_i K(G, G_i)`.

    Args:
        kernel: Of counts, with any ``normalize``.
        new, known: Both sides, of :func:`~wlkernelnn.kernels.flat_graphs.paired`.
        weight: ``[len(known), T]``.
    """
    graphs = end_to_end(coded(new, kernel.coding), coded(known, kernel.coding))
    found = kernel._occurrences(graphs, Names())
    counts, owner, column = counted(found, graphs)
    counts.sort_indices()
    if kernel.normalize == "minmax":
        value, alike, gram = _minmax(counts, len(new), weight)
    else:
        value, alike, gram = _products(unit_rows(counts) if kernel.normalize else counts, len(new), weight)
    mine = np.flatnonzero(owner < len(new))
    order = mine[np.lexsort((column[mine], owner[mine]))]  # as the entries of counts are sorted
    first = counts[: len(new)]
    return Substructures(
        kernel=kernel,
        graph=np.repeat(np.arange(len(new)), np.diff(first.indptr)),
        value=value,
        bounds=bounds_of(first.data.astype(np.int64)),
        nodes=found.nodes[order],
        radius=np.zeros(len(order), np.int64) if found.radius is None else found.radius[order],
        alike=alike,
        gram=gram,
    )


def _products(
    counts: sparse.csr_array, number: int, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    new, known = counts[:number], counts[number:]
    value = new.data[:, None] * (known.T @ weight)[new.indices]
    return value, np.zeros((number, weight.shape[1])), (new @ known.T).toarray()


def _minmax(
    counts: sparse.csr_array, number: int, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    times = counts[:number].data.astype(np.int64)
    ones = unary(counts)
    new, known = ones[:number], ones[number:]
    sizes, known_sizes = np.diff(new.indptr), np.diff(known.indptr)
    present = np.unique(new.indices)
    new, columns = new[:, present], known[:, present].T.tocsr()
    used = np.flatnonzero(weight.any(axis=1))
    used_columns = columns[:, used]
    value, alike = np.zeros((len(new.data), weight.shape[1])), np.zeros((number, weight.shape[1]))
    gram = np.zeros((number, len(known_sizes)))
    for begin in range(0, number, _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        least = (new[rows] @ columns).toarray()
        largest = sizes[rows, None] + known_sizes - least
        both_empty = largest == 0
        alike[rows] = both_empty @ weight
        inverse = 1 / np.where(both_empty, np.inf, largest)
        gram[rows] = least * inverse + both_empty
        entries = slice(new.indptr[begin], new.indptr[min(begin + _BLOCK, number)])
        graph = np.repeat(np.arange(len(least)), sizes[rows])
        for t in range(weight.shape[1]):
            slopes = used_columns @ (inverse[:, used] * weight[used, t]).T
            value[entries, t] = slopes[new.indices[entries], graph]
    # The columns "at least 1, 2, …" of a pattern are one pattern.
    return np.add.reduceat(value, bounds_of(times)[:-1], axis=0), alike, gram


def largest(found: Sequence[Substructures], graphs: FlatGraphs, most: int) -> pd.DataFrame:
    """The substructures that add or take most, of each graph and target, largest first.

    Columns are those of :attr:`Explanation.substructures`.
    """
    if not found:
        return pd.DataFrame(columns=COLUMNS)
    every = pd.concat(
        pd.DataFrame({"part": p, "graph": each.graph, "target": t, "contribution": column}).reset_index()
        for p, each in enumerate(found)
        for t, column in enumerate(each.value.T)
    )
    every["size"] = every["contribution"].abs()
    every = every[every["size"] > 0].sort_values(["graph", "target", "size"], ascending=[True, True, False])
    chosen = every.groupby(["graph", "target"]).head(most).reset_index(drop=True)
    each = [found[p] for p in chosen["part"]]
    times = [slice(*one.bounds[[e, e + 1]]) for one, e in zip(each, chosen["index"], strict=True)]
    radius = [one.radius[when.start] for one, when in zip(each, times, strict=True)]
    shares, atom_ptr = atom_shares(graphs)
    reached = [nodes @ shares.T for nodes in _reached(graphs, max(radius, default=0))]
    atoms = [
        tuple(tuple((np.unique(reached[r][nodes].indices) - begin).tolist()) for nodes in one.nodes[when])
        for one, when, r, begin in zip(each, times, radius, atom_ptr[chosen["graph"]], strict=True)
    ]
    shown = chosen.assign(
        kernel=[type(one.kernel).__name__ for one in each],
        coding=[one.kernel.coding for one in each],
        radius=radius,
        atoms=objects(atoms),
    )
    return shown[COLUMNS]


def _reached(graphs: FlatGraphs, radius: int) -> list[sparse.csr_array]:
    """Which nodes ``[ΣV, ΣV]`` are at most 0, 1, … edges apart."""
    size = int(graphs.node_ptr[-1])
    ends = np.concatenate([graphs.source, graphs.target]), np.concatenate([graphs.target, graphs.source])
    reached = [sparse.eye_array(size, dtype=bool, format="csr")]
    step = reached[0] + sparse.csr_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(size, size))
    for _ in range(radius):
        reached.append(reached[-1] @ step)
    return reached
