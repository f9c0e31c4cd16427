"""Kernels that are inner products of counts: how often each structure has each pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

# Columns that more than this share of the structures have are multiplied as a dense matrix: there it is
# faster than sparse times sparse.
_FREQUENT = 0.05
# float32 knows every integer up to this.
_EXACT = 2**24


def count_matrix(
    owner: np.ndarray,
    column: np.ndarray,
    num_structures: int,
    num_columns: int,
    value: np.ndarray | None = None,
) -> sparse.csr_array:
    """Counts of all structures, float64 ``[num_structures, num_columns]``.

    Args:
        owner, column: Integers ``[M]``: structure owner[i] has pattern column[i] once more.
        value: ``[M]``, how often it has it then, such as the weight of a walk; default once.
    """
    values = np.ones(len(owner)) if value is None else value.astype(np.float64)
    # The width of the indices is kept by all that is made of them: int32 if that is enough.
    index = sparse.get_index_dtype(maxval=max(num_structures, num_columns, len(owner)))
    place = owner.astype(index), column.astype(index)
    return sparse.csr_array((values, place), shape=(num_structures, num_columns))


@dataclass(frozen=True)
class CountSide:
    """One side of a Gram matrix of inner products of counts.

    Attributes:
        frequent: Counts of the columns that many structures have, ``[n, F]``.
        rare: Counts of the others, ``[n, R]``, of the same dtype.
        squares: ‖counts‖² of every structure, float64 ``[n]``.
    """

    frequent: np.ndarray
    rare: sparse.csr_array
    squares: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """One each: how many structures are compared at once does not depend on their nodes."""
        return np.ones(len(self.squares), dtype=np.int64)

    def part(self, begin: int, end: int) -> CountSide:
        rows = slice(begin, end)
        return replace(self, frequent=self.frequent[rows], rare=self.rare[rows], squares=self.squares[rows])

    def take(self, rows: np.ndarray) -> CountSide:
        return CountSide(self.frequent[rows], self.rare[rows], self.squares[rows])

    @cached_property
    def _rare_columns(self) -> sparse.csr_array:
        """The transpose, once for all blocks of this part."""
        return self.rare.T.tocsr()

    def product(self, other: CountSide) -> np.ndarray:
        """Inner products with every structure of another side, float64 ``[n, n']``."""
        values = self.frequent @ other.frequent.T
        values += (self.rare @ other._rare_columns).toarray()
        return values.astype(np.float64, copy=False)


def count_sides(counts: sparse.csr_array, num_a: int | None = None) -> tuple[CountSide, CountSide | None]:
    """Counts in the form in which blocks of their Gram matrix are fast.

    Args:
        counts: ``[n, columns]``, as of :func:`count_matrix`.
        num_a: Rows of the first side, the others are those of the second; ``None``: there is only one side.
    """
    both = count_side(counts, frequent_columns(counts), squared_norms(counts))
    if num_a is None:
        return both, None
    return both.part(0, num_a), both.part(num_a, counts.shape[0])


def frequent_columns(counts: sparse.csr_array) -> np.ndarray:
    """Which columns many structures have, ``[columns]``."""
    spread = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(spread > _FREQUENT * counts.shape[0])


def count_side(counts: sparse.csr_array, is_frequent: np.ndarray, squares: np.ndarray) -> CountSide:
    """A side with some columns dense."""
    dtype = _dtype(counts)
    return CountSide(
        frequent=counts[:, np.flatnonzero(is_frequent)].toarray().astype(dtype),
        rare=counts[:, np.flatnonzero(~is_frequent)].astype(dtype),
        squares=squares,
    )


def squared_norms(counts: sparse.csr_array) -> np.ndarray:
    """‖counts‖² of every row, float64 ``[n]``."""
    return np.asarray(counts.multiply(counts).sum(axis=1), dtype=np.float64).reshape(-1)


def unit_rows(counts: sparse.csr_array) -> sparse.csr_array:
    """Counts with every row divided by its length (a row of 0 stays)."""
    lengths = np.sqrt(squared_norms(counts))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return (sparse.diags_array(inverse) @ counts).tocsr()


def _dtype(counts: sparse.csr_array) -> type[np.floating]:
    """float32 where it is exact, else float64.

    Products of integers are integers, and Σ |a_i b_i| ≤ ‖a‖ ‖b‖ (Cauchy and Schwarz) bounds every sum of
    some of them: below 2²⁴ no step of a float32 product rounds, in whatever order it adds.
    """
    whole = bool((counts.data == np.rint(counts.data)).all())
    return np.float32 if whole and squared_norms(counts).max(initial=0.0) < _EXACT else np.float64
