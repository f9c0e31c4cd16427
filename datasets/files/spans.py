"""Spans of flat arrays: how packed stores are cut and gathered.

NumPy does the arithmetic, not torch: work of microseconds is slower on many threads than on one, and very
much slower where other processes want the same cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from wlkernelnn.ops.spans import bounds_of, places_of


def positions_of(count: int, chosen: np.ndarray | Tensor | Sequence[int]) -> np.ndarray:
    """Of ``count`` items the positions of some, int64 and from 0 on.

    Args:
        count: How many items there are.
        chosen: Their numbers, those below 0 counted from the end, or a mask of all of them.

    Raises:
        IndexError: There is no such item, or a mask is not of all of them.
    """
    chosen = np.asarray(chosen)
    return np.arange(count)[chosen if chosen.size else chosen.astype(np.int64)]


def take_spans(
    ptr: np.ndarray, items: np.ndarray, *flats: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Rows of ``items`` out of flat arrays, laid end to end; their lengths, and their bounds there."""
    begin, end = ptr[items], ptr[items + 1]
    length = end - begin
    bounds = bounds_of(length)
    where = places_of(begin, bounds)
    if len(where):
        # The items lie far apart in memory. Reading both ends of all spans first waits for many at once, not
        # for one after the other: 1.5 times as fast where the store exceeds the caches.
        for flat in flats:
            flat.take(begin, axis=0, mode="clip")
            flat.take(end - 1, axis=0, mode="clip")
    return [flat.take(where, axis=0) for flat in flats], length, bounds
