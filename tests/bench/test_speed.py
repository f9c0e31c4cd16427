"""That both sides of every row do the same; never how fast."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from ogb.utils import smiles2graph
from torch_geometric.loader import DataLoader

from wlkernelnn.bench import speed
from wlkernelnn.bench.naive_wl import NaiveWLConv, naive_network
from wlkernelnn.bench.timing import torch_settings
from wlkernelnn.datasets import PackedGraphs, PackedLoader, get_features, load_molecules
from wlkernelnn.models import GraphKernelNetwork


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on more, and very slow where other processes want the same cores."""
    with torch_settings(1):
        yield


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    return load_molecules("chembl2321810", cache=False)[:60]


def test_loaders_give_the_same_batches(data: PackedGraphs) -> None:
    ours, theirs = PackedLoader(data, 16), DataLoader(speed.plain_data(data), 16)
    assert len(ours) == len(theirs) == 4
    for a, b in zip(ours, theirs, strict=True):
        for name in ("x", "edge_type", "y", "batch", "ptr"):
            assert torch.equal(a[name], b[name]), name
        assert torch.equal(a.edge_index.as_tensor(), b.edge_index)


def test_featurizers_give_the_same_codes(data: PackedGraphs) -> None:
    features = get_features("ogb")
    for graph, smiles in zip(data, data.smiles, strict=True):
        ogb = smiles2graph(smiles)
        source, target = ogb["edge_index"]
        order = np.lexsort((source, target))
        np.testing.assert_array_equal(graph.x, ogb["node_feat"])
        np.testing.assert_array_equal(graph.edge_index.as_tensor(), ogb["edge_index"][:, order])
        np.testing.assert_array_equal(features.decode_edge(graph.edge_type), ogb["edge_feat"][order])


@pytest.mark.filterwarnings("ignore:Sparse")
def test_ways_to_sum_over_neighbours_agree(data: PackedGraphs) -> None:
    ways = speed.sums(next(iter(PackedLoader(data, 20))), channels=8)
    total, gradient = ways.pop("ours")()
    assert len(ways) == 3
    for name, way in ways.items():
        other_total, other_gradient = way()
        torch.testing.assert_close(other_total, total, msg=name)
        torch.testing.assert_close(other_gradient, gradient, msg=name)


@pytest.mark.parametrize("readout", ["sum", "last"])
def test_naive_network_equals_ours(data: PackedGraphs, readout: str) -> None:
    net = GraphKernelNetwork.from_data(data, hidden_channels=12, readout=readout).double()
    naive = naive_network(net)
    assert isinstance(naive.conv, NaiveWLConv)
    batch = next(iter(PackedLoader(data, 20)))
    plain = batch.clone()
    plain.edge_index = batch.edge_index.as_tensor().clone()
    out, expected = net(batch), naive(plain)
    torch.testing.assert_close(out, expected)

    cotangent = torch.randn_like(out)
    out.backward(cotangent)
    expected.backward(cotangent)
    ours = {name: parameter.grad for name, parameter in net.named_parameters()}
    theirs = {name: parameter.grad for name, parameter in naive.named_parameters()}
    walk, relabelling = "conv.walk.", "conv.relabelling."
    names = {
        "conv.walks.0.lins.": walk + "lins.",
        "conv.walks.0.decay.lins.": walk + "gates.",
        "conv.walks.0.edge_gate.table": walk + "edge_gate.weight",
        "conv.walks.0.edge_factors.0.table": walk + "edge_factor.weight",
        "conv.edge_message.table": relabelling + "edge_message.weight",
        "conv.lin_": relabelling + "lin_",
    }
    for old, new in names.items():
        ours = {name.replace(old, new): grad for name, grad in ours.items()}
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        assert grad.abs().max() > 0, name
        torch.testing.assert_close(ours[name], grad, msg=name)


def test_naive_layer_refuses_another_readout(data: PackedGraphs) -> None:
    with pytest.raises(ValueError, match="'cat'"):
        naive_network(GraphKernelNetwork.from_data(data, hidden_channels=4, readout="cat"))


def test_a_step_trains(data: PackedGraphs) -> None:
    torch.manual_seed(0)
    net = GraphKernelNetwork.from_data(data, hidden_channels=8)
    batch = next(iter(PackedLoader(data, 60)))

    def loss() -> float:
        return torch.nn.functional.mse_loss(net(batch), batch.y).item()

    before, step = loss(), speed.training_step(net, batch)
    for _ in range(20):
        step()
    assert loss() < before


def test_main_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = warnings.filters[:]
    command = "--quick --dataset chembl2321810 --molecules 24 --threads 1 --output-dir"
    speed.main([*command.split(), str(tmp_path)])
    assert warnings.filters == before
    result = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert (result["mode"], result["molecules"], result["threads"]) == ("quick", 24, 1)
    assert result["torch"] == torch.__version__
    for row in result["rows"]:
        assert row["ours"] > 0
        assert row["theirs"] > 0
        assert 0 < row["low"] <= row["ratio"] <= row["high"]
    kinds = {row["what"].split(",")[0] for row in result["rows"]}
    assert kinds == {"loader", "store", "featurize", "neighbor_sum", "WL step (sum)", "WL step (last)"}
    text = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert "quick" in text
    assert text.count("\n| ") == len(result["rows"]) + 2
    assert "quick" in capsys.readouterr().out
