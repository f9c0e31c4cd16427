"""Saving, loading and copying a packed store."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.inputs.graphs import assert_equal_data, assert_same_arrays, packed_pair, random_packed
from wlkernelnn.datasets import Description, PackedGraphs, Reject
from wlkernelnn.datasets.graphs.pyg import ItemOf, item_of
from wlkernelnn.utils.files import read_tensors, write_tensors


def test_saved_store_comes_back(data: PackedGraphs, tmp_path: Path) -> None:
    description = Description("set", "ogb", (7, 7, 7), 5, "regression", "rmse", ("a", "b"), "mol/L")
    split_idx = {"train": np.array([3, 1]), "valid": np.array([], dtype=np.int64), "test": np.array([0])}
    stored = PackedGraphs(
        data.arrays, description, split_idx, [Reject(4, "C(", "unclosed"), Reject(9, None, "")]
    )
    stored.save(tmp_path / "data.safetensors")
    loaded = PackedGraphs.load(tmp_path / "data.safetensors")
    assert loaded.description == description
    assert loaded.rejects == stored.rejects
    assert loaded.split_idx is not None
    assert {name: index.tolist() for name, index in loaded.split_idx.items()} == {
        "train": [3, 1],
        "valid": [],
        "test": [0],
    }
    assert_same_arrays(loaded, data)
    for came, expected in zip(loaded, stored, strict=True):
        assert item_of(came) == ItemOf("ogb", 3, (), (7, 7, 7), 0, 5, "regression")
        assert_equal_data(came, expected)


def test_features_of_graphs_are_saved(tmp_path: Path) -> None:
    graph_x = np.array([[0, 255, 3], [1, 0, 0]])
    data = packed_pair(graph_x=graph_x, description=Description(num_node_values=1))
    data.save(tmp_path / "data.safetensors")
    loaded = PackedGraphs.load(tmp_path / "data.safetensors")
    assert loaded.description == data.description
    assert loaded.description.num_node_values == 1
    for came in (loaded, pickle.loads(pickle.dumps(loaded)), pickle.loads(pickle.dumps(data))):
        assert came.arrays.graph_x.tolist() == graph_x.tolist()
        assert came[::-1][0].graph_x.tolist() == [[1, 0, 0]]


def test_files_without_features_of_graphs(data: PackedGraphs, tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    path = tmp_path / "data.safetensors"
    data.save(path)
    tensors, header = read_tensors(path)
    del (
        tensors["graph_x"],
        header["description"]["num_node_values"],
        header["description"]["num_graph_values"],
    )
    write_tensors(tmp_path / "old.safetensors", tensors, header)
    loaded = PackedGraphs.load(tmp_path / "old.safetensors")
    assert loaded.description == data.description
    for came, expected in zip(loaded, data, strict=True):
        assert_equal_data(came, expected)


@pytest.mark.parametrize("part", [0, 0.99], ids=lambda part: f"{part:.0%}")
def test_truncated_file(data: PackedGraphs, tmp_path: Path, part: float) -> None:
    path = tmp_path / "cut.safetensors"
    data.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ValueError, match=r"cut\.safetensors: not a whole safetensors file .*cut short"):
        PackedGraphs.load(path)


def test_file_of_something_else(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", {"w": torch.ones(1)}, {"format": "model/1"})
    with pytest.raises(ValueError, match=r"model\.safetensors: expected .*PackedGraphs/1, got 'model/1'"):
        PackedGraphs.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("view", [lambda data: data, lambda data: data[3:6]], ids=["whole", "view"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_copies_hold_the_same_graphs(
    any_data: PackedGraphs,
    copied: Callable[[PackedGraphs], PackedGraphs],
    view: Callable[[PackedGraphs], PackedGraphs],
) -> None:
    original = view(any_data)
    other = copied(original)
    assert len(other) == len(original)
    for came, expected in zip(other, original, strict=True):
        assert_equal_data(came, expected)


def test_mapped_store_travels_as_its_path(tmp_path: Path) -> None:
    data = random_packed(500)
    data.save(tmp_path / "data.safetensors")
    mapped = PackedGraphs.load(tmp_path / "data.safetensors")
    assert len(pickle.dumps(mapped)) < 1000 < data.nbytes < len(pickle.dumps(data))
    assert len(pickle.dumps(mapped[:10])) < 1000


def test_a_store_whose_file_was_replaced(tmp_path: Path) -> None:
    """It still has its graphs, and so have its copies; another process would see others."""
    path = tmp_path / "data.safetensors"
    packed_pair(y=[1.0, 2.0]).save(path)
    mapped = PackedGraphs.load(path)
    pickled = pickle.dumps(mapped)
    packed_pair(y=[3.0, 4.0], row=[7, 8]).save(path)
    assert copy.copy(mapped).y.flatten().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="another file than the one that was opened: load it anew"):
        pickle.loads(pickled)
