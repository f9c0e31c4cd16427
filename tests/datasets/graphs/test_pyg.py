from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv, GraphUNet, LGConv, SAGEConv

from wlkernelnn.datasets import PackedLoader, featurize, sorted_edge_index
from wlkernelnn.datasets.graphs.pyg import own_quotient


def test_sorted_edge_index_knows_its_pointers_and_the_size_where_edges_do_not() -> None:
    both = sorted_edge_index(torch.tensor([[1, 0], [0, 1]]), torch.tensor([0, 1, 2]), is_undirected=True)
    assert both.sparse_size() == (None, None)  # torch.compile would compile once per size
    both.validate()
    assert both.is_undirected
    assert both.is_sorted_by_col
    assert sorted_edge_index(torch.tensor([[1, 0], [0, 1]]), both._indptr, sized=True).sparse_size() == (2, 2)
    for edges, indptr in (
        ([[2, 0], [0, 1]], [0, 1, 2, 2]),  # nothing leads to the last node
        ([[0, 1], [1, 2]], [0, 0, 1, 2]),  # or from it
        ([[], []], [0, 0]),
        ([[], []], [0]),
    ):
        edge_index = sorted_edge_index(torch.tensor(edges, dtype=torch.long), torch.tensor(indptr))
        edge_index.validate()
        size = len(indptr) - 1
        assert edge_index.sparse_size() == (size, size)


@pytest.mark.filterwarnings("ignore:Sparse (invariant checks|CSC tensor support)")  # PyG's
@pytest.mark.parametrize(
    ("smiles", "layer"),
    [
        (["CCO", "CC(=O)[O-].[K+]"], GraphConv(8, 4)),
        (["[K+]", "C", "CC"], SAGEConv(8, 4)),
        (["[K+]", "C", "CC"], LGConv()),
    ],
)
def test_layers_of_pyg_see_atoms_without_bonds(smiles: list[str], layer: torch.nn.Module) -> None:
    data, _ = featurize(smiles)
    batch = next(iter(PackedLoader(data, len(smiles))))
    x = torch.randn(batch.num_nodes, 8)
    expected = layer(x, batch.edge_index.as_tensor())
    torch.testing.assert_close(layer(x, batch.edge_index), expected)
    torch.testing.assert_close(layer(x, batch.edge_index), expected)  # also with what it then knows


def test_poolings_of_pyg_take_plain_edges() -> None:
    batch = next(iter(PackedLoader(featurize(["CCO", "c1ccccc1O"])[0], 2)))
    network = GraphUNet(9, 4, 4, depth=2)
    assert network(batch.x.float(), batch.edge_index.as_tensor(), batch.batch).shape == (10, 4)


def test_a_batch_and_its_quotient_belong_together_on_another_device() -> None:
    data, _ = featurize(["CCO", "c1ccccc1", "CC(=O)O"])

    def batch() -> Data:
        return next(iter(PackedLoader(data, 3, quotient=2)))

    for device in ("cpu", "meta"):
        moved = batch().to(device)
        assert moved.x.device.type == moved.quotient.node.device.type == device
        assert own_quotient(moved) is moved.quotient
        moved.edge_type = moved.edge_type.clone()
        assert own_quotient(moved) is None
    assert own_quotient(copy.copy(batch())) is not None
    assert own_quotient(batch().clone()) is None
    assert own_quotient(batch().apply(lambda value: value + 1)) is None


def test_a_batch_that_was_changed_stays_so_on_another_device() -> None:
    data, _ = featurize(["CCO", "c1ccccc1", "CC(=O)O"])
    (batch,) = PackedLoader(data, 3, quotient=2)
    batch.x[0, 0] += 1
    assert own_quotient(batch) is None
    assert own_quotient(batch.to("meta")) is None
