"""Batches of packed strings by index arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch_geometric.data import Data

from wlkernelnn.datasets.files.spans import take_spans
from wlkernelnn.datasets.graphs.epochs import EpochLoader, Resampler, plain_data

from .packed_strings import PackedStrings


class StringLoader(EpochLoader):
    """Mini-batches of :class:`PackedStrings`, end to end and without padding.

    A batch is a plain PyG ``Data`` with the token ids of all its strings ``x [N]`` (or vectors ``[N, d]``),
    ``ptr [B+1]``, ``batch [N]``, ``y [B]``, all int64 but for vectors and a ``y`` of another type, and B as
    ``num_graphs``. An empty string is one whose two entries of ``ptr`` are equal.

    Args:
        data: The strings.
        batch_size: Strings in a batch.
        shuffle: Draw a new order in every epoch, from ``seed`` and the epoch's number.
        drop_last: Leave out a last batch that is smaller than the others.
        seed: Seed of the shuffling.
        resample: Maps an epoch's number to positions in ``data`` (with repetitions, if it likes) and takes
            the place of shuffling.

    Raises:
        ValueError: ``batch_size`` < 1, or both ``shuffle`` and ``resample``.
    """

    data: PackedStrings

    def __init__(
        self,
        data: PackedStrings,
        batch_size: int = 32,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        resample: Resampler | None = None,
    ) -> None:
        super().__init__(data, batch_size, shuffle, drop_last, seed, resample)

    def _batches(self, positions: np.ndarray) -> Iterator[Data]:
        ptr, flat, labels = self.data.ptr.numpy(), self.data.tokens.numpy(), self.data.y.numpy()
        for strings in self._chunks(positions):
            (tokens,), lengths, bounds = take_spans(ptr, strings, flat)
            x, y = tokens, labels.take(strings, axis=0)
            if np.issubdtype(x.dtype, np.integer):
                x = x.astype(np.int64)
            batch = np.repeat(np.arange(len(strings)) % self.batch_size, lengths)
            for first in range(0, len(strings), self.batch_size):
                ends = bounds[first : first + self.batch_size + 1]
                begin, end = ends[0], ends[-1]
                yield plain_data(
                    x=torch.from_numpy(x[begin:end]),
                    y=torch.from_numpy(y[first : first + self.batch_size]),
                    batch=torch.from_numpy(batch[begin:end]),
                    ptr=torch.from_numpy(ends - begin),
                    num_graphs=len(ends) - 1,
                )
