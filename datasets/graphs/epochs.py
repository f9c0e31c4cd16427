"""What loaders of packed stores have in common: the order of an epoch, and where it stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sized
from typing import Any, Self

import numpy as np
from torch_geometric.data import Data

from wlkernelnn.datasets.files.spans import positions_of
from wlkernelnn.utils.checks import check_count

# Items gathered at once. Larger chunks leave the caches, smaller ones pay more Python per item.
CHUNK = 1024

Resampler = Callable[[int], np.ndarray]


class EpochLoader(ABC):
    """Mini-batches in an order that depends on the epoch; resumes in the middle of one.

    A subclass says what the batches of some positions are (``_batches``). Arguments and errors:
    :class:`~wlkernelnn.datasets.PackedLoader`.
    """

    def __init__(
        self,
        data: Sized,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        resample: Resampler | None,
    ) -> None:
        batch_size, seed = check_count("batch_size", batch_size), check_count("seed", seed, least=0)
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
        self.epoch, self._done, self._resumed, self._begun = state["epoch"], state["batch"], True, False

    def positions(self) -> np.ndarray:
        """Positions in ``data`` in this epoch's order.

        Raises:
            IndexError: ``resample`` gives one that is not there.
        """
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
        for batch in self._batches(positions[self._done * self.batch_size :]):
            self._done += 1
            yield batch
        self._done, self._begun = 0, False
        self.epoch += 1

    @abstractmethod
    def _batches(self, positions: np.ndarray) -> Iterator[Data]:
        """The batches of these positions in ``data``."""

    def _chunks(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of whole batches that are gathered at once."""
        step = max(CHUNK // self.batch_size, 1) * self.batch_size
        for begin in range(0, len(order), step):
            yield order[begin : begin + step]


def plain_data(**parts: Any) -> Data:
    """``Data(**parts)``, past its look at every name, which takes as long as all the arithmetic."""
    data = Data()
    data._store._mapping.update(parts)
    return data
