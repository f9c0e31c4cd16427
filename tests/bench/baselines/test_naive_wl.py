from __future__ import annotations

import pytest
import torch

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines.naive_wl import NaiveWLConv, naive_network
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    return regression_set()


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
