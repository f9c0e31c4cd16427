from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import (
    SMALL,
    assert_same_weights,
    classification_set,
    described,
    regression_set,
    small_network,
)
from wlkernelnn.datasets import PackedGraphs, PackedLoader, molecules_from
from wlkernelnn.models import GraphKernelNetwork


def outputs(net: GraphKernelNetwork, data: PackedGraphs, batch_size: int = 1000) -> Tensor:
    return torch.cat([net(batch) for batch in PackedLoader(data, batch_size)])


# Sizes and scaling


def test_sizes_and_scaling_come_from_the_data() -> None:
    data = random_packed(30, num_tasks=3)
    y = data.y.numpy().copy()
    y[:, 1] = np.nan
    y[:, 2] = 0.1
    about = {"node_dims": (7, 8, 9), "num_edge_types": 5, "task": "regression"}
    net = GraphKernelNetwork.from_data(described(data.with_targets(y), **about), **SMALL)
    assert net.encoder.dims == (7, 8, 9)
    assert net.conv.num_edge_types == 5
    assert net.config["num_tasks"] == 3
    assert net.config["hidden_channels"] == 8
    torch.testing.assert_close(net.target_mean.tolist(), [np.nanmean(y[:, 0]), 0.0, 0.1], rtol=1e-6, atol=0)
    # A task without targets, or with equal ones, has no scale.
    torch.testing.assert_close(net.target_std.tolist(), [np.nanstd(y[:, 0]), 1.0, 1.0], rtol=1e-6, atol=0)


def test_size_of_the_released_network() -> None:
    """263,376 parameters, where bonds are six columns and a flag is one."""
    data = molecules_from(["CCO", "CC"], [0.0, 1.0], features="lei", cache=False)
    release: dict[str, Any] = {"readout": "last", "share_walk_weights": True, "all_lengths": False}
    net = GraphKernelNetwork.from_data(data, hidden_channels=175, gate_scale=10.0, norm=False, **release)
    size = sum(parameter.numel() for parameter in net.parameters())
    assert net.num_edge_types is not None
    assert (size, size - (3 * (net.num_edge_types - 6) + 1) * 175) == (270_901, 263_376)


def test_scaling_sees_only_the_view_that_is_given() -> None:
    data = regression_set()
    train = data[::2]
    net = small_network(train)
    torch.testing.assert_close(net.target_mean, train.y.mean(0))
    torch.testing.assert_close(net.target_std, train.y.std(0, unbiased=False))
    assert not torch.allclose(net.target_mean, data.y.mean(0))


def test_classification_is_not_scaled() -> None:
    net = small_network(classification_set())
    assert net.task == "classification"
    assert net.target_mean.tolist() == [0.0, 0.0]
    assert net.target_std.tolist() == [1.0, 1.0]


def test_outputs_are_in_the_unit_of_the_targets() -> None:
    data = regression_set()
    net = small_network(data)
    last = net.head.lins[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-2.0)
    expected = data.y.mean() - 2 * data.y.std(unbiased=False)
    torch.testing.assert_close(outputs(net, data), expected.expand(len(data), 1))


# What it computes


@pytest.mark.parametrize(("pooling", "norm"), [("sum", True), ("mean", False)])
def test_forward_written_out(pooling: str, norm: bool) -> None:
    data = regression_set()[:5]
    net = small_network(data, pooling=pooling, norm=norm).double()
    first, last = net.head.lins
    expected = []
    for graph in data:
        h = net.encoder(graph.x).relu()
        h = net.conv(h, graph.edge_index, edge_type=graph.edge_type)
        pooled = h.sum(0) if pooling == "sum" else h.mean(0)
        if norm:
            pooled = (pooled - pooled.mean()) / (pooled.var(unbiased=False) + net.norm.eps).sqrt()
        hidden = (first.weight @ pooled + first.bias).relu()
        expected.append((last.weight @ hidden + last.bias) * net.target_std + net.target_mean)
    torch.testing.assert_close(outputs(net, data), torch.stack(expected))


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_empty_graph_in_a_batch(pooling: str) -> None:
    # The second graph has no nodes, the third no edges.
    data = described(random_packed(4), node_dims=(7, 7, 7), num_edge_types=5)
    net = small_network(data, pooling=pooling, norm=False)
    (batch,) = PackedLoader(data, 4)
    embedded = net.embed(batch)
    assert torch.equal(embedded[1], torch.zeros(8))
    assert embedded[[0, 2, 3]].abs().sum(1).gt(0).all()
    net(batch).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())
    only_empty = outputs(net, data[1:2])
    torch.testing.assert_close(only_empty, net(batch)[1:2])


def test_order_of_the_molecules_does_not_matter() -> None:
    data = regression_set()
    net = small_network(data).eval()
    order = torch.randperm(len(data))
    torch.testing.assert_close(outputs(net, data[order]), outputs(net, data)[order])


def test_order_of_the_atoms_does_not_matter() -> None:
    data = regression_set()[:20]
    net = small_network(data).eval()
    shuffled = [
        Chem.MolToSmiles(Chem.MolFromSmiles(smiles), canonical=False, doRandom=True) for smiles in data.smiles
    ]
    assert shuffled != data.smiles
    again = molecules_from(shuffled, cache=False)
    torch.testing.assert_close(outputs(net, again), outputs(net, data), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch_size", [7])
def test_batches_do_not_matter(batch_size: int) -> None:
    data = regression_set()[:20]
    net = small_network(data, dropout=0.5).eval()
    torch.testing.assert_close(outputs(net, data, batch_size), outputs(net, data))


def test_batches_of_pyg() -> None:
    data = regression_set()[:20]
    net = small_network(data).eval()
    came = torch.cat([net(batch) for batch in DataLoader(data, batch_size=6)])
    torch.testing.assert_close(came, outputs(net, data))
    one_by_one = torch.cat([net(graph) for graph in data])
    torch.testing.assert_close(one_by_one, came)
    torch.testing.assert_close(net(Batch.from_data_list([data[3], data[3]])), came[[3, 3]])


def test_compiles_without_graph_breaks() -> None:
    data = regression_set()[:20]
    net = small_network(data).eval()
    compiled = torch.compile(net, backend="eager", fullgraph=True, dynamic=True)
    for batch in PackedLoader(data, 8):
        torch.testing.assert_close(compiled(batch), net(batch))


def test_graphs_without_edge_types() -> None:
    data = described(random_packed(6), node_dims=(7, 7, 7), num_edge_types=0)
    net = small_network(data)
    assert net.conv.num_edge_types is None
    (batch,) = PackedLoader(data, 6)
    before = net(batch)
    batch.edge_type = batch.edge_type.flip(0)
    assert torch.equal(net(batch), before)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"decay": "gated"},
        {"decay": "learned", "readout": "cat", "share_walk_weights": False},
        {"decay": 0.5, "pooling": "mean", "walk_length": 3, "norm": False},
    ],
    ids=["gated", "learned", "constant"],
)
def test_gradient_reaches_every_parameter(kwargs: dict[str, Any]) -> None:
    data = regression_set()
    net = small_network(data, **kwargs)
    (outputs(net, data) - data.y).square().mean().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_dropout_is_for_training_only() -> None:
    data = regression_set()[:5]
    net = small_network(data, dropout=0.5)
    assert not torch.equal(outputs(net, data), outputs(net, data))
    net.eval()
    assert torch.equal(outputs(net, data), outputs(net, data))


def test_predict_gives_values_or_probabilities() -> None:
    for data in (regression_set(), classification_set()):
        net = small_network(data).eval()
        (batch,) = PackedLoader(data, 1000)
        out = net(batch)
        expected = out if data.task == "regression" else 1 / (1 + torch.exp(-out))
        assert net.predict(batch).shape == data.y.shape
        torch.testing.assert_close(net.predict(batch), expected)


# Configuration


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"decay": 0.3, "pooling": "mean", "norm": False, "walk_length": 3}],
    ids=["default", "other"],
)
def test_config_makes_the_same_network(kwargs: dict[str, Any]) -> None:
    data = regression_set()
    net = small_network(data, **kwargs).eval()
    again = GraphKernelNetwork(**json.loads(json.dumps(net.config)))
    assert again.config == net.config
    again.load_state_dict(net.state_dict())
    assert torch.equal(outputs(again.eval(), data), outputs(net, data))


def test_reset_parameters_draws_anew_and_keeps_the_scaling() -> None:
    data = regression_set()
    net, untouched = small_network(data), small_network(data)
    net.reset_parameters()
    assert not torch.equal(net.encoder.table.weight, untouched.encoder.table.weight)
    assert not torch.equal(net.conv.lin_self.weight, untouched.conv.lin_self.weight)
    assert not torch.equal(net.head.lins[0].weight, untouched.head.lins[0].weight)
    torch.manual_seed(5)
    net.reset_parameters()
    torch.manual_seed(5)
    untouched.reset_parameters()
    assert_same_weights(net, untouched)
    torch.testing.assert_close(net.target_mean, data.y.mean(0))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"task": "ranking"},
            "task must be one of regression, classification, multiclass, ordinal, got 'ranking'",
        ),
        ({"task": "multiclass"}, "num_tasks must be an integer of at least 2, got 1"),
        ({"pooling": "max"}, "pooling must be one of sum, mean, got 'max'"),
        ({"num_tasks": 0}, "num_tasks must be an integer of at least 1, got 0"),
        ({"hidden_channels": -1}, "hidden_channels must be an integer of at least 1, got -1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1"),
        ({"decay": 1.5}, r"decay must be a float in \[0, 1\], .* got 1.5"),
        ({"num_iterations": 0}, "num_iterations must be an integer of at least 1, got 0"),
        ({"readout": "cat", "hidden_channels": 10, "num_iterations": 4}, "10 is not divisible"),
        ({"node_dims": []}, r"codes \(node_dims\) or float features \(in_channels\), got node_dims=\[\]"),
        ({"in_channels": 4}, r"got node_dims=\[3\], in_channels=4"),
        ({"num_node_values": -1}, "num_node_values must be an integer of at least 0, got -1"),
        ({"num_graph_values": 1.5}, r"num_graph_values must be an integer of at least 0, got 1\.5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphKernelNetwork(**{"node_dims": [3], **kwargs})


def test_data_that_no_network_can_be_made_for() -> None:
    with pytest.raises(ValueError, match="'plain' has no targets"):
        GraphKernelNetwork.from_data(molecules_from(["CC"], name="plain", cache=False))
    with pytest.raises(ValueError, match="'': its description has no node_dims"):
        GraphKernelNetwork.from_data(random_packed(3))


def test_batches_without_ptr() -> None:
    """As somebody makes them by hand, or explainers do: ``batch`` says all that ``ptr`` does."""
    data = regression_set()
    net = small_network(data).eval()
    (batch,) = PackedLoader(data[:5], 5)
    by_hand = Data(x=batch.x, edge_index=batch.edge_index, edge_type=batch.edge_type, batch=batch.batch)
    torch.testing.assert_close(net(by_hand), net(batch))
    assert "ptr" not in by_hand
    by_hand.batch = by_hand.batch.flip(0)
    with pytest.raises(ValueError, match=r"batch\.batch must not decrease"):
        net(by_hand)


@pytest.mark.parametrize("quotient", ["auto", False], ids=str)
def test_batches_without_edge_types(quotient: bool | str) -> None:
    data = regression_set()
    net = small_network(data, quotient=quotient)
    (batch,) = PackedLoader(data[:5], 5)
    bare = Data(x=batch.x, edge_index=batch.edge_index, batch=batch.batch)
    types = net.num_edge_types
    with pytest.raises(ValueError, match=rf"edge_type .*={types}\) .* got batch, edge_index, x"):
        net(bare)


@pytest.mark.parametrize("quotient", ["auto", False], ids=str)
def test_graphs_without_edges_need_no_edge_types(quotient: bool | str) -> None:
    net = GraphKernelNetwork([3, 4], num_edge_types=5, hidden_channels=8, quotient=quotient)
    x, edge_index = torch.tensor([[0, 1], [2, 3]]), torch.zeros(2, 0, dtype=torch.int64)
    batch = Data(x=x, edge_index=edge_index)
    out = net(batch)
    assert torch.equal(out, net(Data(x=x, edge_index=edge_index, edge_type=edge_index[0])))
    assert "edge_type" not in batch


@pytest.mark.parametrize("missing", ["x", "edge_index", "graph_x"])
def test_what_is_missing_in_a_batch_is_named(missing: str) -> None:
    net = GraphKernelNetwork([3], hidden_channels=8, num_graph_values=2)
    batch = Data(
        x=torch.zeros(2, 1, dtype=torch.int64), edge_index=torch.tensor([[0], [1]]), graph_x=torch.ones(1, 2)
    )
    assert net(batch).shape == (1, 1)
    del batch[missing]
    there = ", ".join(sorted(batch.keys()))
    expected = rf"expected {missing} \[.*\] .*in the batch; got {there}; batches of graphs of PyG come from"
    with pytest.raises(ValueError, match=expected):
        net(batch)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_batches_of_pyg_are_refused_with_what_to_do(dtype: torch.dtype) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.tensor([0, i], dtype=dtype), edge_index=edges, y=i * 0.5) for i in range(3)]
    net = GraphKernelNetwork.from_data(graphs, hidden_channels=8)
    hint = r'; batches of graphs of PyG come from PackedLoader\(net.packed\("graphs", graphs\)\)$'
    with pytest.raises(ValueError, match=rf"expected .* of shape \[N, 1\], got \[6\]{hint}"):
        net(next(iter(DataLoader(graphs, 3))))
    with pytest.raises(ValueError, match=r"got \[2, 4\]$"):
        net(Data(x=torch.zeros(2, 4, dtype=dtype), edge_index=edges))
    assert net(next(iter(PackedLoader(net.packed("graphs", graphs))))).shape == (3, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"edge_index": torch.zeros(3, 2, dtype=torch.int64)},
            r"edge_index must hold .* of shape \[2, E\]",
        ),
        ({"edge_index": torch.zeros(2, 4)}, r"edge_index must hold integers .* got torch\.float32"),
        ({"edge_index": torch.zeros(2, 4, dtype=torch.bool)}, r"got torch\.bool"),
        ({"edge_type": torch.zeros(8, dtype=torch.int64)}, r"edge_type has shape \[8\], expected .* \(4\)"),
        ({"edge_type": torch.zeros(2, dtype=torch.int64)}, r"edge_type has shape \[2\], expected .* \(4\)"),
        ({"edge_type": torch.zeros(4)}, r"edge_type: integers of shape \[E\], got torch\.float32 \[4\]"),
    ],
)
def test_edges_that_do_not_fit(changed: dict[str, Tensor], message: str) -> None:
    for quotient in ("auto", False):
        net = GraphKernelNetwork([3, 3], 4, hidden_channels=8, quotient=quotient)
        batch = Data(
            x=torch.tensor([[0, 1], [2, 0], [1, 1], [0, 0]]),
            edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
            edge_type=torch.arange(4),
        )
        assert net(batch).isfinite().all()
        with pytest.raises(ValueError, match=message):
            net(batch.update(changed))


@pytest.mark.parametrize("shape", [(2,), (1, 3), (2, 2)])
def test_values_of_whole_graphs_that_do_not_fit(shape: tuple[int, ...]) -> None:
    net = GraphKernelNetwork([3], hidden_channels=8, num_graph_values=2)
    batch = Data(x=torch.zeros(2, 1).long(), edge_index=torch.tensor([[0], [1]]), graph_x=torch.ones(shape))
    with pytest.raises(ValueError, match=r"expected graph_x of shape \[1, 2\], got"):
        net(batch)


def test_batches_with_ptr_alone() -> None:
    data = regression_set()
    net = GraphKernelNetwork.from_data(data, hidden_channels=8)
    (batch,) = PackedLoader(data[:5], 5)
    expected = net(batch)
    del batch["batch"]
    torch.testing.assert_close(net(batch), expected)


def test_descriptors_are_scaled_by_the_graphs_in_view() -> None:
    smiles = ["CCO", "CCCCN", "c1ccccc1", "CC(=O)O"]
    data = molecules_from(smiles, [0.0, 1.5, 2.0, 3.0], features="ogb+rdkit", cache=False)
    encoder = GraphKernelNetwork.from_data(data[:2], hidden_channels=4).fingerprint
    expected = data.arrays.graph_x[:2].double().asinh().mean(0).float()
    torch.testing.assert_close(encoder.mean, expected)


@pytest.mark.parametrize("number", [3, 6, 7, 10])
def test_equal_targets_of_double_precision_have_no_scale(number: int) -> None:
    """Their mean is rounded."""
    net = GraphKernelNetwork([3], hidden_channels=4)
    net.scale_targets(torch.full((number, 1), 0.1, dtype=torch.float64))
    assert net.target_std.tolist() == [1.0]
