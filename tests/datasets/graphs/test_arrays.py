from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.inputs.graphs import packed_pair
from wlkernelnn.datasets import Description
from wlkernelnn.datasets.graphs.arrays import check_arrays, distinct_rows, pack_strings, smallest


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((40, 3), np.uint8), ((40, 1), np.int64), ((1, 2), np.uint8), ((0, 4), np.int64), ((3, 0), np.int64)],
)
def test_distinct_rows_are_those_of_numpy(shape: tuple[int, int], dtype: type) -> None:
    rows = np.random.default_rng(0).integers(0, 3, shape).astype(dtype)
    table, number = distinct_rows(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert table.dtype == dtype
    assert table.shape == expected.shape
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(number, inverse.reshape(-1))


@pytest.mark.parametrize(
    ("top", "dtype"),
    [
        (0, torch.uint8),
        (255, torch.uint8),
        (256, torch.int16),
        (2**15 - 1, torch.int16),
        (2**15, torch.int32),
        (2**31 - 1, torch.int32),
        (2**31, torch.int64),
    ],
)
def test_smallest_type_that_holds_everything(top: int, dtype: torch.dtype) -> None:
    tensor = smallest(np.array([0, top]))
    assert tensor.dtype == dtype
    assert tensor.tolist() == [0, top]


def test_smallest_type_of_nothing() -> None:
    assert smallest(np.zeros((0, 3), dtype=np.int64)).shape == (0, 3)


def test_strings_end_to_end() -> None:
    flat, ptr = pack_strings(["CC", "", "Cä"])
    assert bytes(flat.tolist()) == "CCCä".encode()
    assert ptr.tolist() == [0, 2, 2, 5]
    assert pack_strings([])[1].tolist() == [0]


@pytest.mark.parametrize("columns", [0, 2])
def test_features_of_graphs_that_the_description_does_not_know(columns: int) -> None:
    data = packed_pair(graph_x=np.zeros((2, 3), int))
    with pytest.raises(ValueError, match=f"graph_x has 3 columns, expected num_graph_values = {columns}"):
        check_arrays(data.arrays, Description(num_graph_values=columns))
