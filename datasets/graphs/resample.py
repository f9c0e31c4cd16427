"""Resampling of a regression set so that every range of the target is seen equally often."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


class BucketResampler:
    """Draw training examples uniformly over the non-empty buckets of their target (Lei et al. 2017, CEP).

    A molecule with target y lies in bucket floor(y / ``width``). The draws go through the buckets in rounds:
    every round visits each non-empty bucket once, in a new random order, so each bucket comes up equally
    often. Inside a bucket the members come one after the other in an order shuffled once, cyclically. Epochs
    continue where the one before stopped, yet any epoch is computed from its number alone: a resumed run
    sees what an uninterrupted one would have seen.

    Goes into :class:`~wlkernelnn.datasets.PackedLoader` as ``resample=``.

    Args:
        y: Targets of the training molecules, ``[n]`` or ``[n, 1]``, without missing values.
        width: Width of a bucket, in the unit of ``y``.
        num_samples: Draws in an epoch; default n.
        seed: Seed of all orders.

    Raises:
        ValueError: ``y`` has missing values, several tasks or no entries; ``width`` or ``num_samples`` is not
            positive.
    """

    def __init__(
        self, y: ArrayLike, width: float = 0.05, num_samples: int | None = None, seed: int = 0
    ) -> None:
        values = np.asarray(y, dtype=np.float64)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1 or not len(values):
            raise ValueError(f"BucketResampler needs one target per molecule, got y of shape {values.shape}")
        if not np.isfinite(values).all():
            first = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(f"BucketResampler needs every target, but y[{first}] is {values[first]}")
        if not width > 0:
            raise ValueError(f"width must be positive, got {width}")
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        self.num_samples = len(values) if num_samples is None else num_samples
        self.seed = seed
        _, bucket, self._count = np.unique(np.floor(values / width), return_inverse=True, return_counts=True)
        self._begin = np.cumsum(self._count) - self._count
        shuffled = np.random.default_rng(seed).permutation(len(values))
        self._members = shuffled[np.argsort(bucket[shuffled], kind="stable")]

    @property
    def num_buckets(self) -> int:
        """Number of non-empty buckets."""
        return len(self._count)

    def __call__(self, epoch: int) -> np.ndarray:
        """Positions in ``y`` for an epoch, int64 ``[num_samples]``."""
        begin = epoch * self.num_samples
        end = begin + self.num_samples
        first_round = begin // self.num_buckets
        last_round = -(-end // self.num_buckets)
        order = self._rounds(first_round, last_round).reshape(-1)
        draw = np.arange(begin, end)
        bucket = order[draw - first_round * self.num_buckets]
        # A bucket's turn in round r is its r-th draw ever.
        turn = draw // self.num_buckets
        return self._members[self._begin[bucket] + turn % self._count[bucket]]

    def _rounds(self, first: int, last: int) -> np.ndarray:
        """Order of the buckets in rounds ``first`` … ``last`` − 1, ``[last - first, num_buckets]``."""
        skip = first * self.num_buckets
        bits = np.random.Philox(key=self.seed)
        bits.advance(skip // 4)  # the generator makes four numbers at a time and can jump to any of them
        keys = np.random.Generator(bits).random(skip % 4 + (last - first) * self.num_buckets)[skip % 4 :]
        return np.argsort(keys.reshape(-1, self.num_buckets), axis=1, kind="stable")
