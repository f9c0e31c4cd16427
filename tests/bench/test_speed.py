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
from wlkernelnn.bench.timing import torch_settings
from wlkernelnn.datasets import PackedGraphs, PackedLoader, get_features, load_molecules


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
    assert kinds == {"loader", "store", "featurize", "neighbor_sum"}
    text = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert "quick" in text
    assert text.count("\n| ") == len(result["rows"]) + 2
    assert "quick" in capsys.readouterr().out
