"""Common subsequences of pairs of strings, by dynamic programming over pairs of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.signal import lfilter

from wlkernelnn.kernels.base import Values

from .sides import StringPart

# From this many numbers on, a step of a scan is faster in numpy than the whole scan in scipy's loop.
_WIDE = 64

P = TypeVar("P", bound=StringPart, covariant=True)


@dataclass(frozen=True)
class Pairs(Generic[P]):
    """All strings x of one part with all strings y of another, pairs of tokens row by row.

    Row t, ``[P, w]``, has all tokens of the strings y and the tokens that w strings x have at step t; w falls
    from ``width`` on.
    """

    x: P
    y: P

    @property
    def width(self) -> int:
        """The largest w."""
        return len(self.x)

    def similarity(self, t: int) -> np.ndarray:
        """⟨x_t, y_s⟩, ``[P, w]``."""
        tokens = self.x.tokens[self.x.at(t)]
        if tokens.ndim == 2:
            return np.asarray(self.y.tokens @ tokens.T)
        out = np.empty((len(self.y.tokens), len(tokens)))
        np.equal(self.y.tokens[:, None], tokens, out=out, casting="unsafe")
        return out

    def spread(self, values: np.ndarray, t: int) -> np.ndarray:
        """Of values of the tokens x those of step t, in a shape that goes with row t."""
        return values[None, self.x.at(t)]

    def inside(self, row: np.ndarray, t: int) -> np.ndarray:
        """Row t, with 0 where x has no token t."""
        return row


class Paired(Pairs[P]):
    """Every string of a part with itself: w is 1."""

    def __init__(self, part: P) -> None:
        super().__init__(part, part)

    @property
    def width(self) -> int:
        return 1

    def _there(self, t: int) -> np.ndarray:
        """Which tokens belong to strings with a token t."""
        return self.x.string < self.x.counts[t]

    def similarity(self, t: int) -> np.ndarray:
        there = self._there(t)
        mine, tokens = self.x.tokens[there], self.x.tokens[self.x.at(t)][self.x.string[there]]
        out = np.zeros((len(there), 1))
        out[there, 0] = mine == tokens if tokens.ndim == 1 else np.einsum("pd,pd->p", mine, tokens)
        return out

    def spread(self, values: np.ndarray, t: int) -> np.ndarray:
        there = self._there(t)
        out = np.zeros((len(there), 1))
        out[there, 0] = values[self.x.at(t)][self.x.string[there]]
        return out

    def inside(self, row: np.ndarray, t: int) -> np.ndarray:
        return row * self._there(t)[:, None]


def scan(values: np.ndarray, part: StringPart, decay: float, out: np.ndarray) -> np.ndarray:
    r"""Along every string: out[s] = Σ_{i<s} λ^{s−1−i} values[i], ``[P, w]``."""
    counts, begins = part.counts, part.begins
    out[: counts[0] if len(counts) else 0] = 0
    if len(counts) < 2:
        return out
    width = values.shape[1]
    if counts[0] * width < _WIDE and counts[0] == counts[-1]:
        steps = values[: begins[-1]].reshape(len(counts) - 1, -1)
        out[counts[0] :] = lfilter([1.0], [1.0, -decay], steps, axis=0).reshape(-1, width)
        return out
    for s in range(1, len(counts)):
        here, before = part.at(s), slice(begins[s - 1], begins[s - 1] + counts[s])
        if decay == 1:
            np.add(out[before], values[before], out=out[here])
        else:
            np.multiply(out[before], decay, out=out[here])
            out[here] += values[before]
    return out


class PrefixSums:
    r"""C[t, s] = Σ_{i<t, k<s} λ^{t−1−i} λ^{s−1−k} G[i, k] of rows G that come one after the other.

    Args:
        y: The strings along a row.
        width: w of the first row; later rows may be narrower.
        decay: λ.
        gradient: Carry the derivative with respect to log λ.
    """

    def __init__(self, y: StringPart, width: int, decay: float, gradient: bool) -> None:
        self.y = y
        self.decay = decay
        shape = len(y.tokens), width
        self._sums, self._scans = np.zeros(shape), np.zeros(shape)
        self._slopes = (np.zeros(shape), np.zeros(shape)) if gradient else None
        self._buffer = np.empty(shape) if gradient else None

    def before(self, width: int) -> Values:
        """C of the row that comes next, and its derivative."""
        return self._scans[:, :width], None if self._slopes is None else self._slopes[1][:, :width]

    def add(self, row: np.ndarray, slope: np.ndarray | None) -> None:
        """Take the next row of G and, where it has one, its derivative."""
        width = row.shape[1]
        sums, scans = self._sums[:, :width], self._scans[:, :width]
        if self._slopes is not None:
            sum_slopes, scan_slopes = (slopes[:, :width] for slopes in self._slopes)
            sum_slopes += sums
            sum_slopes *= self.decay
            if slope is not None:
                sum_slopes += slope
        if self.decay != 1:
            sums *= self.decay
        sums += row
        scan(sums, self.y, self.decay, out=scans)
        if self._slopes is not None and self._buffer is not None:
            steps = np.multiply(scans, self.decay, out=self._buffer[:, :width])
            steps += sum_slopes
            scan(steps, self.y, self.decay, out=scan_slopes)

    def last(self, width: int) -> Values:
        """Σ_{i≤t, k≤s} λ^{t−i} λ^{s−k} G[i, k] of the last row t, and its derivative."""
        scans, scan_slopes = self.before(width)
        values = self.decay * scans + self._sums[:, :width]
        if self._slopes is None or scan_slopes is None:
            return values, None
        return values, self.decay * (scan_slopes + scans) + self._slopes[0][:, :width]


class Subsequences:
    r"""Sums over common subsequences of n tokens that end in a pair of tokens, row after row.

    .. math::
        G_n[t, s] = \sum_{i_1 < … < i_n = t} \ \sum_{k_1 < … < k_n = s} \lambda^{i_n - i_1 - n + 1}
        \lambda^{k_n - k_1 - n + 1} \prod_m S[i_m, k_m]

    by :math:`G_1 = S` and :math:`G_{j+1} = a \, C(G_j) \circ S`, with the sums C of :class:`PrefixSums`, the
    product for ∘ and a = 1.

    Args:
        y, width, decay, gradient: As for :class:`PrefixSums`.
        ngram: n.
        compose: ∘, ``"mul"`` or ``"add"``.
        scale: a, and its derivative with respect to log λ.
        every: Rows are of :math:`G_1 + … + G_n`.
    """

    def __init__(
        self,
        y: StringPart,
        width: int,
        ngram: int,
        decay: float,
        gradient: bool,
        compose: str = "mul",
        scale: tuple[float, float] = (1.0, 0.0),
        every: bool = False,
    ) -> None:
        self._sums = [PrefixSums(y, width, decay, gradient) for _ in range(ngram - 1)]
        self._compose = {"mul": _product, "add": _sum}[compose]
        self._scale = scale
        self._every = every

    def row(self, similarity: np.ndarray, slope: np.ndarray | None = None) -> Values:
        """The next row of G_n from that of S, both with a derivative; ``None`` for 0 or one not wanted."""
        value: Values = similarity, slope
        total = value
        for sums in self._sums:
            before = scaled(sums.before(similarity.shape[1]), self._scale)
            longer = self._compose(before, (similarity, slope))
            sums.add(*value)
            value = longer
            total = _sum(total, value) if self._every else value
        return total


def scaled(values: Values, scale: tuple[float, float]) -> Values:
    """Values times a number, both with their derivatives."""
    value, slope = values
    factor, factor_slope = scale
    if factor == 1:
        return values
    return factor * value, None if slope is None else factor * slope + factor_slope * value


def _product(one: Values, other: Values) -> Values:
    (a, a_slope), (b, b_slope) = one, other
    if a_slope is None:
        return a * b, None
    return a * b, a_slope * b if b_slope is None else a_slope * b + a * b_slope


def _sum(one: Values, other: Values) -> Values:
    (a, a_slope), (b, b_slope) = one, other
    slopes = [slope for slope in (a_slope, b_slope) if slope is not None]
    # Arrays of their own: earlier sums change in place.
    return a + b, np.asarray(sum(slopes)) if slopes else None
