"""Batches of a packed store by index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from .packed import PackedGraphs, sorted_edge_index

# Graphs gathered at once. Larger chunks leave the caches and the allocator's free lists, smaller ones pay
# more Python per graph.
CHUNK = 2048

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
        self._skip = 0  # batches of this epoch that were consumed before a resume
        self._done = 0

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
        self.epoch, self._skip = state["epoch"], state["batch"]

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
        self._done, self._skip = self._skip, 0
        order = order[self._done * self.batch_size :]
        step = max(CHUNK // self.batch_size, 1) * self.batch_size
        for begin in range(0, len(order), step):
            for batch in _gather(self.data, order[begin : begin + step], self.batch_size):
                self._done += 1
                yield batch
        self._done = 0
        self.epoch += 1


def _spans(ptr: Tensor, graphs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the spans of ``graphs`` lie in a flat array, their lengths, and their bounds in the result."""
    begin = ptr[graphs]
    length = ptr[graphs + 1] - begin
    out = torch.nn.functional.pad(length.cumsum(0), (1, 0))
    total = int(out[-1])
    where = (begin - out[:-1]).repeat_interleave(length, output_size=total)
    where += torch.arange(total)
    return where, length, out


def _gather(data: PackedGraphs, graphs: np.ndarray, batch_size: int) -> Iterator[Data]:
    """Gather some graphs at once and cut the result into batches (views, not copies)."""
    a = data.arrays
    index = torch.from_numpy(graphs)
    nodes, num_nodes, node_out = _spans(a.node_ptr, index)
    edges, num_edges, edge_out = _spans(a.edge_ptr, index)
    total_nodes, total_edges = int(node_out[-1]), int(edge_out[-1])
    # Nodes are numbered from the start of their own batch.
    position = torch.arange(len(graphs))
    batch_start = node_out[position // batch_size * batch_size]

    x = a.node_table.long().index_select(0, a.node_type.index_select(0, nodes).int())
    degree = a.in_degree.index_select(0, nodes).long()
    node_number = torch.arange(total_nodes) - batch_start.repeat_interleave(
        num_nodes, output_size=total_nodes
    )
    edge_index = torch.empty((2, total_edges), dtype=torch.int64)
    edge_index[0] = a.source.index_select(0, edges)
    edge_index[0] += (node_out[:-1] - batch_start).repeat_interleave(num_edges, output_size=total_edges)
    edge_index[1] = node_number.repeat_interleave(degree, output_size=total_edges)
    edge_type = a.edge_type.index_select(0, edges).long()
    batch = (position % batch_size).repeat_interleave(num_nodes, output_size=total_nodes)
    y = a.y.index_select(0, index)

    node_cut, edge_cut = node_out.tolist(), edge_out.tolist()
    for g0 in range(0, len(graphs), batch_size):
        g1 = min(g0 + batch_size, len(graphs))
        n0, n1, e0, e1 = node_cut[g0], node_cut[g1], edge_cut[g0], edge_cut[g1]
        indptr = torch.nn.functional.pad(degree[n0:n1].cumsum(0), (1, 0))
        parts: dict[str, Any] = {
            "x": x[n0:n1],
            "edge_index": sorted_edge_index(edge_index[:, e0:e1], indptr),
            "edge_type": edge_type[e0:e1],
            "y": y[g0:g1],
            "batch": batch[n0:n1],
            "ptr": node_out[g0 : g1 + 1] - n0,
        }
        yield Data(**parts)
