"""Plots as small SVG, in the colours of the page: no library, a millisecond each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .page import escaped

WIDTH, HEIGHT = 360, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 26, 42
# Points overlap visibly where they lie in different paths.
_IN_A_PATH = 200


class Plot:
    """One pair of axes, and what is drawn on them.

    Args:
        title, xlabel, ylabel: Text, which is escaped.
        x, y: Least and largest value of each axis.
    """

    def __init__(
        self, title: str, xlabel: str, ylabel: str, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        self.labels = title, xlabel, ylabel
        self.x, self.y = _wide(*x), _wide(*y)
        self.marks: list[str] = []
        self.names: list[tuple[str, str]] = []
        #: What stands at the axis x, where it is not numbers.
        self.xticks: list[tuple[float, str]] | None = None
        #: Where the legend begins, as shares of the width and the height.
        self.legend = 0.03, 0.97

    def _places(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        (left, right), (low, high) = self.x, self.y
        across = (np.asarray(x, dtype=np.float64) - left) / (right - left)
        up = (np.asarray(y, dtype=np.float64) - low) / (high - low)
        return (
            np.round(_LEFT + across * (WIDTH - _LEFT - _RIGHT), 1),
            np.round(HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM), 1),
        )

    def line(self, x: ArrayLike, y: ArrayLike, kind: str = "one", name: str = "") -> None:
        """Points joined by lines; values that are not finite leave a gap.

        Args:
            x, y: ``[n]``.
            kind: CSS class: "one", "two", "three", or "even" for what a plot is compared with.
            name: For the legend.
        """
        whole = np.isfinite(np.asarray(x, dtype=np.float64)) & np.isfinite(np.asarray(y, dtype=np.float64))
        path, pen = [], "M"
        for a, b, known in zip(*(np.clip(v, -1e4, 1e4) for v in self._places(x, y)), whole, strict=True):
            if known:
                path.append(f"{pen}{a:g} {b:g}")
            pen = "L" if known else "M"
        self.marks.append(f'<path class="{kind}" d="{"".join(path)}"/>')
        if name:
            self.names.append((kind, name))

    def points(self, x: ArrayLike, y: ArrayLike, kind: str = "one") -> None:
        """A dot for each pair of values ``[n]``."""
        across, down = self._places(x, y)
        dots = [f"M{a:g} {b:g}h0" for a, b in zip(across, down, strict=True) if a == a and b == b]
        for begin in range(0, len(dots), _IN_A_PATH):
            path = "".join(dots[begin : begin + _IN_A_PATH])
            self.marks.append(f'<path class="points {kind}" d="{path}"/>')

    def bars(self, edges: ArrayLike, heights: ArrayLike, kind: str = "one", name: str = "") -> None:
        """A bar over each span between two neighbouring ``edges`` ``[n + 1]``."""
        edges = np.asarray(edges, dtype=np.float64)
        right, top = self._places(edges[1:], heights)
        left, bottom = self._places(edges[:-1], np.full(len(edges) - 1, max(0.0, self.y[0])))
        bars = [
            f"M{a + 0.5:g} {d:g}V{t:g}H{max(b - 0.5, a + 1):g}V{d:g}Z"
            for a, b, t, d in zip(left, right, top, bottom, strict=True)
            if t < d
        ]
        self.marks.append(f'<path class="bar {kind}" d="{"".join(bars)}"/>')
        if name:
            self.names.append((kind, name))

    def svg(self) -> str:
        """The plot."""
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        parts = []
        for value, text in self.xticks or ticks(*self.x):
            at = self._places(value, self.y[0])[0]
            parts.append(f'<path class="grid" d="M{at:g} {_TOP}V{bottom}"/>')
            parts.append(f'<text x="{at:g}" y="{bottom + 15}" text-anchor="middle">{text}</text>')
        for value, text in ticks(*self.y):
            at = self._places(self.x[0], value)[1]
            parts.append(f'<path class="grid" d="M{_LEFT} {at:g}H{right}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:g}" text-anchor="end">{text}</text>')
        title, xlabel, ylabel = (escaped(_short(label)) for label in self.labels)
        middle = (_TOP + bottom) / 2
        parts += [
            *self.marks,
            f'<text class="title" x="4" y="14">{title}</text>',
            f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{xlabel}</text>',
            f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">{ylabel}'
            "</text>",
        ]
        x = _LEFT + self.legend[0] * (right - _LEFT)
        y = bottom - self.legend[1] * (bottom - _TOP) + 8
        for place, (kind, name) in enumerate(self.names):
            down = y + 15 * place
            parts.append(f'<path class="{kind}" d="M{x:g} {down - 4:g}h14" style="stroke-width:4"/>')
            parts.append(f'<text x="{x + 19:g}" y="{down:g}">{escaped(_short(name))}</text>')
        return (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
            + "".join(parts)
            + "</svg>"
        )


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round values from ``low`` to ``high``, and how they are written."""
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return [(float(value), f"{value + 0.0:.4g}") for value in np.where(abs(values) < step / 1e6, 0.0, values)]


def span(*values: ArrayLike, margin: float = 0.04) -> tuple[float, float]:
    """The least and the largest of all finite values, with a margin on both sides; 0 and 1 of none."""
    flat = np.concatenate([np.ravel(np.asarray(each, dtype=np.float64)) for each in values])
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return 0.0, 1.0
    low, high = float(flat.min()), float(flat.max())
    return low - margin * (high - low), high + margin * (high - low)


def _wide(low: float, high: float) -> tuple[float, float]:
    """An axis has a length, also of equal values."""
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-300):
        return float(low), float(high)
    half = abs(low) / 2 or 0.5
    return low - half, high + half


def _short(text: str) -> str:
    return text if len(text) <= 45 else f"{text[:44]}…"
