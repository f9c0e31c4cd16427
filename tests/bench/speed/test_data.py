"""That both sides of every row do the same; never how fast."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ogb.utils import smiles2graph
from torch_geometric.loader import DataLoader

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.speed import data as speed_data
from wlkernelnn.bench.speed.contestants import plain_data
from wlkernelnn.datasets import PackedGraphs, PackedLoader, get_features


@pytest.fixture
def data() -> PackedGraphs:
    return regression_set()


def test_loaders_give_the_same_batches(data: PackedGraphs) -> None:
    ours, theirs = PackedLoader(data, 16), DataLoader(plain_data(data), 16)
    assert len(ours) == len(theirs) == 4
    for a, b in zip(ours, theirs, strict=True):
        for name in ("x", "edge_type", "y", "batch", "ptr"):
            assert torch.equal(a[name], b[name]), name
        assert torch.equal(a.edge_index, b.edge_index)


def test_featurizers_give_the_same_codes(data: PackedGraphs) -> None:
    features = get_features("ogb")
    for graph, smiles in zip(data, data.smiles, strict=True):
        ogb = smiles2graph(smiles)
        source, target = ogb["edge_index"]
        order = np.lexsort((source, target))
        np.testing.assert_array_equal(graph.x, ogb["node_feat"])
        np.testing.assert_array_equal(graph.edge_index, ogb["edge_index"][:, order])
        np.testing.assert_array_equal(features.decode_edge(graph.edge_type), ogb["edge_feat"][order])


@pytest.mark.filterwarnings("ignore:Sparse")
def test_ways_to_sum_over_neighbours_agree(data: PackedGraphs) -> None:
    ways = speed_data.sums(next(iter(PackedLoader(data, 20))), channels=8)
    total, gradient = ways.pop("ours")()
    assert len(ways) == 3
    for name, way in ways.items():
        other_total, other_gradient = way()
        torch.testing.assert_close(other_total, total, msg=name)
        torch.testing.assert_close(other_gradient, gradient, msg=name)
