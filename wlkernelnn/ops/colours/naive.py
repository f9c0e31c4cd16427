"""Weisfeiler-Lehman colours as their definition says: the oracle of the fast version, and for reading."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np


def wl_colours_naive(
    label: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    num_iterations: int,
    edge_label: np.ndarray | None = None,
) -> list[np.ndarray]:
    """As :func:`wl_colours`, with dictionaries of tuples; colours are numbered by first occurrence."""
    edge_labels = [0] * len(source) if edge_label is None else edge_label.tolist()
    edges = list(zip(source.tolist(), target.tolist(), edge_labels, strict=True))
    colours = [_numbered(label.tolist())]
    for _ in range(num_iterations):
        before = colours[-1].tolist()
        neighbours: list[list[tuple[int, int]]] = [[] for _ in before]
        for u, v, edge in edges:
            neighbours[v].append((before[u], edge))
        pairs = zip(before, neighbours, strict=True)
        colours.append(_numbered((own, tuple(sorted(around))) for own, around in pairs))
    return colours


def _numbered(keys: Iterable[Hashable]) -> np.ndarray:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
