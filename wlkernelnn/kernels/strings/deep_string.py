"""The deep string kernel: the recursion of the deep string kernel networks, over layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from wlkernelnn.kernels.base import DecayMixin, StructureKernel, Values, cut, no_warning
from wlkernelnn.kernels.composition import Composition, get_composition
from wlkernelnn.utils.checks import check_one_of, check_switch

from .sides import StringPart, StringSide, string_sides
from .subsequences import Paired, Pairs, PrefixSums, Subsequences, scaled

# k(x_1…t, x_1…t) for every token t, and its derivative.
Trace = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class DeepPart(StringPart):
    """Strings with the kernel of every prefix with itself, which the compositions need.

    Attributes:
        traces: For every layer, K^(l) of the prefix that ends in a token, ``[P]``, and its derivative.
    """

    traces: tuple[Trace, ...]

    @cached_property
    def last(self) -> np.ndarray:
        """The last token of every string that has one: those strings come first."""
        filled = np.arange(np.count_nonzero(self.lengths))
        return self.begins[self.lengths[filled] - 1] + filled

    def ends(self) -> Trace:
        """The trace of whole strings in the last layer, ``[n]``: 0 of an empty one."""
        values, slopes = np.zeros((2, len(self)))
        values[: len(self.last)], slopes[: len(self.last)] = (trace[self.last] for trace in self.traces[-1])
        return values, slopes


@dataclass(frozen=True)
class DeepSide(StringSide):
    """Strings end to end with such traces, ``[N]`` each."""

    traces: tuple[Trace, ...] = ()

    def part(self, begin: int, end: int) -> DeepPart:
        part = super().part(begin, end)
        traces = tuple((values[part.place], slopes[part.place]) for values, slopes in self.traces)
        return DeepPart(**vars(part), traces=traces)


class DeepStringKernel(DecayMixin, StructureKernel):
    r"""The deep string kernel of Lei et al. 2017, section 2.2 and appendix C, of the networks of Table 4.

    .. math::
        K^{(l)}_j(x, y) = s^2 \sum_{t \le |x|} \sum_{u \le |y|} \lambda^{|x| - t} \lambda^{|y| - u}
        \big( K^{(l)}_{j-1}(x_{1…t-1}, y_{1…u-1}) \circ K^{(l-1)}_\sigma(x_{1…t}, y_{1…u}) \big)

    for j = 1 … n, with products or sums for ∘, :math:`K^{(l)}_0 = 1` for products and 0 for sums, and

    .. math::
        K^{(0)}_\sigma(x_{1…t}, y_{1…u}) = \langle x_t, y_u \rangle \qquad
        K^{(l)} = K^{(l)}_n \ \text{or} \ \sum_j K^{(l)}_j \qquad K(x, y) = K^{(L)}_\sigma(x, y)

    where :math:`K_\sigma` is a composition: the kernel in whose space the activation lies (lemma 1). States
    of the networks of :class:`~wlkernelnn.sequence.StringKernelConv` layers with the same options lie in
    these spaces (theorem 2):

    * Table 4 (a), by default: section 2.2's sum over subsequences (s = 1);
    * (b), ``averaged=True``: :math:`(1-\lambda)^{2n}` times that (s = 1 − λ);
    * (c), ``compose="add", averaged=True``:

    .. math::
        K^{(l)}_n(x, y) = \sum_{p<n} (1-\lambda)^{2p+2} \sum_{i,k} \binom{|x|-i}{p} \binom{|y|-k}{p}
        \lambda^{|x|-i-p} \lambda^{|y|-k-p} K^{(l-1)}_\sigma(x_{1…i}, y_{1…k})

    With one layer and the identity (a) is :class:`StringKernel`, variant a. The variants b and c of that are
    kernels of Table 5, which the networks of Table 4 do not compute. With products, a string of fewer than n
    tokens has no subsequence: its :math:`\phi` is 0, and its kernel is :math:`K_\sigma` of that (such as
    :math:`c^p`), as its network has the state 0 and the output σ(0).

    Args:
        num_layers: L.
        ngram: n.
        decay: λ ≥ 0.
        composition: K_σ: ``"identity"``, ``"polynomial"`` (c + k)^p, ``"inverse"`` 1/(2 − k), ``"exp"``,
            ``"arccos0"``, ``"arccos1"``, or a :class:`Composition` with other constants.
        normalize: Divide by :math:`\sqrt{K(x,x) K(y,y)}` (0 where that is 0).
        decay_bounds: Range of λ for a Gaussian process, or ``"fixed"``.
        compose: ∘, ``"mul"`` or ``"add"``.
        averaged: s = 1 − λ instead of 1, for λ ≤ 1: the ``normalize`` of the layers.
        readout: K^(l) is ``"last"``, :math:`K^{(l)}_n`, or ``"sum"``, all of them.

    Takes what :class:`StringKernel` takes.

    Raises:
        TypeError: X or Y is not a list of sequences.
        ValueError: An argument is out of its range, sequences cannot be compared, values are too large for
            float64, or k(x, x) of a prefix is for ``"inverse"``.
    """

    _budget = 500
    _diag_budget = 4096

    def __init__(
        self,
        num_layers: int = 2,
        ngram: int = 2,
        decay: float = 0.5,
        composition: str | Composition = "polynomial",
        normalize: bool = False,
        decay_bounds: Any = (1e-5, 1.0),
        compose: str = "mul",
        averaged: bool = False,
        readout: str = "last",
    ) -> None:
        self.num_layers = num_layers
        self.ngram = ngram
        self.decay = decay
        self.composition = composition
        self.normalize = normalize
        self.decay_bounds = decay_bounds
        self.compose = compose
        self.averaged = averaged
        self.readout = readout

    def _encode(self, X: Any, Y: Any) -> tuple[DeepSide, DeepSide | None]:
        self._check_decay()
        self._check_counts("num_layers", "ngram")
        check_one_of("compose", self.compose, ("mul", "add"))
        check_one_of("readout", self.readout, ("last", "sum"))
        check_switch("averaged", self.averaged)
        if self.averaged and self.decay > 1:
            raise ValueError(f"averaged=True needs decay ≤ 1, got {self.decay}")
        a, b = string_sides(X, Y)
        return self._traced(a), None if b is None else self._traced(b)

    @no_warning
    def _traced(self, strings: StringSide) -> DeepSide:
        side = DeepSide(**vars(strings))
        traces = np.zeros((self.num_layers, 2, len(side.tokens)))
        for begin, end in cut(side.sizes, self._diag_budget):
            part = side.part(begin, end)
            for layer in range(self.num_layers):
                trace = self._trace(part, layer)
                part = replace(part, traces=(*part.traces, trace))
                traces[layer][:, part.place] = trace
        self._check_finite(traces[:, 0])
        return replace(side, traces=tuple((values, slopes) for values, slopes in traces))

    def _trace(self, part: DeepPart, layer: int) -> Trace:
        """The trace of one more layer than the part has."""
        values, slopes = np.zeros((2, len(part.tokens)))
        for t, (k, slope) in enumerate(self._rows(Paired(part), layer, gradient=True)):
            assert slope is not None
            values[part.at(t)], slopes[part.at(t)] = k[part.at(t), 0], slope[part.at(t), 0]
        return values, slopes

    def _rows(self, pairs: Pairs[DeepPart], layer: int, gradient: bool) -> Iterator[Values]:
        """K^(l) of all prefixes before the activation, row by row: ``[P, w]`` for the prefixes x_1…t."""
        rows: Iterator[Values] = ((pairs.similarity(t), None) for t in range(len(pairs.x.counts)))
        for below in range(layer):
            rows = self._composed(pairs, self._layer(pairs, rows, gradient), below, gradient)
        return self._layer(pairs, rows, gradient)

    def _layer(self, pairs: Pairs[StringPart], rows: Iterator[Values], gradient: bool) -> Iterator[Values]:
        # s², and its derivative with respect to log λ
        scale = ((1 - self.decay) ** 2, -2 * self.decay * (1 - self.decay)) if self.averaged else (1.0, 0.0)
        shape = pairs.y, pairs.width
        every = self.readout == "sum"
        ngrams = Subsequences(*shape, self.ngram, self.decay, gradient, self.compose, scale, every)
        sums = PrefixSums(*shape, self.decay, gradient)
        for value, slope in rows:
            sums.add(*ngrams.row(value, slope))
            yield scaled(sums.last(value.shape[1]), scale)

    def _composed(
        self, pairs: Pairs[DeepPart], rows: Iterator[Values], layer: int, gradient: bool
    ) -> Iterator[Values]:
        (kxx, sxx), (kyy, syy) = pairs.x.traces[layer], pairs.y.traces[layer]
        for t, (k, slope) in enumerate(rows):
            yield self._compose(
                pairs.inside(k, t),
                None if slope is None else pairs.inside(slope, t),
                (pairs.spread(kxx, t), pairs.spread(sxx, t)),
                (kyy[:, None], syy[:, None]),
            )

    def _compose(self, k: np.ndarray, slope: np.ndarray | None, x: Trace, y: Trace) -> Values:
        composition = get_composition(self.composition)
        (kxx, sxx), (kyy, syy) = x, y
        value = composition(k, kxx, kyy)
        if slope is None:
            return value, None
        by = composition.slopes(k, kxx, kyy)
        return value, by.k * slope + by.kxx * sxx + by.kyy * syy

    def _block(self, a: DeepPart, b: DeepPart, gradient: bool = False) -> Values:
        k = np.zeros((len(b), len(a)))
        slope = np.zeros_like(k) if gradient else None
        filled = slice(len(b.last))
        # A string x that has ended is in no later row: what its last token has written stays.
        for row, row_slope in self._rows(Pairs(a, b), self.num_layers - 1, gradient):
            k[filled, : row.shape[1]] = row[b.last]
            if slope is not None and row_slope is not None:
                slope[filled, : row.shape[1]] = row_slope[b.last]
        (kxx, sxx), (kyy, syy) = a.ends(), b.ends()
        value, slope = self._compose(k, slope, (kxx[None], sxx[None]), (kyy[:, None], syy[:, None]))
        return a.in_order(b, value, slope)

    def _diag(self, side: DeepSide, gradient: bool = False) -> Values:
        part = side.part(0, len(side.lengths))
        k, slope = part.ends()
        value, slope_ = self._compose(k, slope if gradient else None, (k, slope), (k, slope))
        return value[part.rank], None if slope_ is None else slope_[part.rank]

    def local(self, x: Any, y: Any, layer: int | None = None) -> np.ndarray:
        """K^(l) of all prefixes of two sequences, before the activation: ``[|x|, |y|]``.

        Place [t, s] is that of the prefixes that end in tokens t and s.

        Args:
            layer: l, default the last.

        Raises:
            ValueError: There is no such layer.
        """
        layer = self.num_layers if layer is None else layer
        if not 1 <= layer <= self.num_layers:
            raise ValueError(f"layer must be in 1 … {self.num_layers}, got {layer}")
        a, b = self._encode([x], [y])
        assert b is not None
        rows = self._rows(Pairs(a.part(0, 1), b.part(0, 1)), layer - 1, gradient=False)
        return np.array([row[:, 0] for row, _ in rows]).reshape(len(a.tokens), len(b.tokens))
