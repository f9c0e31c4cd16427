"""The random walk kernel: common walks of two graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from wlkernelnn.kernels.base import DecayMixin, Side, StructureKernel, Values, no_warning
from wlkernelnn.kernels.flat_graphs import paired
from wlkernelnn.utils.checks import check_switch

from .geometric import SpectralSide, check_spectral, is_plain, product_sums, spectral, spectral_sums
from .pairs import PairSide, pair_sides
from .walk_counts import WalkSide, walk_sides


class RandomWalkKernel(DecayMixin, StructureKernel):
    r"""The random walk kernel of Lei et al. 2017, eq. (5), exact.

    .. math::
        K_n(G, G') = \lambda^{n-1} \sum_{x \in P_n(G)} \sum_{y \in P_n(G')}
        \prod_{i=1}^n \langle f_{x_i}, f_{y_i} \rangle

    over all walks of n nodes, by dynamic programming over pairs of nodes (eq. 7). Integer ``x`` are codes,
    :math:`\langle f, f' \rangle` is then 1 for equal rows and 0 otherwise; without ``x`` all nodes are alike.
    Edge weights multiply along a walk; edge features multiply by :math:`\langle e, e' \rangle`, where an
    ``edge_type`` and the rows of an integer ``edge_attr`` count as one-hot vectors.

    With ``walk_length=None`` it is the geometric kernel, of walks of every length (Vishwanathan et al. 2010):

    .. math::
        K(G, G') = \mathbf{1}^\top (I - \lambda A_\times D)^{-1} \mathbf{1} \qquad
        D = \mathrm{diag}\, \langle f_v, f_{v'} \rangle

    where :math:`A_\times` is the product of both graphs' edges, from the columns to the rows. The pair of
    nodes that a walk ends in has weight 1: a walk of n nodes has the similarities of the n − 1 before it.
    Where all nodes are alike, it is the sum of eq. (5) over all n. The sum exists below
    λ = 1 / ρ(:math:`A_\times D`), the spectral radius.

    Args:
        walk_length: Number n of NODES of a walk, or ``None`` for the geometric kernel.
        decay: λ ≥ 0.
        all_lengths: Sum over walks of 1 … n nodes.
        normalize: Divide by :math:`\sqrt{K(G,G) K(G',G')}` (0 where that is 0).
        decay_bounds: Range of λ for a Gaussian process, or ``"fixed"``. For the geometric kernel the upper
            one must lie below 1 / ρ.

    Takes lists of PyG ``Data``, of networkx graphs (:func:`~wlkernelnn.kernels.from_networkx` chooses
    attributes), or of SMILES, and packed stores.

    Raises:
        ValueError: An argument is out of its range, graphs do not go together, values are too large for
            float64, or (geometric) λ ≥ 1/ρ.
    """

    def __init__(
        self,
        walk_length: int | None = 2,
        decay: float = 1.0,
        all_lengths: bool = False,
        normalize: bool = False,
        decay_bounds: Any = (1e-5, 1.0),
    ) -> None:
        self.walk_length = walk_length
        self.decay = decay
        self.all_lengths = all_lengths
        self.normalize = normalize
        self.decay_bounds = decay_bounds

    def _check(self) -> None:
        self._check_decay()
        check_switch("all_lengths", self.all_lengths)
        if self.walk_length is not None:
            self._check_counts("walk_length")
        elif self.all_lengths:
            raise ValueError(
                "all_lengths goes with a walk_length: walk_length=None has walks of every length"
            )

    def _lengths(self) -> list[int]:
        """Numbers of nodes of the walks that count."""
        assert self.walk_length is not None
        return list(range(1, self.walk_length + 1)) if self.all_lengths else [self.walk_length]

    def _encode(self, X: Any, Y: Any) -> tuple[Side, Side | None]:
        self._check()
        graphs = paired(X, Y)
        if self.walk_length is not None and (counted := walk_sides(*graphs, self._lengths())) is not None:
            return counted
        a, b = pair_sides(*graphs)
        if self.walk_length is None and is_plain(a) and (b is None or is_plain(b)):
            a, b = spectral(a), None if b is None else spectral(b)
            check_spectral(a, a if b is None else b, self.decay)
        return a, b

    def _block(self, a: Any, b: Any, gradient: bool = False) -> Values:
        if isinstance(a, SpectralSide) and isinstance(b, SpectralSide):
            return spectral_sums(a, b, self.decay, gradient)
        if self.walk_length is None:
            return product_sums(a, b, self.decay, gradient)
        if isinstance(a, WalkSide):
            sums = [mine.product(theirs) for mine, theirs in zip(a.counts, b.counts, strict=True)]
        else:
            sums = [a.pool(b, states) for states in self._walks(a, b)]
        return self._decayed(sums, gradient)

    def _diag(self, side: Any, gradient: bool = False) -> Values:
        if isinstance(side, WalkSide):
            return self._decayed([counts.squares for counts in side.counts], gradient)
        return super()._diag(side, gradient)

    def _decayed(self, sums: list[np.ndarray], gradient: bool) -> Values:
        """Σ λ^(n−1) sums, over the walks that count."""
        decay = np.float64(self.decay)  # whose powers may be infinite
        steps = [length - 1 for length in self._lengths()]
        value = sum(decay**step * part for step, part in zip(steps, sums, strict=True))
        slope = sum(step * decay**step * part for step, part in zip(steps, sums, strict=True))
        return np.asarray(value), np.asarray(slope) if gradient else None

    def _walks(self, a: PairSide, b: PairSide) -> list[np.ndarray]:
        """Σ over the walks that count and end in v and v', undecayed, ``[N, N']`` for each number."""
        lengths = self._lengths()
        states = similarity = a.similarity(b)
        kept = [states] if 1 in lengths else []
        for length in range(2, lengths[-1] + 1):
            states = similarity * a.move(b, states)
            if length in lengths:
                kept.append(states)
        return kept

    @no_warning
    def local(self, G: Any, H: Any) -> np.ndarray:
        """K_loc(v, v') of all nodes of two graphs, ``[nodes of G, nodes of H]``: eq. (7), multiplicative.

        Raises:
            ValueError: The geometric kernel has no such form, or values are too large for float64.
        """
        self._check()
        if self.walk_length is None:
            raise ValueError("the geometric kernel is not a sum over nodes: local needs a walk_length")
        a, b = pair_sides([G], [H])
        assert b is not None
        value, _ = self._decayed(self._walks(a, b), gradient=False)
        self._check_finite(value)
        return value
