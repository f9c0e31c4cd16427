"""The kernel of molecules: the mean of six min-max kernels, which see six kinds of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wlkernelnn.kernels.base import StructureKernel, Values
from wlkernelnn.kernels.flat_graphs import flat_graphs, paired

from .codings import FEATURES
from .count_kernel import CountKernel, KeptCounts
from .counts import CountSide
from .paths import PathKernel
from .shortest_paths import ShortestPathKernel
from .wl_subtree import WLSubtreeKernel


@dataclass(frozen=True)
class PartsSide:
    """One side in the form of each of several kernels of counts."""

    sides: tuple[CountSide, ...]

    @property
    def sizes(self) -> np.ndarray:
        return self.sides[0].sizes

    def part(self, begin: int, end: int) -> PartsSide:
        return PartsSide(tuple(side.part(begin, end) for side in self.sides))

    def take(self, rows: np.ndarray) -> PartsSide:
        return PartsSide(tuple(side.take(rows) for side in self.sides))


class KeptParts:
    """Molecules that each part has counted once, see :class:`KeptCounts`."""

    def __init__(self, parts: Sequence[CountKernel], X: Any) -> None:
        graphs = flat_graphs(X, FEATURES)
        self.kept = [KeptCounts(part, graphs) for part in parts]

    @property
    def side(self) -> PartsSide:
        """The molecules, as the kernel compares them."""
        return PartsSide(tuple(kept.side for kept in self.kept))

    def read(self, X: Any) -> PartsSide:
        """Other molecules, to be compared with these."""
        graphs = flat_graphs(X, FEATURES)
        return PartsSide(tuple(kept.read(graphs) for kept in self.kept))


class MoleculeKernel(StructureKernel):
    """The mean of six min-max kernels of molecules.

    Weisfeiler-Lehman colours in the codings ``"ogb"`` (2 iterations), ``"element"`` (3), ``"ecfp"`` (3) and
    ``"fcfp"`` (2), atom pairs in the coding ``"ecfp"``, and topological torsions in the coding ``"element"``.
    The sum of :attr:`parts` in its place gives a machine an amplitude for each.

    All of them come from one featurizing pass over the SMILES.

    Takes SMILES, or molecules featurized as ``"ogb+invariants"`` (with any additions behind).

    Raises:
        TypeError, ValueError: As :class:`WLSubtreeKernel`, or molecules of other features.

    >>> from wlkernelnn.kernels import MoleculeKernel
    >>> MoleculeKernel()(["CCO", "CCO", "CCN"]).round(2)
    array([[1.  , 1.  , 0.31],
           [1.  , 1.  , 0.31],
           [0.31, 0.31, 1.  ]])
    """

    _budget = 512
    normalize = False  # each part is

    def __init__(self) -> None:
        pass  # scikit-learn reads the arguments from a signature

    @property
    def parts(self) -> tuple[CountKernel, ...]:
        """The six kernels."""
        return (
            WLSubtreeKernel(2, normalize="minmax", coding="ogb"),
            WLSubtreeKernel(3, normalize="minmax", coding="element"),
            WLSubtreeKernel(3, normalize="minmax", coding="ecfp"),
            WLSubtreeKernel(2, normalize="minmax", coding="fcfp"),
            ShortestPathKernel(normalize="minmax", coding="ecfp"),
            PathKernel(4, normalize="minmax", coding="element"),
        )

    def keep(self, X: Any) -> KeptParts:
        """Molecules counted once; see :meth:`CountKernel.keep`."""
        return KeptParts(self.parts, X)

    def _encode(self, X: Any, Y: Any) -> tuple[PartsSide, PartsSide | None]:
        a, b = paired(X, Y, FEATURES)
        first, second = zip(*(part._encode(a, b) for part in self.parts), strict=True)
        return PartsSide(first), None if b is None else PartsSide(second)

    def _block(self, a: PartsSide, b: PartsSide, gradient: bool = False) -> Values:
        blocks = [
            part._block(one, other)[0] for part, one, other in zip(self.parts, a.sides, b.sides, strict=True)
        ]
        return np.mean(blocks, axis=0), None

    def _diag(self, side: PartsSide, gradient: bool = False) -> Values:
        return np.ones(len(side.sizes)), None
