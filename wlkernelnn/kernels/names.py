"""Numbers for rows of integers or labels, by which rows of later graphs are known again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

# Digits of a number in mixed radix stay below this.
_CAPACITY = 2**62


class Names:
    """Numbers distinct rows of several kinds; once complete, it only finds those that it has.

    Attributes:
        complete: No further rows get numbers.
        sizes: How many distinct rows there are of each kind.
    """

    def __init__(self) -> None:
        self.complete = False
        self.sizes: dict[Hashable, int] = {}
        # How a row of each kind becomes a number: a digit for each column, with an index of its values (None:
        # it holds digits) and the radix; an index alone replaces the number so far by its place in it.
        self._steps: dict[Hashable, list[pd.Index | tuple[pd.Index | None, int]]] = {}

    def rows(self, kind: Hashable, columns: Sequence[np.ndarray], length: int) -> np.ndarray:
        """One integer for every distinct row of some columns, in the order of the rows' first occurrence.

        Args:
            kind: Rows of one kind have numbers of their own; each kind is numbered once.
            columns: Integers, floats or labels, ``[length]`` each; of ones that were read −1 is unknown.
            length: How many rows there are.

        Returns:
            int64 ``[length]``; −1 where a complete set of names lacks the row.
        """
        if self.complete:
            return self._read(kind, columns, length)
        steps: list[pd.Index | tuple[pd.Index | None, int]] = []
        number, size = np.zeros(length, dtype=np.int64), 1
        for column in columns:
            code, values = column, None
            if (
                column.dtype.kind not in "iu"
                or not 0 <= column.min(initial=0) <= column.max(initial=0) < 2**31
            ):
                code, found = pd.factorize(column, use_na_sentinel=False)
                values = pd.Index(found)
            radix = int(code.max(initial=0)) + 1
            if size * radix > _CAPACITY:
                number, seen = pd.factorize(number)
                steps.append(pd.Index(seen))
                size = len(seen)
            number, size = number * radix + code, size * radix
            steps.append((values, radix))
        number, seen = pd.factorize(number)
        self._steps[kind] = [*steps, pd.Index(seen)]
        self.sizes[kind] = len(seen)
        return number

    def _read(self, kind: Hashable, columns: Sequence[np.ndarray], length: int) -> np.ndarray:
        number, known = np.zeros(length, dtype=np.int64), np.ones(length, dtype=bool)
        if not length:  # of no graphs, whose columns may not be known
            return number
        rest = iter(columns)
        for step in self._steps.get(kind, [pd.Index([])]):
            if isinstance(step, pd.Index):
                number = step.get_indexer(pd.Index(number))
                known &= number >= 0
                number[~known] = 0
                continue
            values, radix = step
            column = next(rest)
            code = column if values is None else values.get_indexer(pd.Index(column))
            known &= (code >= 0) & (code < radix)
            number = number * radix + np.where(known, code, 0)
        return np.where(known, number, -1)


def row_numbers(columns: Sequence[np.ndarray], length: int) -> np.ndarray:
    """One integer for every distinct row of some columns, in the order of the rows' first occurrence."""
    return Names().rows("rows", columns, length)
