"""What all exact kernels share: scikit-learn's kernel protocol, Grams by blocks, normalisation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from numbers import Real
from typing import Any, Protocol

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from pandas.api.types import is_any_real_numeric_dtype
from rich.progress import track
from sklearn.gaussian_process.kernels import GenericKernelMixin, Hyperparameter, Kernel
from torch import Tensor

from wlkernelnn.datasets.files.table import frame_of
from wlkernelnn.utils.checks import check_count

# A kernel and, where wanted, its derivative with respect to log λ.
Values = tuple[np.ndarray, np.ndarray | None]


class Side(Protocol):
    """One side of a Gram matrix: structures in an order, with their sizes, that can be cut into parts."""

    @property
    def sizes(self) -> np.ndarray:
        """``[n]``: what each structure adds to the size of a part, such as its number of nodes."""
        ...

    def part(self, begin: int, end: int) -> Any:
        """The structures ``begin`` … ``end − 1``."""
        ...


def cut(sizes: np.ndarray, budget: int) -> Iterator[tuple[int, int]]:
    """Ranges of structures with at most ``budget`` nodes or tokens each (a larger structure stays alone)."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        filled = budget + (ends[begin - 1] if begin else 0)
        end = max(begin + 1, int(np.searchsorted(ends, filled, side="right")))
        yield begin, end
        begin = end


def is_list(items: Any) -> bool:
    """Whether this is a list, an array or the like, whose items can be compared one by one.

    Mappings and tables (pandas' and others') would give the names of their entries and columns instead, and
    sets have no order.
    """
    listed = hasattr(items, "__len__") and (hasattr(items, "__iter__") or hasattr(items, "__getitem__"))
    return listed and not (isinstance(items, (str, Mapping, Set)) or hasattr(items, "columns"))


def structures_in(items: Any) -> Any:
    """The items of a column: one of Arrow, or the only one, not of numbers, of a table or array.

    Anything else is given back as it is. Pipelines and ensembles of scikit-learn make such tables.
    """
    frame = items if isinstance(items, np.ndarray) and items.ndim == 2 else frame_of(items)
    if frame is None:
        return items.to_pylist() if hasattr(items, "to_pylist") else items
    if frame.shape[1] != 1:
        return items
    column = frame[:, 0] if isinstance(frame, np.ndarray) else frame.iloc[:, 0]
    return items if is_any_real_numeric_dtype(column.dtype) else list(column)


def copied(items: Any) -> Any:
    """:func:`structures_in` in a container of their own: a caller may go on to write to his."""
    items = structures_in(items)
    if isinstance(items, Tensor):
        return items.clone()
    if isinstance(items, np.ndarray | pd.Series | pd.DataFrame):
        return items.copy()
    return list(items) if isinstance(items, list) else items


def objects(items: Sequence[Any]) -> np.ndarray:
    """An object array ``[n]`` of graphs or sequences.

    scikit-learn turns what it is given into an array, and numpy would take a list of ``Data`` or of
    sequences apart; of an object array they leave each item whole.

    Raises:
        TypeError: Not a list, an array or the like.

    >>> from wlkernelnn.kernels import objects
    >>> objects([["a", "b"], ["c"]]).shape
    (2,)
    """
    if not is_list(items):
        raise TypeError(f"expected a list of graphs or sequences, got one {type(items).__name__}")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


# Where numbers grow too large an error says so, instead of numpy's warnings.
no_warning = np.errstate(over="ignore", invalid="ignore")


class StructureKernel(GenericKernelMixin, Kernel):
    """A kernel of graphs or strings in scikit-learn's protocol.

    ``K(X, Y=None)`` and ``K.diag(X)`` as there; :meth:`gram` fills large matrices by blocks. A subclass says
    how to bring X and Y into one form (``_encode``) and how to compare two parts (``_block``).
    """

    # Size of a part (the sum of its side's ``sizes``). Two parts are compared at once: of pairs of nodes,
    # budget² numbers per state, which should stay in a core's cache.
    _budget = 256
    _diag_budget = 192

    normalize: bool

    @abstractmethod
    def _encode(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Both sides in the kernel's own form, sharing one vocabulary; the second ``None`` if Y is."""

    @abstractmethod
    def _block(self, a: Any, b: Any, gradient: bool = False) -> Values:
        """The kernel ``[len(a), len(b)]`` of two parts, and its derivative with respect to log λ."""

    def _diag(self, side: Any, gradient: bool = False) -> Values:
        parts = [side.part(*ends) for ends in cut(side.sizes, self._diag_budget)]
        blocks = [self._block(part, part, gradient) for part in parts]
        values = [np.diagonal(value) for value, _ in blocks]
        slopes = [np.diagonal(slope) for _, slope in blocks if slope is not None]
        return _join(values), _join(slopes) if gradient else None

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The Gram matrix ``[len(X), len(Y)]``, float64.

        Args:
            X, Y: Structures, in any form that the kernel takes; ``None`` is X again.
            eval_gradient: Also give the gradient ``[n, n, parameters]`` with respect to the logarithms of the
                free hyper-parameters (``theta``); only without Y.

        Raises:
            ValueError: ``eval_gradient`` with Y, an unknown ``normalize``, structures that the kernel cannot
                compare, or values beyond the range of float64.
        """
        if not eval_gradient:
            return self.gram(X, Y)
        if Y is not None:
            raise ValueError("the gradient is that of K(X): it cannot be had together with Y")
        values, slopes = self._fill(X, None, gradient=self.n_dims > 0)
        return values, np.zeros((*values.shape, 0)) if slopes is None else slopes[:, :, None]

    def gram(
        self,
        X: Any,
        Y: Any = None,
        *,
        out: np.ndarray | None = None,
        progress: bool = False,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """The Gram matrix by blocks, in memory that does not grow with it.

        Args:
            X, Y: As in a call.
            out: Where to write: any array of floats ``[len(X), len(Y)]``, such as a ``numpy.memmap``;
                default a new one, float64.
            progress: Show a progress bar.
            n_jobs: Threads that fill blocks (−1: one per core).

        Raises:
            ValueError: ``out`` is no such array, structures that the kernel cannot compare, or values beyond
                the range of floats.
        """
        return self._fill(X, Y, out=out, progress=progress, n_jobs=n_jobs)[0]

    @no_warning
    def diag(self, X: Any) -> np.ndarray:
        """The diagonal of ``K(X)``, ``[len(X)]``, without the rest.

        Raises:
            ValueError: As a call.
        """
        self._check_normalize()
        side, _ = self._encode(X, None)
        values, _ = self._diag(side)
        self._check_finite(values)
        return (values > 0).astype(np.float64) if self.normalize else values

    def is_stationary(self) -> bool:
        """Whether k(x, y) depends on x − y only: structures have no difference."""
        return False

    def _check_counts(self, *names: str) -> None:
        """Refuse arguments that are no integers from 1 on."""
        for name in names:
            check_count(name, getattr(self, name))

    def _check_normalize(self) -> None:
        if self.normalize not in (True, False, None):
            raise ValueError(
                f"normalize must be True (cosine) or False, got {self.normalize!r}: min-max is for kernels "
                "that count patterns"
            )

    def _check_finite(self, *arrays: np.ndarray | None) -> None:
        """Refuse values beyond the range of floats."""
        for array in arrays:
            if array is not None and not np.isfinite(array).all():
                raise ValueError(
                    f"{self!r} grows beyond the range of {array.dtype}: use smaller features or decay, or "
                    "shorter patterns"
                )

    @no_warning
    def _fill(
        self,
        X: Any,
        Y: Any,
        *,
        gradient: bool = False,
        out: np.ndarray | None = None,
        progress: bool = False,
        n_jobs: int | None = None,
    ) -> Values:
        self._check_normalize()
        a, b = self._encode(X, Y)
        symmetric = b is None
        b = a if b is None else b
        shape = len(a.sizes), len(b.sizes)
        if out is not None and (out.shape != shape or out.dtype.kind != "f"):
            raise ValueError(f"out must be an array of floats {shape}, got {out.dtype} {out.shape}")
        values = np.empty(shape) if out is None else out
        slopes = np.empty(shape) if gradient else None
        scale_a = self._scale(a, gradient) if self.normalize else None
        scale_b = scale_a if symmetric else self._scale(b, gradient) if self.normalize else None
        rows = [(ends, a.part(*ends)) for ends in cut(a.sizes, self._budget)]
        columns = rows if symmetric else [(ends, b.part(*ends)) for ends in cut(b.sizes, self._budget)]
        pairs = [
            (row, column)
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
            if not symmetric or i <= j
        ]

        # Other threads have warnings of their own.
        @no_warning
        def fill(row: tuple[tuple[int, int], Any], column: tuple[tuple[int, int], Any]) -> None:
            (r, part_a), (c, part_b) = row, column
            place, mirror = (slice(*r), slice(*c)), (slice(*c), slice(*r))
            value, slope = self._block(part_a, part_b, gradient)
            if scale_a is not None and scale_b is not None:
                value, slope = normalized(value, slope, at(scale_a, r), at(scale_b, c))
            for array, block in ((values, value), (slopes, slope)):
                if array is not None and block is not None:
                    array[place] = block
                    self._check_finite(array[place])
                    if symmetric and part_a is not part_b:
                        array[mirror] = block.T

        work = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(
            delayed(fill)(*pair) for pair in pairs
        )
        for _ in track(work, description=str(self), total=len(pairs), disable=not progress):
            pass
        return values, slopes

    def _scale(self, side: Any, gradient: bool) -> Values:
        """1 / √k(x, x) of every structure (0 where k(x, x) = 0) and half the slope of log k(x, x)."""
        values, slopes = self._diag(side, gradient)
        self._check_finite(values, slopes)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
        return np.sqrt(inverse), None if slopes is None else slopes * inverse / 2

    def __repr__(self) -> str:
        parameters = (f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({', '.join(parameters)})"


class DecayMixin:
    """A kernel whose one hyper-parameter is ``decay``, with ``decay_bounds`` as scikit-learn's have."""

    decay: float
    decay_bounds: Any

    @property
    def hyperparameter_decay(self) -> Hyperparameter:
        # λ = 0 has no logarithm: it stays what it is.
        return Hyperparameter("decay", "numeric", self.decay_bounds if self.decay > 0 else "fixed")

    def _check_decay(self) -> None:
        if not (isinstance(self.decay, Real) and np.isfinite(self.decay) and self.decay >= 0):
            raise ValueError(f"decay must be a number of at least 0, got {self.decay!r}")


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *arrays])


def at(scale: Values, ends: tuple[int, int]) -> Values:
    values, slopes = scale
    return values[slice(*ends)], None if slopes is None else slopes[slice(*ends)]


def normalized(value: np.ndarray, slope: np.ndarray | None, a: Values, b: Values) -> Values:
    factor = a[0][:, None] * b[0]
    value = value * factor
    if slope is not None and a[1] is not None and b[1] is not None:
        slope = slope * factor - value * (a[1][:, None] + b[1])
    return value, slope
