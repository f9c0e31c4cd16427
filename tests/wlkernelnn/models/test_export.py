"""Exported files, run on molecules that are not those of the export, against the networks themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.inputs.molecules import regression_set, small_network
from wlkernelnn import __version__
from wlkernelnn.datasets import PackedGraphs, PackedLoader, featurize
from wlkernelnn.models import (
    ExportableNetwork,
    GraphKernelNetwork,
    KernelStackNetwork,
    export_inputs,
    export_network,
)

#: None has a size of the example; one has an atom alone, and another no bond at all.
BATCHES = [["CCO", "C", "[Na+].[Cl-]", "c1ccccc1C(=O)N"], ["CC(C)O"], ["C"]]
FEATURES = "ogb+morgan"


def graphs(smiles: list[str], features: str) -> PackedGraphs:
    return featurize(smiles, features=features, num_workers=0)[0]


@pytest.fixture
def network() -> KernelStackNetwork:
    """With everything that a network may have, for classes."""
    sizes: dict[str, Any] = {"num_graph_values": 2048, "num_tasks": 2, "task": "classification"}
    more = {"hidden_channels": 8, "num_layers": 2, "pooling": "mean", "virtual_node": True, "dropout": 0.5}
    about = graphs(["C"], "ogb").description
    return KernelStackNetwork(about.node_dims, about.num_edge_types, **sizes, **more)


def test_new_molecules_in_onnx(network: KernelStackNetwork, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "new folder" / "model.onnx"
    names = export_network(network, path, graphs(["CCO", "CN", "CC"], FEATURES), {"unit": "mg/L"})
    assert network.training  # it stays as it is
    session = onnxruntime.InferenceSession(str(path))
    about = json.loads(session.get_modelmeta().custom_metadata_map["about.json"])
    assert about == {"wlkernelnn": __version__, "inputs": names, "unit": "mg/L"}
    for smiles in BATCHES:
        batch = next(iter(PackedLoader(graphs(smiles, FEATURES), len(smiles))))
        inputs = export_inputs(batch)
        assert [*inputs] == names
        (out,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(out), network.eval().predict(batch))


def test_gradients_of_an_exported_network() -> None:
    """As of the network, which goes by colours."""
    net = small_network(regression_set())
    batch = next(iter(PackedLoader(regression_set(), 5)))
    inputs = export_inputs(batch)
    module = torch.export.export(ExportableNetwork([net]), (), inputs, strict=False).module()
    module(**inputs).square().sum().backward()
    net.zero_grad()
    net(batch).square().sum().backward()
    found = {name: weight.grad for name, weight in module.named_parameters()}
    for name, weight in net.named_parameters():
        torch.testing.assert_close(found[f"networks.0.{name}"], weight.grad, rtol=1e-4, atol=1e-4)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"networks: expected a network of this package, .*, got Linear"):
        export_network(torch.nn.Linear(1, 1), tmp_path / "n.pt2", [])  # type: ignore[arg-type]
    net, data = GraphKernelNetwork([4], hidden_channels=8), graphs(["C", "CC"], "ogb")
    with pytest.raises(ValueError, match=r"expected a name in \.pt2 or \.onnx, got .*model\.pt$"):
        export_network(net, tmp_path / "model.pt", data)
    with pytest.raises(ValueError, match="at least 2 graphs, got 1"):
        export_network(net, tmp_path / "model.pt2", data[:1])
    with pytest.raises(ValueError, match=r"expected codes of shape \[N, 1\], got \[3, 9\]"):
        export_network(net, tmp_path / "model.pt2", data)
    assert not [*tmp_path.iterdir()]
