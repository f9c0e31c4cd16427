"""What the packed store takes of plain arrays, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.inputs.graphs import packed_pair
from wlkernelnn.datasets import Description, PackedLoader


@pytest.mark.parametrize(
    ("edge_index", "expected"),
    [
        ([[0, 1], [1, 0]], True),
        ([[0, 0], [1, 1]], False),
        ([[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]], True),
        ([[0, 1, 0], [1, 0, 1]], False),
    ],
    ids=["both_ways", "one_way_twice", "multi_edges_and_a_loop", "twice_and_once"],
)
def test_pack_finds_out_whether_edges_go_both_ways(edge_index: list[list[int]], expected: bool) -> None:
    data = packed_pair(edge_index=np.array(edge_index), edge_ptr=[0, len(edge_index[0]), len(edge_index[0])])
    assert data.description.is_undirected is expected
    batch = next(iter(PackedLoader(data)))
    assert bool(batch.edge_index.is_undirected) is expected
    batch.edge_index.validate()


def test_equal_rows_of_codes_are_stored_once() -> None:
    data = packed_pair()
    assert data.arrays.node_table.tolist() == [[1, 2], [3, 4]]
    assert data.arrays.node_type.tolist() == [0, 1, 0]


def test_missing_targets_stay_missing() -> None:
    data = packed_pair(y=np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert data.y.dtype == torch.float32
    assert data.y.isnan().tolist() == [[False, True], [True, False]]
    assert data[1].y.isnan().tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": np.array([[0, 1], [7, 0]])}, "of a graph with"),
        ({"row": [0, 1, 2]}, "row has 3 entries, expected 2"),
        ({"y": np.zeros(3)}, r"y must be \[2\] or \[2, tasks\], .* got shape \[3\]"),
        ({"y": 0.0}, r"y must be .* got shape \[\]"),
        (
            {"y": [[0.0, np.nan], [1e300, 1.0]]},
            r"y must hold numbers that a float32 .* got 1e\+300 for graph 1",
        ),
        ({"y": [0.0, -np.inf]}, "y must hold .* got -inf for graph 1"),
        (
            {"y": [[0.0, 1.0], [np.nan, 2.0]], "description": Description(task="classification")},
            "targets of a classification must be 0, 1 or NaN, got 2 for graph 1",
        ),
        ({"node_ptr": [0, 4, 3]}, "node_ptr must begin with 0 and never decrease"),
        ({"node_ptr": []}, "node_ptr must begin with 0"),
        ({"edge_ptr": [[0, 2, 2]]}, r"edge_ptr must be \[G\+1\], got shape \[1, 3\]"),
        ({"x": np.zeros(3, int)}, r"x must be \[ΣV, F\], got shape \[3\]"),
        ({"edge_index": np.zeros((3, 2), int)}, r"edge_index must be \[2, ΣE\], got shape \[3, 2\]"),
        ({"split_idx": {"train": [9]}}, r"split_idx\['train'\] must hold positions from 0 to 1, got int64 9"),
        (
            {"split_idx": {"train": [0], "test": [-1, 0]}},
            r"\['test'\] must hold .* got int64 -1 … 0",
        ),
        ({"split_idx": {"train": [True, False]}}, "must hold positions from 0 to 1, got bool"),
        ({"description": Description(node_dims=(9,))}, "x has 2 columns, expected 1 of node_dims and 0 of"),
        (
            {"description": Description(node_dims=(4, 4))},
            r"x\[1, 1\] is 4, expected at most 3 by the description",
        ),
        (
            {
                "description": Description(node_dims=(4,), num_node_values=1),
                "x": [[0, 255], [1, 0], [2, 256]],
            },
            r"x\[2, 1\] is 256, expected at most 255",
        ),
        (
            {"description": Description(num_edge_types=2), "edge_type": [1, 2]},
            r"edge_type\[1\] is 2, expected less than num_edge_types = 2",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_arrays_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packed_pair(**changes)


def test_what_fits_the_description() -> None:
    about = Description(node_dims=(4, 5), num_edge_types=2)
    split_idx = {"train": np.array([1, 0]), "test": np.zeros(0)}
    data = packed_pair(description=about, edge_type=[1, 0], split_idx=split_idx)
    assert (data.description.node_dims, data.description.num_edge_types) == ((4, 5), 2)
    assert data.split_idx is split_idx
    values = packed_pair(
        description=Description(node_dims=(4,), num_node_values=1), x=[[3, 255], [0, 0], [1, 2]]
    )
    assert values[0].x.tolist() == [[3, 255], [0, 0]]


UNPACKABLE: dict[str, dict[str, Any]] = {
    "negative_code": {"x": np.array([[-1, 2], [3, 4], [1, 2]])},
    "fractional_code": {"x": np.array([[0.5, 2], [3, 4], [1, 2]])},
    "source_of_no_node": {"edge_index": np.array([[0, 5], [1, 0]])},
    "negative_source": {"edge_index": np.array([[0, -1], [1, 0]])},
    "target_in_the_next_graph": {"edge_index": np.array([[0, 1], [2, 0]])},
    "negative_type": {"edge_type": np.array([0, -1])},
    "fractional_type": {"edge_type": np.array([0.0, 0.5])},
    "too_few_types": {"edge_type": np.array([0])},
    "too_few_pointers": {"edge_ptr": [0, 2]},
    "too_few_smiles": {"smiles": ["C"]},
    "too_many_features": {"graph_x": np.zeros((3, 4), int)},
    "features_in_no_columns": {"graph_x": np.zeros(2, int)},
    "features_beyond_a_byte": {"graph_x": np.full((2, 4), 256)},
    "negative_features": {"graph_x": np.full((2, 4), -1)},
    "missing_features": {"graph_x": np.full((2, 4), np.nan)},
    "features_beyond_a_float32": {"graph_x": np.full((2, 4), 1e39)},
}


@pytest.mark.parametrize("changes", UNPACKABLE.values(), ids=UNPACKABLE)
def test_values_that_cannot_be_packed(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="PackedGraphs"):
        packed_pair(**changes)


def test_features_of_graphs_that_float32_cannot_tell_apart() -> None:
    graph_x = 1e9 + np.arange(4.0).reshape(2, 2)
    with pytest.raises(ValueError, match=r"graph_x\[:, 0\]: a float32 cannot tell .* subtract a constant"):
        packed_pair(graph_x=graph_x)
