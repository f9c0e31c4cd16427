"""The string kernel: common subsequences of two sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import comb

from wlkernelnn.kernels.base import DecayMixin, StructureKernel, Values, cut
from wlkernelnn.utils.checks import check_one_of

from .deep_string import DeepStringKernel
from .sides import StringPart, StringSide, string_sides
from .subsequences import Paired, Pairs, Subsequences

VARIANTS = ("a", "b", "c", "lodhi")


@dataclass(frozen=True)
class FeatureSide:
    """Strings as vectors φ(x), ``[n, F]``, with the derivatives of these with respect to log λ."""

    features: Any
    slopes: Any

    @property
    def sizes(self) -> np.ndarray:
        return np.ones(self.features.shape[0])

    def part(self, begin: int, end: int) -> FeatureSide:
        return FeatureSide(self.features[begin:end], self.slopes[begin:end])


class StringKernel(DecayMixin, StructureKernel):
    r"""The string kernel of Lei et al. 2017, eq. (3) and Table 5, for subsequences of n tokens, exact.

    .. math::
        K_n(x, y) = \sum_{i_1 < … < i_n} \ \sum_{k_1 < … < k_n} w_x(i) \, w_y(k)
        \prod_{m=1}^n \langle x_{i_m}, y_{k_m} \rangle \qquad
        w_x(i) = \lambda^{|x| - i_1 - n + 1}, \quad 0^0 = 1

    =========== ==========================================================================================
    variant
    =========== ==========================================================================================
    ``"a"``     as above (Table 5a)
    ``"b"``     divided by Z'(x) Z'(y), :math:`Z'(x) = \sum_{i_1 < … < i_n} w_x(i)` (Table 5b)
    ``"c"``     like b with :math:`\sum_m \langle x_{i_m}, y_{k_m} \rangle` for the product (Table 5c)
    ``"lodhi"`` :math:`w_x(i) = \lambda^{i_n - i_1 + 1}` (Lodhi et al. 2002): gaps inside a subsequence
                count, its distance from the end does not
    =========== ==========================================================================================

    A string of fewer than n tokens has no subsequence: its kernel is 0, in b and c as well.

    Args:
        ngram: n.
        decay: λ ≥ 0.
        variant: ``"a"``, ``"b"``, ``"c"`` or ``"lodhi"``.
        normalize: Divide by :math:`\sqrt{K(x,x) K(y,y)}` (0 where that is 0).
        decay_bounds: Range of λ for a Gaussian process, or ``"fixed"``.

    Takes lists or arrays of sequences: of ``str`` (their characters), of lists of ids or of other hashable
    tokens, and of integer matrices ``[T, F]`` (rows), all compared by equality; of float matrices ``[T, d]``,
    compared by inner products; and of path graphs with such an ``x``, also one batch of these: their order is
    that of ``edge_index``, if there is one, and an ``edge_weight`` must be 1. A ``PackedSequence`` is the
    strings in it. For a Gaussian process, wrap lists of tokens and path graphs in :func:`objects`; arrays
    scikit-learn refuses as items.

    Raises:
        TypeError: X or Y is not a list of sequences.
        ValueError: An argument is out of its range, sequences cannot be compared, a graph is not a path, or
            values are too large for float64.

    >>> from wlkernelnn.kernels import StringKernel
    >>> kernel = StringKernel(ngram=2, decay=0.5, variant="lodhi", normalize=True)
    >>> kernel(["cat", "car"]).round(4).tolist()  # 1 / (2 + λ²)
    [[1.0, 0.4444], [0.4444, 1.0]]
    """

    _budget = 500
    _diag_budget = 4096

    def __init__(
        self,
        ngram: int = 2,
        decay: float = 0.5,
        variant: str = "a",
        normalize: bool = False,
        decay_bounds: Any = (1e-5, 1.0),
    ) -> None:
        self.ngram = ngram
        self.decay = decay
        self.variant = variant
        self.normalize = normalize
        self.decay_bounds = decay_bounds

    def _encode(self, X: Any, Y: Any) -> tuple[Any, Any]:
        self._check_decay()
        self._check_counts("ngram")
        check_one_of("variant", self.variant, VARIANTS)
        # From the end, the decay of a and b is a weight of the last step alone.
        a, b = string_sides(X, Y, from_end=True)
        if self.variant == "c":
            return self._features(a), None if b is None else self._features(b)
        return a, b

    def _block(self, a: Any, b: Any, gradient: bool = False) -> Values:
        if isinstance(a, FeatureSide):
            value = a.features @ b.features.T
            slope = a.slopes @ b.features.T + a.features @ b.slopes.T if gradient else None
            return _dense(value), None if slope is None else _dense(slope)
        return a.in_order(b, *self._sums(Pairs(a, b), gradient))

    def _diag(self, side: Any, gradient: bool = False) -> Values:
        if isinstance(side, FeatureSide):
            value = (side.features * side.features).sum(axis=1)
            slope = 2 * (side.slopes * side.features).sum(axis=1) if gradient else None
            return value, slope
        values, slopes = np.zeros(len(side.lengths)), np.zeros(len(side.lengths)) if gradient else None
        for begin, end in cut(side.sizes, self._diag_budget):
            part = side.part(begin, end)
            value, slope = self._sums(Paired(part), gradient)
            values[begin:end] = value[part.rank, 0]
            if slopes is not None and slope is not None:
                slopes[begin:end] = slope[part.rank, 0]
        return values, slopes

    def _sums(self, pairs: Pairs[StringPart], gradient: bool) -> Values:
        """K of pairs, ``[strings y, w]``: their subsequences, taken from the end, times both weights."""
        x, y, width = pairs.x, pairs.y, pairs.width
        inner = self.decay if self.variant == "lodhi" else 1.0
        ngrams = Subsequences(y, width, self.ngram, inner, gradient and self.variant == "lodhi")
        weights, weight_slopes = self._weights(x)
        total = np.zeros((len(y.tokens), width))
        total_slope = np.zeros_like(total) if gradient else None
        for t in range(len(x.counts)):
            row, row_slope = ngrams.row(pairs.similarity(t))
            here = np.s_[:, : row.shape[1]]
            weight = pairs.spread(weights, t)
            if total_slope is not None:
                total_slope[here] += row * pairs.spread(weight_slopes, t)
                if row_slope is not None:
                    total_slope[here] += row_slope * weight
            row *= weight
            total[here] += row
        weights, weight_slopes = self._weights(y)
        value = _strings_of(y, weights) @ total
        if total_slope is None:
            return value, None
        return value, _strings_of(y, weight_slopes) @ total + _strings_of(y, weights) @ total_slope

    def _weights(self, part: StringPart) -> tuple[np.ndarray, np.ndarray]:
        """What a subsequence that begins with a token is worth, ``[P]``, and the derivative."""
        if self.variant == "lodhi":
            weights = np.full(len(part.tokens), np.float64(self.decay) ** self.ngram)
            return weights, self.ngram * weights
        to_end = np.repeat(np.arange(len(part.counts)), part.counts)
        weights, slopes = self._first_weights(to_end)
        if self.variant == "a":
            return weights, slopes
        ways = _strings_of(part, comb(to_end, self.ngram - 1))
        total, total_slope = ways @ weights, ways @ slopes
        return _divided(weights, slopes, total[part.string], total_slope[part.string])

    def _first_weights(self, to_end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """λ^(|x| − i − n + 1) and its derivative, for tokens i with |x| − i others behind them."""
        exponent = to_end - self.ngram + 1
        weights = np.where(exponent >= 0, float(self.decay) ** np.maximum(exponent, 0), 0.0)
        return weights, exponent * weights

    def _features(self, side: StringSide) -> FeatureSide:
        """Variant c: φ(x) = Σ w_x(i) [x_i1, …, x_in] / Z'(x), as a sum over tokens."""
        lengths, where = np.unique(side.lengths, return_inverse=True)
        shares = [self._shares(length) for length in lengths]
        # [n, 2, N]: of each place in the subsequence the value and its derivative for every token.
        by_token = np.concatenate([np.zeros((self.ngram, 2, 0)), *(shares[i] for i in where)], axis=2)
        tokens = side.tokens
        if tokens.ndim == 1:
            num_tokens = len(tokens)
            tokens = sparse.csr_array(
                (np.ones(num_tokens), tokens, np.arange(num_tokens + 1)), (num_tokens, max(1, side.num_codes))
            )
        shape = len(side.lengths), tokens.shape[0]
        features, slopes = (
            _side_by_side(
                [
                    sparse.csr_array((share[which], np.arange(shape[1]), side.ptr), shape) @ tokens
                    for share in by_token
                ]
            )
            for which in (0, 1)
        )
        return FeatureSide(features, slopes)

    def _shares(self, length: int) -> np.ndarray:
        """Σ w_x(i) / Z'(x) over the i with i_m = t, and its derivative: ``[n, 2, length]`` for m and t."""
        if length < self.ngram:
            return np.zeros((self.ngram, 2, length))
        to_end = np.arange(length)[::-1]
        begun = np.stack(self._first_weights(to_end))
        shares = np.empty((self.ngram, 2, length))
        for m in range(self.ngram):
            shares[m] = begun * comb(to_end, self.ngram - 1 - m)
            begun = np.pad(np.cumsum(begun[:, :-1], axis=1), ((0, 0), (1, 0)))
        total, total_slope = shares[0].sum(axis=1)
        return np.stack(_divided(shares[:, 0], shares[:, 1], total, total_slope), axis=1)

    def local(self, x: Any, y: Any) -> np.ndarray:
        """K_n of all prefixes of two sequences, ``[|x|, |y|]``: place [t, s] is that of x_1…t and y_1…s.

        Raises:
            ValueError: Another variant than ``"a"``.
        """
        if self.variant != "a":
            raise ValueError(f'local is there for variant "a", this is {self.variant!r}')
        return DeepStringKernel(1, self.ngram, self.decay, "identity").local(x, y)


def _divided(
    values: np.ndarray, slopes: np.ndarray, total: Any, total_slope: Any
) -> tuple[np.ndarray, np.ndarray]:
    """values / total and its derivative; 0 / 0 is 0."""
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    values = values * inverse
    return values, (slopes - values * total_slope) * inverse


def _strings_of(part: StringPart, weights: np.ndarray) -> sparse.csr_array:
    """Weighted sums over the tokens of each string, ``[n, P]``."""
    return sparse.csr_array((weights, (part.string, np.arange(len(weights)))), (len(part), len(weights)))


def _side_by_side(blocks: list[Any]) -> Any:
    return sparse.hstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.hstack(blocks)


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)
