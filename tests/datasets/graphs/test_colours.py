from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Batch

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs import colours as module
from wlkernelnn.ops.colours import wl_colours_naive
from wlkernelnn.utils.files import read_tensors, write_tensors


def test_colours_of_all_graphs() -> None:
    """Computed once for all views, and again only where more iterations are wanted."""
    data = random_packed(20, num_edge_types=2)
    graphs = [data[i] for i in range(20)]
    batch = Batch.from_data_list(graphs)
    _, label = np.unique(batch.x.numpy(), axis=0, return_inverse=True)
    source, target = batch.edge_index.numpy()
    expected = wl_colours_naive(label.reshape(-1), source, target, 3, batch.edge_type.numpy())
    came = data[:3].colours(3)
    assert len(came) == 4
    for ours, theirs in zip(came, expected, strict=True):
        assert ours.dtype == np.uint8
        classes = len(set(ours.tolist()))
        assert (
            len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == classes == len(set(theirs.tolist()))
        )
    assert np.shares_memory(data.colours(2)[2], came[2])
    assert len(data.colours(4)) == 5


def with_colours(path: Path) -> tuple[PackedGraphs, list[np.ndarray]]:
    """A store saved with its colours, and these."""
    data = random_packed(40, num_edge_types=2)
    known = data.colours(2)
    data.save(path)
    return data, known


def never(*arguments: Any) -> Any:
    raise AssertionError("colours were made anew")


def test_colours_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, known = with_colours(tmp_path / "data.safetensors")
    mapped = PackedGraphs.load(tmp_path / "data.safetensors")
    mapped.save(tmp_path / "again.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(module, "wl_colours", never)
        for loaded in (mapped, mapped[3:5], PackedGraphs.load(tmp_path / "again.safetensors")):
            for ours, theirs in zip(loaded.colours(2), known, strict=True):
                np.testing.assert_array_equal(ours, theirs)
            # They are a part of the file: they do not travel.
            assert len(pickle.dumps(loaded)) < 1000
            pickle.loads(pickle.dumps(loaded)).colours(2)
    for ours, theirs in zip(mapped.colours(3), data.colours(3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # Those that are not in the file do.
    monkeypatch.setattr(module, "wl_colours", never)
    assert len(pickle.loads(pickle.dumps(mapped)).colours(3)) == 4


@pytest.mark.parametrize("where", ["node_type", "source", "edge_type", "claim"])
def test_colours_of_other_graphs_are_not_used(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor such of another definition: the file then claims something else as well."""
    path = tmp_path / "data.safetensors"
    with_colours(path)
    tensors, header = read_tensors(path)
    if where == "claim":
        header["colours"]["origin"] = "0" * 64
    else:
        tensors[where] = tensors[where].clone()
        tensors[where][: int(tensors["edge_ptr"][1])] = 0
    write_tensors(tmp_path / "other.safetensors", tensors, header)
    other = PackedGraphs.load(tmp_path / "other.safetensors")
    came = other.colours(2)
    assert "other.safetensors: the file's colours are not those of its graphs: made anew" in caplog.text
    expected = PackedGraphs(other.arrays).colours(2)
    for ours, theirs in zip(came, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    caplog.clear()
    assert np.shares_memory(other.colours(2)[1], came[1])
    assert not caplog.text


def test_files_without_colours(tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    path = tmp_path / "data.safetensors"
    data = random_packed(40, num_edge_types=2)
    data.save(path)
    tensors, header = read_tensors(path)
    assert header.pop("colours")["levels"] == 0
    write_tensors(path, tensors, header)
    for ours, theirs in zip(PackedGraphs.load(path).colours(2), data.colours(2), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_colours_of_too_few_nodes(tmp_path: Path) -> None:
    path = tmp_path / "data.safetensors"
    with_colours(path)
    tensors, header = read_tensors(path)
    write_tensors(tmp_path / "other.safetensors", tensors | {"colours.1": tensors["colours.1"][1:]}, header)
    with pytest.raises(ValueError, match=r"other.safetensors: .*colours\.1 has \d+ entries, expected \d+"):
        PackedGraphs.load(tmp_path / "other.safetensors")
