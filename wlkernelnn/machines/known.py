"""What is known of a Gaussian process: structures that were counted, Grams, or the weights of its mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.gaussian_process.kernels import GenericKernelMixin, Kernel

from wlkernelnn.kernels.base import cut
from wlkernelnn.kernels.flat_graphs import FlatGraphs, flat_graphs
from wlkernelnn.kernels.graphs.codings import FEATURES
from wlkernelnn.kernels.graphs.count_kernel import CountKernel
from wlkernelnn.kernels.graphs.molecules import MoleculeKernel

# Rows, columns, and the kernel of these.
Block = tuple[slice, slice, np.ndarray]
# Rows of a Gram that are handed on at once.
_ROWS = 512


@dataclass
class Known:
    """Structures that others are compared with by a kernel, or by a kernel that has counted them.

    Attributes:
        kernel: The kernel.
        X: The structures ``[n]``.
        kept: What the kernel keeps of the structures with which they were counted, or ``None``.
        side: These structures, as the kernel compares them.
        n_jobs: Threads that fill blocks.
    """

    kernel: Kernel
    X: Any
    kept: Any = None
    side: Any = None
    n_jobs: int | None = None

    @classmethod
    def of(cls, kernel: Kernel, X: Any, flat: FlatGraphs | None, n_jobs: int | None) -> Self:
        """Count structures, if the kernel can; ``flat`` as of :func:`flat_molecules`."""
        graphs = flat if isinstance(kernel, CountKernel | MoleculeKernel) and flat is not None else X
        kept = kernel.keep(graphs) if hasattr(kernel, "keep") else None
        return cls(kernel, X, kept, None if kept is None else kept.side, n_jobs)

    def take(self, rows: np.ndarray) -> Self:
        """Some of the structures."""
        side = None if self.side is None else self.side.take(rows)
        return replace(self, X=take(self.X, rows), side=side)

    def gram(self) -> np.ndarray:
        """The kernel of all pairs ``[n, n]``."""
        values = np.empty((len(self.X), len(self.X)))
        for rows, columns, block in self.own():
            values[rows, columns] = block
        return values

    def own(self) -> Iterator[Block]:
        """The kernel of these structures, all of it."""
        if self.side is None:
            return self._whole(self.X, None)
        return self._blocks(self.side, self.side)

    def with_some(self, some: Known) -> Iterator[Block]:
        """The kernel of these structures with some of them."""
        if self.side is None:
            return self._whole(self.X, some.X)
        return self._blocks(self.side, some.side)

    def others(self, X: Any, flat: FlatGraphs | None) -> Iterator[Block]:
        """The kernel of other structures with these."""
        if self.side is None:
            return self._whole(X, self.X)
        is_graphs = isinstance(self.kernel, CountKernel | MoleculeKernel)
        return self._blocks(self.kept.read(flat if is_graphs and flat is not None else X), self.side)

    def diag(self, X: Any) -> np.ndarray:
        """The kernel of each of other structures with itself."""
        if self.kept is not None:
            return np.ones(len(X))
        return diagonal(self.kernel, X)

    def _whole(self, X: Any, Y: Any) -> Iterator[Block]:
        kernel = self.kernel
        values = kernel.gram(X, Y, n_jobs=self.n_jobs) if hasattr(kernel, "gram") else kernel(X, Y)
        for begin in range(0, len(values), _ROWS):
            rows = slice(begin, min(begin + _ROWS, len(values)))
            yield rows, slice(0, values.shape[1]), values[rows]

    def _blocks(self, a: Any, b: Any) -> Iterator[Block]:
        symmetric = a is b
        rows = [(slice(*ends), a.part(*ends)) for ends in cut(a.sizes, _ROWS)]
        columns = rows if symmetric else [(slice(*ends), b.part(*ends)) for ends in cut(b.sizes, _ROWS)]

        def compute(row: tuple[slice, Any], column: tuple[slice, Any]) -> Block:
            return row[0], column[0], self.kernel._block(row[1], column[1])[0]

        for r, c, values in Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator_unordered")(
            delayed(compute)(row, column)
            for i, row in enumerate(rows)
            for column in (columns[i:] if symmetric else columns)
        ):
            yield r, c, values
            if symmetric and r != c:
                yield c, r, values.T


def add_block(
    total: np.ndarray, amplitude: float, block: Block, rows: np.ndarray, columns: np.ndarray
) -> None:
    """Add a block to the sum ``[len(rows), len(columns)]`` of some rows and columns, in increasing order."""
    r, c, values = block
    i, j = (
        slice(*np.searchsorted(rows, [r.start, r.stop])),
        slice(*np.searchsorted(columns, [c.start, c.stop])),
    )
    if total[i, j].shape != values.shape:
        values = values[np.ix_(rows[i] - r.start, columns[j] - c.start)]
    total[i, j] += amplitude * values


def flat_molecules(kernels: Sequence[Kernel], X: Any) -> FlatGraphs | None:
    """Molecules in the form in which all kernels of counts keep them, made once; ``None`` if none does."""
    kept = [
        kernel
        for kernel in kernels
        if isinstance(kernel, MoleculeKernel) or (isinstance(kernel, CountKernel) and kernel.keeps)
    ]
    return flat_graphs(X, FEATURES) if kept else None


def take(X: Any, rows: np.ndarray) -> Any:
    """Some structures of a list, an array, a packed store or, by their places, of a table or column."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows] if isinstance(X, list | tuple | range) else X[rows]


class KnownGram(GenericKernelMixin, Kernel):
    """A kernel whose Gram matrix ``[n, n]`` is known: its structures are the numbers of rows."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __sklearn_clone__(self) -> Self:
        return self

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, eval_gradient: bool = False) -> Any:
        gram = self.values[np.ix_(X, X if Y is None else Y)]
        return (gram, np.zeros((*gram.shape, 0))) if eval_gradient else gram

    def diag(self, X: np.ndarray) -> np.ndarray:
        return self.values.diagonal()[X]

    def is_stationary(self) -> bool:
        return False


@dataclass
class KnownMean:
    """A posterior whose mean alone is known.

    Attributes:
        alpha: What a row of the kernel is multiplied with, ``[n]``, or ``[m]`` of landmarks.
    """

    alpha: np.ndarray

    def mean(self, cross: np.ndarray) -> np.ndarray:
        """As of :class:`ExactPosterior`."""
        return np.asarray(cross @ self.alpha)


def diagonal(kernel: Kernel, X: Any) -> np.ndarray:
    """The kernel of each structure with itself; one of scikit-learn takes no lists here."""
    return np.asarray(kernel.diag(np.asarray(X) if kernel.requires_vector_input else X))
