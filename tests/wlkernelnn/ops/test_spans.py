from __future__ import annotations

import numpy as np
import pytest

from wlkernelnn.ops.spans import bounds_of, places_of


@pytest.mark.parametrize("lengths", [[], [0], [3], [2, 0, 0, 5, 1], [0, 0]])
def test_bounds(lengths: list[int]) -> None:
    expected = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    bounds = bounds_of(np.array(lengths, dtype=np.uint8))
    assert bounds.dtype == np.int64
    assert bounds.tolist() == expected


@pytest.mark.parametrize("spans", [[], [(4, 0)], [(7, 2), (0, 3), (7, 0), (8, 1), (1, 4)]])
def test_places(spans: list[tuple[int, int]]) -> None:
    begin, length = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    expected = [begin + offset for begin, length in spans for offset in range(length)]
    assert places_of(begin, bounds_of(length)).tolist() == expected
