"""Batches of a packed store by index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from wlkernelnn.ops.wl_colours import wl_quotient

from .packed import PackedGraphs, sorted_edge_index

# Graphs gathered at once. Larger chunks leave the caches, smaller ones pay more Python per graph.
CHUNK = 1024

Resampler = Callable[[int], np.ndarray]


class PackedLoader:
    """Mini-batches of :class:`PackedGraphs` as plain PyG ``Data``, without workers.

    A batch holds ``x [N, F]``, ``edge_index [2, E]`` (an ``EdgeIndex`` sorted by target, pointers known),
    ``edge_type [E]``, ``y [B, tasks]``, ``batch [N]`` and ``ptr [B+1]``; indices and codes are int64.

    Args:
        data: The graphs, or a view on some of them.
        batch_size: Graphs in a batch.
        shuffle: Draw a new order in every epoch, from ``seed`` and the epoch's number.
        drop_last: Leave out a last batch that is smaller than the others.
        seed: Seed of the shuffling.
        quotient: Also give each batch as its Weisfeiler-Lehman colours after so many iterations, ``quotient``
            (:class:`~wlkernelnn.ops.wl_colours.Quotient`): layers then compute each colour once.
        resample: Maps an epoch's number to positions in ``data`` (with repetitions, if it likes) and takes
            the place of shuffling; see :class:`~wlkernelnn.datasets.BucketResampler`.

    Raises:
        ValueError: ``batch_size`` < 1, ``quotient`` < 0, or both ``shuffle`` and ``resample``.
    """

    def __init__(
        self,
        data: PackedGraphs,
        batch_size: int = 128,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        resample: Resampler | None = None,
        quotient: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if shuffle and resample is not None:
            raise ValueError("give either shuffle=True or resample, not both: resample decides the order")
        self.data = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        if quotient is not None and quotient < 0:
            raise ValueError(f"quotient is a number of iterations or None, got {quotient}")
        self.resample = resample
        self.quotient = quotient
        self.epoch = 0
        self._done = 0  # batches of this epoch that were yielded
        self._resumed = False

    #: Lightning asks for one wherever there is a sampler.
    batch_sampler = None

    @property
    def sampler(self) -> PackedLoader:
        """Itself: Lightning announces the epoch through ``loader.sampler.set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Where the loader stands: enough to resume in the middle of an epoch."""
        return {"epoch": self.epoch, "batch": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self._done, self._resumed = state["epoch"], state["batch"], True

    def positions(self) -> np.ndarray:
        """Positions in ``data`` in this epoch's order."""
        if self.resample is not None:
            return self.resample(self.epoch)
        if self.shuffle:
            return np.random.default_rng((self.seed, self.epoch)).permutation(len(self.data))
        return np.arange(len(self.data))

    def __len__(self) -> int:
        count = len(self.data) if self.resample is None else len(self.resample(self.epoch))
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Data]:
        order = self.data.index[self.positions()]
        if self.drop_last:
            order = order[: len(order) // self.batch_size * self.batch_size]
        self._done, self._resumed = self._done if self._resumed else 0, False
        order = order[self._done * self.batch_size :]
        step = max(CHUNK // self.batch_size, 1) * self.batch_size
        for begin in range(0, len(order), step):
            for batch in _gather(self.data, order[begin : begin + step], self.batch_size, self.quotient):
                self._done += 1
                yield batch
        self._done = 0
        self.epoch += 1


# NumPy does the arithmetic, not torch: work of microseconds is slower on many threads than on one, and very
# much slower where other processes want the same cores.


def _bounds(lengths: np.ndarray) -> np.ndarray:
    """Where spans of these lengths, laid end to end, begin and end: int64 ``[len(lengths) + 1]``."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _take(
    ptr: np.ndarray, graphs: np.ndarray, *flats: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Spans of ``graphs`` out of flat arrays, laid end to end; their lengths, and their bounds there."""
    begin, end = ptr[graphs], ptr[graphs + 1]
    length = end - begin
    bounds = _bounds(length)
    where = np.repeat(begin - bounds[:-1], length)
    where += np.arange(len(where))
    if len(where):
        # The graphs lie far apart in memory. Reading both ends of all spans first waits for many at once, not
        # for one after the other: 1.5 times as fast where the store exceeds the caches.
        for flat in flats:
            flat.take(begin, mode="clip")
            flat.take(end - 1, mode="clip")
    return [flat.take(where) for flat in flats], length, bounds


def _batch(**parts: Any) -> Data:
    """``Data(**parts)``, past its look at every name, which takes as long as all the arithmetic."""
    data = Data()
    data._store._mapping.update(parts)
    return data


def _gather(data: PackedGraphs, graphs: np.ndarray, batch_size: int, quotient: int | None) -> Iterator[Data]:
    """Gather some graphs at once and cut the result into batches (views, not copies)."""
    a = {name: tensor.numpy() for name, tensor in vars(data.arrays).items()}
    known = [] if quotient is None else data.colours(quotient)
    (node_type, degree, *colours), num_nodes, node_bounds = _take(
        a["node_ptr"], graphs, a["node_type"], a["in_degree"], *known
    )
    (source, edge_type), num_edges, edge_bounds = _take(a["edge_ptr"], graphs, a["source"], a["edge_type"])
    x = a["node_table"].astype(np.int64).take(node_type, axis=0)
    y = a["y"].take(graphs, axis=0)
    batch = np.repeat(np.arange(len(graphs)) % batch_size, num_nodes)
    edges_to = _bounds(degree)
    edge_index = np.empty((2, len(source)), dtype=np.int64)
    np.add(source, np.repeat(node_bounds[:-1], num_edges), out=edge_index[0])
    edge_index[1] = np.repeat(np.arange(len(degree)), degree)
    edge_type = edge_type.astype(np.int64)

    node_cut, edge_cut = node_bounds.tolist(), edge_bounds.tolist()
    for g0 in range(0, len(graphs), batch_size):
        g1 = min(g0 + batch_size, len(graphs))
        n0, n1, e0, e1 = node_cut[g0], node_cut[g1], edge_cut[g0], edge_cut[g1]
        # A batch counts its nodes from its own start.
        edges = edge_index[:, e0:e1]
        edges -= n0
        indptr = edges_to[n0 : n1 + 1] - e0
        parts: dict[str, Any] = {}
        if quotient is not None:
            parts["quotient"] = wl_quotient(
                [colour[n0:n1] for colour in colours],
                edges[0],
                indptr,
                edge_type[e0:e1],
                batch[n0:n1],
                g1 - g0,
            )
        yield _batch(
            **parts,
            x=torch.from_numpy(x[n0:n1]),
            edge_index=sorted_edge_index(
                torch.from_numpy(edges), torch.from_numpy(indptr), data.description.is_undirected
            ),
            edge_type=torch.from_numpy(edge_type[e0:e1]),
            y=torch.from_numpy(y[g0:g1]),
            batch=torch.from_numpy(batch[n0:n1]),
            ptr=torch.from_numpy(node_bounds[g0 : g1 + 1] - n0),
        )
