"""Batches of a packed store by index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

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
        resample: Maps an epoch's number to positions in ``data`` (with repetitions, if it likes) and takes
            the place of shuffling; see :class:`~wlkernelnn.datasets.BucketResampler`.

    Raises:
        ValueError: ``batch_size`` < 1, or both ``shuffle`` and ``resample``.
    """

    def __init__(
        self,
        data: PackedGraphs,
        batch_size: int = 128,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        resample: Resampler | None = None,
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
        self.resample = resample
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
            for batch in _gather(self.data, order[begin : begin + step], self.batch_size):
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


def _spans(ptr: np.ndarray, graphs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the spans of ``graphs`` lie in a flat array, their lengths, and their bounds in the result."""
    begin = ptr[graphs]
    length = ptr[graphs + 1] - begin
    bounds = _bounds(length)
    where = np.repeat(begin - bounds[:-1], length)
    where += np.arange(len(where))
    return where, length, bounds


def _batch(**parts: Tensor) -> Data:
    """``Data(**parts)``, past its look at every name, which takes as long as all the arithmetic."""
    data = Data()
    data._store._mapping.update(parts)
    return data


def _gather(data: PackedGraphs, graphs: np.ndarray, batch_size: int) -> Iterator[Data]:
    """Gather some graphs at once and cut the result into batches (views, not copies)."""
    a = {name: tensor.numpy() for name, tensor in vars(data.arrays).items()}
    nodes, num_nodes, node_bounds = _spans(a["node_ptr"], graphs)
    edges, num_edges, edge_bounds = _spans(a["edge_ptr"], graphs)
    degree = a["in_degree"].take(nodes)
    edges_to = _bounds(degree)
    # Nodes are numbered from the start of their own batch.
    position = np.arange(len(graphs))
    first = position // batch_size * batch_size
    number = np.arange(len(nodes)) - np.repeat(node_bounds[first], num_nodes)
    edge_index = np.empty((2, len(edges)), dtype=np.int64)
    start = np.repeat(node_bounds[:-1] - node_bounds[first], num_edges)
    np.add(a["source"].take(edges), start, out=edge_index[0])
    edge_index[1] = np.repeat(number, degree)

    x = a["node_table"].astype(np.int64).take(a["node_type"].take(nodes), axis=0)
    edge_type = a["edge_type"].take(edges).astype(np.int64)
    batch = np.repeat(position - first, num_nodes)
    y = a["y"].take(graphs, axis=0)
    node_cut, edge_cut = node_bounds.tolist(), edge_bounds.tolist()
    for g0 in range(0, len(graphs), batch_size):
        g1 = min(g0 + batch_size, len(graphs))
        n0, n1, e0, e1 = node_cut[g0], node_cut[g1], edge_cut[g0], edge_cut[g1]
        indptr = torch.from_numpy(edges_to[n0 : n1 + 1] - e0)
        yield _batch(
            x=torch.from_numpy(x[n0:n1]),
            edge_index=sorted_edge_index(torch.from_numpy(edge_index[:, e0:e1]), indptr),
            edge_type=torch.from_numpy(edge_type[e0:e1]),
            y=torch.from_numpy(y[g0:g1]),
            batch=torch.from_numpy(batch[n0:n1]),
            ptr=torch.from_numpy(node_bounds[g0 : g1 + 1] - n0),
        )
