"""Spans of flat arrays, end to end."""

from __future__ import annotations

import numpy as np


def bounds_of(lengths: np.ndarray) -> np.ndarray:
    """Where spans of these lengths, laid end to end, begin and end: int64 ``[len(lengths) + 1]``."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def places_of(begin: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """begin[0], begin[0] + 1, …, for every span, laid end to end with these bounds."""
    where = np.repeat(begin - bounds[:-1], np.diff(bounds))
    where += np.arange(len(where))
    return where
