"""Networks of graphs whose nodes have float features."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from wlkernelnn.datasets import Description, PackedGraphs, PackedLoader
from wlkernelnn.models import ColourCache, FeatureEncoder, GraphKernelNetwork, KernelStackNetwork
from wlkernelnn.training import predict

NETWORKS: Any = [GraphKernelNetwork, KernelStackNetwork]


def graphs(distinct: int | None) -> PackedGraphs:
    """Eight rings of five nodes with ``distinct`` different rows of three features (``None``: all differ)."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(distinct or 40, 3)).astype(np.float32)
    ring = np.array([[1, 4, 0, 2, 1, 3, 2, 4, 3, 0], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]])
    return PackedGraphs.pack(
        rows if distinct is None else rows[rng.integers(0, distinct, 40)],
        np.tile(ring, 8),
        np.arange(0, 41, 5),
        np.arange(0, 81, 10),
        y=rng.normal(size=8),
        description=Description(num_node_features=3, task="regression"),
    )


@pytest.mark.parametrize("kind", NETWORKS)
def test_colours_of_features_change_nothing(kind: Any) -> None:
    data = graphs(3)
    net = kind.from_data(data, hidden_channels=8)
    given = next(iter(PackedLoader(data, 8, quotient=net.quotient_depth)))
    made = Batch.from_data_list([*data])
    results = []
    for quotient, batch in (("auto", given), ("auto", made), (False, made)):
        net.quotient = quotient
        net.zero_grad()
        out = net(batch)
        out.square().sum().backward()
        results.append((out, *(weight.grad for weight in net.parameters() if weight.grad is not None)))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        net.quotient = "auto"
        torch.testing.assert_close(net.eval()(given, ColourCache()), results[0][0])
        np.testing.assert_allclose(predict(net, data), results[0][0].detach(), atol=1e-5)


def test_networks_go_by_nodes_where_features_hardly_repeat(caplog: pytest.LogCaptureFixture) -> None:
    few, all_differ = graphs(3), graphs(None)
    net = GraphKernelNetwork.from_data(few, hidden_channels=8)
    assert net.depth_for(few) == net.quotient_depth == 4
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        assert net.depth_for(all_differ) is None
    assert "computes every node, not every colour once: 40 nodes have 40 different rows" in caplog.text
    with caplog.at_level(logging.DEBUG, "wlkernelnn"):
        net(Batch.from_data_list([*all_differ]))
    assert "the features of its nodes are mostly distinct" in caplog.text
    always = GraphKernelNetwork.from_data(few, hidden_channels=8, quotient=True)
    always.load_state_dict(net.state_dict())
    assert always.depth_for(all_differ) == 4
    np.testing.assert_allclose(predict(always, all_differ), predict(net, all_differ), atol=1e-5)


def test_each_node_has_a_gradient_of_its_own() -> None:
    data = graphs(1)
    net = GraphKernelNetwork.from_data(data, hidden_channels=8)
    batch = Batch.from_data_list([*data])
    batch.x.requires_grad_()
    (gradient,) = torch.autograd.grad(net(batch).sum(), batch.x)
    torch.testing.assert_close(gradient, gradient[:1].expand(40, 3), atol=1e-5, rtol=1e-4)


def test_features_beyond_one_are_standardised() -> None:
    encoder = FeatureEncoder(3, 2)
    rows = torch.tensor([[0.0, 100.0, 7.0], [1.0, 300.0, 7.0], [0.5, 1e6, 7.0]])
    encoder.scale(rows, torch.tensor([1, 3, 0]))
    assert encoder.mean.tolist() == [0.0, 250.0, 0.0]
    torch.testing.assert_close(encoder.std, torch.tensor([1.0, 7500.0**0.5, 1.0]))
    torch.testing.assert_close(encoder(rows), encoder.lin((rows - encoder.mean) / encoder.std))
    net = GraphKernelNetwork.from_data(graphs(3)[:1], hidden_channels=4)
    assert (net.encoder.std != 1).any()  # the columns that go beyond −1 … 1 in this graph


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.long), r"expected x of floats \(in_channels=3\), got torch.int64"),
        (torch.zeros(2, 4), r"expected features of shape \[N, 3\], got \[2, 4\]"),
    ],
)
@pytest.mark.parametrize("quotient", ["auto", False])
def test_features_that_are_refused(x: torch.Tensor, message: str, quotient: Any) -> None:
    net = GraphKernelNetwork(in_channels=3, hidden_channels=4, quotient=quotient)
    with pytest.raises(ValueError, match=message):
        net(Data(x=x, edge_index=torch.tensor([[0, 1], [1, 0]])))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((40, 2), np.float32), r"x must be \[ΣV, num_node_features = 3\], got shape \[40, 2\]"),
        (np.full((40, 3), np.nan), r"x\[0, 0\] is nan, expected a number that a float32 holds"),
    ],
)
def test_features_that_a_store_refuses(x: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedGraphs.pack(
            x, np.zeros((2, 0), int), [0, 40], [0, 0], description=Description(num_node_features=3)
        )
