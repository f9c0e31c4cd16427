from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from wlkernelnn.kernels import PathKernel, ShortestPathKernel, StructureKernel, WLSubtreeKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.labels import node_labels


def graph(dtype: torch.dtype) -> Data:
    values = torch.tensor([[0.1], [0.2]], dtype=dtype)
    edges = torch.tensor([[0, 1], [1, 0]])
    return Data(x=values, edge_index=edges, edge_attr=values, edge_weight=values[:, 0])


@pytest.mark.parametrize("kernel", [WLSubtreeKernel(1), ShortestPathKernel(), PathKernel(2)], ids=str)
def test_equal_numbers_of_two_dtypes_are_equal(kernel: StructureKernel) -> None:
    single, double = [graph(torch.float32)], [graph(torch.float64)]
    expected = kernel(single)
    assert expected[0, 0] > 0
    assert kernel(single, double) == kernel(double) == expected
    assert (kernel(single + double) == expected).all()


def test_whole_numbers_are_compared_exactly() -> None:
    x = torch.tensor([[2.0**24], [2.0**24 + 1], [1e300], [2e300]], dtype=torch.float64)
    graphs = flat_graphs([Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))])
    assert np.unique(node_labels(graphs)).size == 4
