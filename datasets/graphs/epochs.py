"""Epochs of loaders: their order, where one stands, and other ways to draw them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sized
from copy import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch_geometric.data import Data

from wlkernelnn.ops.spans import places_of
from wlkernelnn.utils.checks import check_count

from .arrays import bounds_of, positions_of

# Items gathered at once. Larger chunks leave the caches, smaller ones pay more Python per item.
CHUNK = 1024

Resampler = Callable[[int], np.ndarray]


def place_of(rank: int | None, num_replicas: int | None) -> tuple[int, int]:
    """The rank of this process and the number of processes: those given, else those of ``torch.distributed``.

    Raises:
        ValueError: One is given without the other, they contradict each other, or ``num_replicas`` < 1.
    """
    if num_replicas is not None:
        check_count("num_replicas", num_replicas)
    if rank is not None and not 0 <= rank < (num_replicas or 0):
        raise ValueError(f"rank must be from 0 to num_replicas - 1, got rank {rank} of {num_replicas}")
    if rank is None and (num_replicas or 1) > 1:
        raise ValueError(f"num_replicas={num_replicas} needs a rank")
    group = torch.distributed
    if num_replicas is None and group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    return rank or 0, num_replicas or 1


class EpochLoader(ABC):
    """Mini-batches in an order that depends on the epoch; resumes in the middle of one.

    A subclass says what the batches of some positions are (``_batches``). Arguments and errors:
    :class:`~wlkernelnn.datasets.PackedLoader`.
    """

    def __init__(
        self,
        data: Sized,
        batch_size: int = 32,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        resample: Resampler | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        batch_size, seed = check_count("batch_size", batch_size), check_count("seed", seed, least=0)
        if shuffle and resample is not None:
            raise ValueError("give either shuffle=True or resample, not both: resample decides the order")
        place_of(rank, num_replicas)
        self.data = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.resample = resample
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self._done = 0  # batches of this epoch that were yielded
        self._resumed = False
        self._begun = False  # an epoch, which was not read to its end

    #: Lightning asks for one wherever there is a sampler.
    batch_sampler = None

    @property
    def sampler(self) -> Self:
        """Itself: Lightning announces the epoch through ``loader.sampler.set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self._begun = epoch, False

    def state_dict(self) -> dict[str, int]:
        """Where the loader stands: enough to resume in the middle of an epoch."""
        return {"epoch": self.epoch, "batch": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where a loader of the same data and batch size stood.

        Raises:
            ValueError: The epoch has no such batch.
        """
        there = copy(self)
        there.epoch = state["epoch"]
        if not 0 <= state["batch"] <= len(there):
            raise ValueError(
                f"state_dict: batch {state['batch']} of an epoch, expected 0 to {len(there)}, as "
                f"{len(self.data)} items make with batch_size={self.batch_size}"
            )
        self.epoch, self._done, self._resumed, self._begun = state["epoch"], state["batch"], True, False

    def positions(self) -> np.ndarray:
        """Positions in ``data`` in this epoch's order; ``IndexError`` if ``resample`` gives others."""
        if self.resample is not None:
            return positions_of(len(self.data), self.resample(self.epoch))
        if self.shuffle:
            return np.random.default_rng((self.seed, self.epoch)).permutation(len(self.data))
        return np.arange(len(self.data))

    def __len__(self) -> int:
        count = len(self.data) if self.resample is None else len(self.positions())
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Data]:
        # What was left early is over.
        self.epoch += self._begun
        self._begun = True
        positions = self.positions()
        if self.drop_last:
            positions = positions[: len(positions) // self.batch_size * self.batch_size]
        self._done, self._resumed = self._done if self._resumed else 0, False
        rank, num_replicas = place_of(self.rank, self.num_replicas)
        # Pieces of whole batches are gathered at once.
        step = max(CHUNK // self.batch_size, 1) * self.batch_size
        for begin in range(self._done * self.batch_size, len(positions), step):
            piece = positions[begin : begin + step]
            first = np.arange(0, len(piece), self.batch_size)
            size = np.minimum(self.batch_size, len(piece) - first)
            if num_replicas > 1:  # consecutive shares of each batch, of equal sizes if it can be
                share = size * rank // num_replicas
                first, size = first + share, size * (rank + 1) // num_replicas - share
                piece = piece[places_of(first, bounds_of(size))]
            for batch in self._batches(piece, bounds_of(size)):
                self._done += 1
                yield batch
        self._done, self._begun = 0, False
        self.epoch += 1

    @abstractmethod
    def _batches(self, positions: np.ndarray, bounds: np.ndarray) -> Iterator[Data]:
        """The batches of these positions in ``data``, which are gathered at once.

        Batch i has those from ``bounds[i]`` to ``bounds[i + 1]``; there may be none.
        """


class EndlessShuffle:
    """Epochs that are stretches of one endless sequence: all items in a random order, then in another, ….

    Any epoch is computed from its number alone. Goes into the loaders as ``resample=``.

    Args:
        num_items: Number of items.
        num_samples: Length of an epoch; it may be smaller or larger than ``num_items``.
        seed: Seed of all orders.

    Raises:
        ValueError: A number is not positive.
    """

    def __init__(self, num_items: int, num_samples: int, seed: int = 0) -> None:
        self.num_items = check_count("num_items", num_items)
        self.num_samples = check_count("num_samples", num_samples)
        self.seed = check_count("seed", seed, least=0)

    def __call__(self, epoch: int) -> np.ndarray:
        """Positions of the items of an epoch, int64 ``[num_samples]``."""
        begin = epoch * self.num_samples
        first, last = begin // self.num_items, (begin + self.num_samples - 1) // self.num_items
        laps = (np.random.default_rng((self.seed, lap)) for lap in range(first, last + 1))
        order = np.concatenate([lap.permutation(self.num_items) for lap in laps])
        skipped = begin - first * self.num_items
        return order[skipped : skipped + self.num_samples]


class LengthGroupedShuffle:
    """Epochs whose batches hold strings of similar length, in a random order.

    Layers that read a string token by token take as many steps as the longest string of a batch has tokens:
    a batch of equal ones has the fewest. Every epoch all items are shuffled, sorted by length and cut into
    batches, and the batches are shuffled. Items that fill no batch come last. Goes into
    :class:`~wlkernelnn.datasets.StringLoader` as ``resample=``.

    Args:
        lengths: Length of each item, ``[n]``.
        batch_size: That of the loader.
        seed: Seed of all orders.

    Raises:
        ValueError: ``lengths`` are empty or not ``[n]``, or ``batch_size`` is below 1. The loader refuses
            lengths that are not as many as its strings.
    """

    def __init__(self, lengths: ArrayLike, batch_size: int, seed: int = 0) -> None:
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1:
            raise ValueError(f"lengths must be [n], one per item, got {list(self.lengths.shape)}")
        check_count("the number of lengths", len(self.lengths))
        self.batch_size = check_count("batch_size", batch_size)
        self.seed = check_count("seed", seed, least=0)

    def __call__(self, epoch: int) -> np.ndarray:
        """Positions of the items of an epoch, int64 ``[n]``."""
        generator = np.random.default_rng((self.seed, epoch))
        order = generator.permutation(len(self.lengths))
        full, rest = np.split(order, [len(order) // self.batch_size * self.batch_size])
        batches = full[np.argsort(self.lengths[full], kind="stable")].reshape(-1, self.batch_size)
        return np.concatenate([generator.permutation(batches).ravel(), rest])


class BucketResampler:
    """Draw training examples uniformly over the non-empty buckets of their target (Lei et al. 2017, CEP).

    A molecule with target y lies in bucket floor(y / ``width``). Every round visits each non-empty bucket
    once, in a new random order. Inside a bucket the members come one after the other in an order shuffled
    once, cyclically. Epochs continue where the one before stopped, yet any epoch is computed from its number
    alone. Goes into :class:`~wlkernelnn.datasets.PackedLoader` as ``resample=``.

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
        if len(missing := np.flatnonzero(~np.isfinite(values))):
            raise ValueError(
                f"BucketResampler needs every target, but y[{missing[0]}] is {values[missing[0]]}"
            )
        if not width > 0:
            raise ValueError(f"width must be positive, got {width}")
        self.num_samples = check_count("num_samples", len(values) if num_samples is None else num_samples)
        self.seed = check_count("seed", seed, least=0)
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
        draw = np.arange(epoch * self.num_samples, (epoch + 1) * self.num_samples)
        # A bucket's turn in round r is its r-th draw ever.
        turn = draw // self.num_buckets
        bucket = self._rounds(int(turn[0]), int(turn[-1]) + 1)[turn - turn[0], draw % self.num_buckets]
        return self._members[self._begin[bucket] + turn % self._count[bucket]]

    def _rounds(self, first: int, last: int) -> np.ndarray:
        """Order of the buckets in rounds ``first`` … ``last`` − 1, ``[last - first, num_buckets]``."""
        skip = first * self.num_buckets
        bits = np.random.Philox(key=self.seed)
        bits.advance(skip // 4)  # the generator makes four numbers at a time and can jump to any of them
        keys = np.random.Generator(bits).random(skip % 4 + (last - first) * self.num_buckets)[skip % 4 :]
        return np.argsort(keys.reshape(-1, self.num_buckets), axis=1, kind="stable")
