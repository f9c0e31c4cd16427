"""The kernel of descriptors: numbers of whole molecules, compared by their ranks."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import GenericKernelMixin, Matern

from wlkernelnn.datasets.graphs.packed import PackedGraphs

# Normal quantiles beyond which values are the same.
_MOST = 5.0


@dataclass(frozen=True)
class Quantiles:
    """Structures as the kernel of descriptors compares them.

    Attributes:
        values: Of :meth:`DescriptorKernel.transform`, ``[n, D]``.
    """

    values: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.ones(len(self.values), dtype=np.int64)

    def part(self, begin: int, end: int) -> Quantiles:
        return Quantiles(self.values[begin:end])

    def take(self, rows: np.ndarray) -> Quantiles:
        return Quantiles(self.values[rows])


@dataclass(frozen=True)
class KeptDescriptors:
    """Structures that a fitted kernel of descriptors has transformed once."""

    kernel: DescriptorKernel
    side: Quantiles

    def read(self, X: Any) -> Quantiles:
        """Other structures, to be compared with these."""
        return Quantiles(self.kernel.transform(X))


class DescriptorKernel(GenericKernelMixin, Matern):
    r"""Matérn 3/2 on descriptors, each through its training ranks onto normal quantiles.

    .. math::
        K(x, x') = (1 + \sqrt 3 d / \ell) \exp(-\sqrt 3 d / \ell), \qquad
        d^2 = \tfrac1D \sum_j (z_j - z'_j)^2

    A value of rank r among n training values, the mean rank where several are equal, has the normal quantile
    of (r − ½) / n; between training values quantiles are interpolated, beyond them they stay. Columns that
    are constant in training do not count.

    Args:
        length_scale: ℓ > 0.
        length_scale_bounds: As of scikit-learn's kernels; ``"fixed"`` keeps it.

    Takes packed molecules with numbers of whole graphs (``features="ogb+…+rdkit"``), or floats ``[n, D]``.
    ``fit`` before a call learns the ranks.

    Raises:
        ValueError: Structures without such numbers, or other columns than those of the training, or a number
            that is not finite.
        NotFittedError: It is called before ``fit``.
    """

    def __init__(self, length_scale: float = 2.0, length_scale_bounds: Any = "fixed") -> None:
        super().__init__(length_scale, length_scale_bounds, nu=1.5)

    def __sklearn_clone__(self) -> Self:
        return copy.copy(self)  # the ranks stay: scikit-learn's processes clone what was fitted

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments."""
        return {"length_scale": self.length_scale, "length_scale_bounds": self.length_scale_bounds}

    def fit(self, X: Any) -> Self:
        """Learn the ranks of training values."""
        values = descriptors_of(X)
        self.columns_ = np.flatnonzero((values != values[:1]).any(axis=0))
        self.width_ = values.shape[1]
        self.quantiles_: list[tuple[np.ndarray, np.ndarray]] = []
        for column in values[:, self.columns_].T:
            known, first = np.unique(column, return_index=True)
            ranks = (rankdata(column)[first] - 0.5) / len(column)
            self.quantiles_.append((known, norm.ppf(ranks).clip(-_MOST, _MOST)))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The quantiles of the columns that count, divided by √D: float64 ``[n, D]``."""
        if not hasattr(self, "width_"):
            raise NotFittedError("DescriptorKernel learns the ranks of training values first: call fit(X)")
        values = descriptors_of(X)
        if values.shape[1] != self.width_:
            raise ValueError(f"expected {self.width_} descriptors as in training, got {values.shape[1]}")
        columns = [
            np.interp(values[:, column], *quantiles)
            for column, quantiles in zip(self.columns_, self.quantiles_, strict=True)
        ]
        scaled = np.reshape(columns, (len(columns), len(values))).T / np.sqrt(max(1, len(columns)))
        return np.ascontiguousarray(scaled)

    def keep(self, X: Any) -> KeptDescriptors | None:
        """Structures transformed once, if the length scale is fixed."""
        return None if self.n_dims else KeptDescriptors(self, Quantiles(self.transform(X)))

    def _block(self, a: Quantiles, b: Quantiles) -> tuple[np.ndarray, None]:
        """The kernel of all pairs of two sides."""
        if not a.values.shape[1]:  # nothing tells any two apart
            return np.ones((len(a.values), len(b.values))), None
        # ‖a − b‖² by a product; what it rounds, the kernel does not see: it is smooth in the square at 0.
        lengths = [np.einsum("ij,ij->i", side.values, side.values) for side in (a, b)]
        squares = lengths[0][:, None] + lengths[1] - 2 * (a.values @ b.values.T)
        far = np.sqrt(3 * np.maximum(squares, 0)) / self.length_scale
        return (1 + far) * np.exp(-far), None

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The Gram matrix, float64 ``[len(X), len(Y)]``, as of any kernel of scikit-learn."""
        first, second = self.transform(X), None if Y is None else self.transform(Y)
        if not first.shape[1]:  # nothing tells any two apart
            gram = np.ones((len(first), len(first if second is None else second)))
            return (gram, np.zeros((*gram.shape, self.n_dims))) if eval_gradient else gram
        return super().__call__(first, second, eval_gradient)

    def diag(self, X: Any) -> np.ndarray:
        """1 for each structure."""
        return np.ones(len(X))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length_scale={self.length_scale:.3g})"


def descriptors_of(X: Any) -> np.ndarray:
    """Numbers of whole graphs, float64 ``[n, D]``."""
    if not isinstance(X, PackedGraphs):
        values = np.asarray(X, dtype=np.float64)
        values = values.reshape(len(values), math.prod(values.shape[1:]))
        if len(wrong := np.argwhere(~np.isfinite(values))):
            row, column = wrong[0].tolist()
            raise ValueError(
                f"row {row}, column {column}: expected finite descriptors, got {values[row, column]}"
            )
        return values
    if not X.description.num_graph_values:
        raise ValueError(
            "the kernel of descriptors needs molecules with numbers of their own, such as "
            f"features='ogb+rdkit'; got features {X.description.features!r}"
        )
    return X.arrays.graph_x.numpy()[X.index].astype(np.float64)
