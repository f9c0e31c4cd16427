"""Colours that have the same number in every batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .quotient import Level, Quotient
from .refine import sorted_columns

# Nodes with more incoming edges are few in most graphs: what they are made of would take much room.
MAX_NEIGHBOURS = 8


class KnownColours:
    """Numbers colours by what they are, batch after batch.

    A colour is its codes or, after an iteration, the number that it had before and those of its neighbours
    with their edge types, sorted. These are compared by value: the same number means the same neighbourhood.
    What is further away is in the numbers before.

    Args:
        capacity: Colours to remember of each level. Those that come first stay: on average, these are the
            frequent ones. Not remembered are colours of more than 8 neighbours.

    Raises:
        ValueError: ``capacity`` < 1.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._levels: list[_Rows] = []
        self._edge_types: dict[int, int] = {}

    @property
    def depth(self) -> int | None:
        """Iterations of the batches before; ``None`` where there were none."""
        return len(self._levels) - 1 if self._levels else None

    def __len__(self) -> int:
        """How many last colours are remembered."""
        return self._levels[-1].count if self._levels else 0

    def numbers(self, codes: np.ndarray, quotient: Quotient) -> np.ndarray:
        """The numbers of a batch's last colours, which are remembered from now on.

        Args:
            codes: Node codes of the colours 0, ``[C_0, F]``.
            quotient: The batch; of the same depth as all others.

        Returns:
            int64 ``[C]``, 0 … capacity − 1, given one after the other, or −1: not remembered, as there was
            no more room for the colour or for one that it is made of.

        Raises:
            ValueError: An earlier batch had another depth, or another number of codes.
        """
        if not self._levels:
            widths = [codes.shape[1]] + [2 + MAX_NEIGHBOURS] * quotient.depth
            self._levels = [_Rows(width, self.capacity) for width in widths]
        if (quotient.depth, codes.shape[1]) != (len(self._levels) - 1, self._levels[0].width):
            raise ValueError(
                f"the batches before had {self._levels[0].width} codes and {len(self._levels) - 1} "
                f"iterations, this one has {codes.shape[1]} and {quotient.depth}"
            )
        number = self._levels[0].numbers(list(codes.T), np.ones(len(codes), dtype=bool))
        for known, level in zip(self._levels[1:], quotient.levels, strict=True):
            number = known.numbers(*self._contents(number, level))
        return number

    def _contents(self, number: np.ndarray, level: Level) -> tuple[list[np.ndarray], np.ndarray]:
        """What colours are made of, in columns, and whether all of it is remembered itself."""
        own, source, target, indptr, edge_type = (part.numpy() for part in level)
        own, around = number[own], number[source]
        degree = np.diff(indptr)
        whole = (own >= 0) & (degree <= MAX_NEIGHBOURS)
        whole[target[around < 0]] = False
        # One integer for a neighbour and its edge, with the same digits in every batch. (Types and colours
        # are in memory: their numbers' product is far below 2⁶³.)
        code = self._numbered(edge_type) * self.capacity + around
        place = np.arange(len(target)) - indptr[target]
        columns = np.full((min(degree.max(initial=0), MAX_NEIGHBOURS), len(own)), -1, dtype=np.int64)
        few = place < len(columns)
        columns[place[few], target[few]] = code[few]
        # Descending: what is not there comes last, however many neighbours others in the batch have.
        return [own, degree, *sorted_columns(columns)[::-1]], whole

    def _numbered(self, edge_type: np.ndarray) -> np.ndarray:
        number, values = pd.factorize(edge_type)
        known = self._edge_types
        return np.array([known.setdefault(value, len(known)) for value in values.tolist()], np.int64)[number]


class _Rows:
    """Numbers for rows of integers ≥ −1, in the order in which they come.

    A hash table with open addressing, for many rows at a time. Columns that are not given are −1; that a row
    has values in them, those that are given must tell.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self.width, self.capacity, self.count = width, capacity, 0
        bits = (2 * capacity - 1).bit_length()
        self._shift = np.uint64(64 - bits)
        # All of it is kept plus 1: memory of zeros that nobody has written to takes no room.
        self._slots = np.zeros(2**bits, dtype=np.int64)
        self._columns = np.zeros((width, capacity), dtype=np.int64)
        # Odd numbers, of which products spread over the upper bits.
        random = np.random.default_rng(0)
        self._factors = random.integers(2**63, size=width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def numbers(self, columns: Sequence[np.ndarray], usable: np.ndarray) -> np.ndarray:
        """The numbers of rows that differ from each other; −1 of those not usable or beyond the capacity."""
        columns = [column + 1 for column in columns]
        mixed = np.zeros(len(usable), dtype=np.uint64)
        for column, factor in zip(columns, self._factors, strict=False):
            mixed += column.view(np.uint64) * factor
        slot = (mixed >> self._shift).astype(np.int64)
        number = np.full(len(usable), -1, dtype=np.int64)
        asked, new = np.flatnonzero(usable), []
        while asked.size:
            there = self._slots[slot[asked]] - 1
            empty = there < 0
            new.append(asked[empty])
            asked, there = asked[~empty], there[~empty]
            same = np.ones(len(asked), dtype=bool)
            for known, column in zip(self._columns, columns, strict=False):
                same &= known[there] == column[asked]
            number[asked[same]] = there[same]
            asked = asked[~same]
            self._step(slot, asked)
        if new:
            self._add(np.concatenate(new), columns, slot, number)
        return number

    def _add(
        self, new: np.ndarray, columns: Sequence[np.ndarray], slot: np.ndarray, number: np.ndarray
    ) -> None:
        """Number new rows, each of which has come to an empty slot."""
        new = new[: self.capacity - self.count]
        number[new] = self.count + np.arange(len(new))
        for known, column in zip(self._columns, columns, strict=False):
            known[number[new]] = column[new]
        self.count += len(new)
        while new.size:
            free = new[self._slots[slot[new]] == 0]
            self._slots[slot[free]] = number[free] + 1
            # Of several that wanted a slot one has it now.
            new = new[self._slots[slot[new]] != number[new] + 1]
            self._step(slot, new)

    def _step(self, slot: np.ndarray, rows: np.ndarray) -> None:
        slot[rows] = (slot[rows] + 1) % len(self._slots)
