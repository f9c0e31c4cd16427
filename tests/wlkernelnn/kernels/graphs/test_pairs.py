from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from wlkernelnn.kernels import DeepGraphKernel
from wlkernelnn.kernels.graphs.pairs import pair_sides, segment_sums


def test_segment_sums() -> None:
    values = np.arange(12.0).reshape(4, 3)
    ptr = np.array([0, 0, 2, 2, 4, 4])
    expected = [np.zeros(3), values[:2].sum(0), np.zeros(3), values[2:].sum(0), np.zeros(3)]
    np.testing.assert_array_equal(segment_sums(values, ptr), expected)
    assert segment_sums(np.zeros((0, 2)), np.array([0, 0])).tolist() == [[0, 0]]


def test_edge_types_of_either_side_only_meet_nothing() -> None:
    """A type that the other side lacks adds nothing between sides, but counts on its own side."""
    edges = torch.tensor([[0], [1]])
    first, second = (Data(edge_index=edges, num_nodes=2, edge_type=torch.tensor([i])) for i in (1, 2))
    kernel = DeepGraphKernel(1, 2, 1.0, "add", "identity", normalize=True)
    a, b = pair_sides([first], [second])
    assert b is not None
    assert len(a.adjacency) == len(b.adjacency) == 2
    # Two nodes each, all alike: 4, and 1 more where the edge meets itself.
    assert kernel([first], [second])[0, 0] == pytest.approx(4 / 5)
