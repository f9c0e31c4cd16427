"""The deep graph kernel: the recursion of the deep graph kernel networks, over walks and over layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.kernels.base import DecayMixin, StructureKernel, Values, cut, no_warning
from wlkernelnn.kernels.composition import Composition, get_composition
from wlkernelnn.kernels.flat_graphs import FlatGraphs, paired
from wlkernelnn.utils.checks import check_one_of, check_switch

from .pairs import PairSide, pair_sides

# What is known of nodes alone, step by step: k(v, v) before every composition, and its derivative.
Traces = tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class DeepSide(PairSide):
    """A side with the kernel of every node with itself, which the compositions need.

    Attributes:
        traces: k(v, v) ``[N]`` and its derivative with respect to log λ, before every composition in turn,
            and after the last.
        exists: For j = 1 … n, whether a walk of j nodes ends in a node: bool ``[N]`` each; empty if it does
            not matter.
    """

    traces: Traces = ()
    exists: tuple[np.ndarray, ...] = ()

    def part(self, begin: int, end: int) -> DeepSide:
        nodes = slice(self.node_ptr[begin], self.node_ptr[end])
        return replace(
            super().part(begin, end),
            traces=tuple((value[nodes], slope[nodes]) for value, slope in self.traces),
            exists=tuple(mask[nodes] for mask in self.exists),
        )


class DeepGraphKernel(DecayMixin, StructureKernel):
    r"""The deep graph kernel of Lei et al. 2017, section 3.3 and appendix E.

    .. math::
        K^{(l,1)}_{loc}(v, v') &= K^{(l-1)}_{loc,\sigma}(v, v') \qquad
        K^{(0)}_{loc,\sigma}(v, v') = \langle f_v, f_{v'} \rangle

        K^{(l,j)}_{loc}(v, v') &= K^{(l-1)}_{loc,\sigma}(v, v') \circ \lambda
        \sum_{u \in N(v)} \sum_{u' \in N(v')} K^{(l,j-1)}_{loc,\sigma}(u, u')

        K(G, G') &= \sum_{v, v'} K^{(L,n)}_{loc,\sigma}(v, v')

    with :math:`K_\sigma` a composition: the kernel in whose space the activation lies (lemma 1). With one
    layer, the identity and ``compose="mul"`` it is :class:`RandomWalkKernel`.

    Args:
        num_layers: L.
        walk_length: Number n of NODES of a walk.
        decay: λ ≥ 0.
        compose: ∘, ``"mul"`` or ``"add"``.
        composition: K_σ: ``"identity"``, ``"polynomial"`` (c + k)^p, ``"inverse"`` 1/(2 − k), ``"exp"``,
            ``"arccos0"``, ``"arccos1"``, or a :class:`Composition` with other constants.
        walks_only: K_loc = 0 for j > 1 where no walk of j nodes ends in v or v', and such nodes send nothing
            (the appendix's rule, as in :class:`~wlkernelnn.DeepKernelConv`).
        normalize: Divide by :math:`\sqrt{K(G,G) K(G',G')}`.
        decay_bounds: Range of λ for a Gaussian process, or ``"fixed"``.

    Takes what :class:`RandomWalkKernel` takes.

    Raises:
        ValueError: An argument is out of its range, values are too large for float64, or k(v, v) is for
            ``"inverse"``.
    """

    def __init__(
        self,
        num_layers: int = 2,
        walk_length: int = 2,
        decay: float = 1.0,
        compose: str = "mul",
        composition: str | Composition = "polynomial",
        walks_only: bool = False,
        normalize: bool = False,
        decay_bounds: Any = (1e-5, 1.0),
    ) -> None:
        self.num_layers = num_layers
        self.walk_length = walk_length
        self.decay = decay
        self.compose = compose
        self.composition = composition
        self.walks_only = walks_only
        self.normalize = normalize
        self.decay_bounds = decay_bounds

    def _encode(self, X: Any, Y: Any) -> tuple[DeepSide, DeepSide | None]:
        self._check_decay()
        self._check_counts("num_layers", "walk_length")
        check_one_of("compose", self.compose, COMPOSE)
        check_switch("walks_only", self.walks_only)
        first, second = paired(X, Y)
        a, b = pair_sides(first, second)
        if b is None or second is None:
            return self._traced(a, first), None
        return self._traced(a, first), self._traced(b, second)

    @no_warning
    def _traced(self, side: PairSide, graphs: FlatGraphs) -> DeepSide:
        deep = DeepSide(**vars(side), exists=self._where_walks_end(graphs) if self.walks_only else ())
        parts = [self._trace(deep.part(*ends)) for ends in cut(deep.sizes, self._diag_budget)]
        traces = tuple(
            (np.concatenate([value for value, _ in step]), np.concatenate([slope for _, slope in step]))
            for step in zip(*parts, strict=True)
        )
        # No k(v, v') is larger than the largest k(v, v): where these are finite, all is.
        self._check_finite(*(value for value, _ in traces))
        # Without a single graph there is nothing to compare, but there are steps.
        none = (np.zeros(0), np.zeros(0))
        return replace(deep, traces=traces or (none,) * (self.num_layers * self.walk_length + 1))

    def _trace(self, part: DeepSide) -> Traces:
        states = self._states(part, part, gradient=True)
        return tuple((np.diagonal(k).copy(), np.diagonal(slope).copy()) for k, slope in states)

    def _where_walks_end(self, graphs: FlatGraphs) -> tuple[np.ndarray, ...]:
        num_nodes = int(graphs.node_ptr[-1])
        masks = [np.ones(num_nodes, dtype=bool)]
        for _ in range(self.walk_length - 1):
            masks.append(np.zeros(num_nodes, dtype=bool))
            masks[-1][graphs.target[masks[-2][graphs.source]]] = True
        return tuple(masks)

    def _states(self, a: DeepSide, b: DeepSide, gradient: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """K_loc before every composition, l = 1 … L and j = 1 … n in turn, then K_σ of the last one.

        Beside each its derivative. While the traces of a and b are still missing, the diagonal that grows
        here is taken for them: then a and b are the same.
        """
        composition = get_composition(self.composition)
        step = 0

        def composed(k: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal step
            if a.traces and b.traces:
                (kxx, sxx), (kyy, syy) = a.traces[step], b.traces[step]
            else:
                kxx, sxx = np.diagonal(k), np.diagonal(slope)
                kyy, syy = kxx, sxx
            step += 1
            kxx, sxx, kyy, syy = kxx[:, None], sxx[:, None], kyy[None], syy[None]
            if not gradient:
                return composition(k, kxx, kyy), slope
            by = composition.slopes(k, kxx, kyy)
            return composition(k, kxx, kyy), by.k * slope + by.kxx * sxx + by.kyy * syy

        def masked(values: np.ndarray, j: int) -> np.ndarray:
            return values * np.outer(a.exists[j], b.exists[j]) if a.exists else values

        base, base_slope = a.similarity(b), np.zeros((a.num_nodes, b.num_nodes))
        for _ in range(self.num_layers):
            k, slope = base, base_slope
            for j in range(1, self.walk_length):
                yield k, slope
                sent, sent_slope = (masked(values, j - 1) for values in composed(k, slope))
                total = self.decay * a.move(b, sent)
                total_slope = total + self.decay * a.move(b, sent_slope) if gradient else slope
                if self.compose == "add":
                    k, slope = base + total, base_slope + total_slope
                else:
                    k, slope = base * total, base_slope * total + base * total_slope
                k, slope = masked(k, j), masked(slope, j)
            yield k, slope
            base, base_slope = composed(k, slope)
        yield base, base_slope

    def _block(self, a: DeepSide, b: DeepSide, gradient: bool = False) -> Values:
        *_, (k, slope) = self._states(a, b, gradient)
        return a.pool(b, k), a.pool(b, slope) if gradient else None

    def local(self, G: Any, H: Any, layer: int | None = None, walk_length: int | None = None) -> np.ndarray:
        """K_loc^(l,j) of all nodes of two graphs, before the activation: ``[nodes of G, nodes of H]``.

        Args:
            layer: l, default the last.
            walk_length: j, default n.
        """
        a, b = self._encode([G], [H])
        assert b is not None
        layer = self.num_layers if layer is None else layer
        j = self.walk_length if walk_length is None else walk_length
        if not (1 <= layer <= self.num_layers and 1 <= j <= self.walk_length):
            raise ValueError(
                f"layer and walk_length must be in 1 … {self.num_layers} and 1 … {self.walk_length}, "
                f"got {layer} and {j}"
            )
        states = list(self._states(a, b, gradient=False))
        return states[(layer - 1) * self.walk_length + j - 1][0]
