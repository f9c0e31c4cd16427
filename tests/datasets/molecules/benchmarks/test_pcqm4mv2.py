from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from wlkernelnn.datasets import load_molecules, load_ogb
from wlkernelnn.datasets.molecules.benchmarks.pcqm4mv2 import PARTS, read_split

SMILES = ["CCO", "c1ccccc1O", "C", "C/C=C/Cl", "CC#N", "O=C=O", "CN", "CO"]
SPLIT = {"train": [5, 0, 2], "valid": [1], "test-dev": [7, 3], "test-challenge": [4, 6]}
GAPS = [1.0, 2.0, 3.0, np.nan, np.nan, 5.5, np.nan, np.nan]


def arrays(split: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {part: np.array(rows, dtype=np.int64) for part, rows in split.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pcqm4m-v2"
    (path / "raw").mkdir(parents=True)
    table = pd.DataFrame({"idx": range(8), "smiles": SMILES, "homolumogap": GAPS})
    table.to_csv(path / "raw" / "data.csv.gz", index=False)
    torch.save(arrays(SPLIT), path / "split_dict.pt")
    return path


def test_molecules_targets_and_parts(folder: Path) -> None:
    for _ in range(2):  # the second time from the cache
        data = load_ogb("PCQM4Mv2", folder.parent)
        assert data.smiles == SMILES
        assert np.array_equal(data.y[:, 0].numpy(), GAPS, equal_nan=True)
        assert (data.task, data.metric, data.description.unit) == ("regression", "mae", "eV")
        assert {part: rows.tolist() for part, rows in (data.split_idx or {}).items()} == SPLIT
        ours = load_molecules(SMILES, cache=False)
        assert all(torch.equal(one.x, other.x) for one, other in zip(data, ours, strict=True))
        assert data.description.node_dims == ours.description.node_dims


def test_a_molecule_that_is_none_shifts_no_other(folder: Path) -> None:
    path = folder / "raw" / "data.csv.gz"
    table = pd.read_csv(path)
    table.loc[2, "smiles"] = "C(C)(C)(C)(C)C"
    table.to_csv(path, index=False)
    data = load_ogb("pcqm4mv2", folder.parent)
    assert [reject.row for reject in data.rejects] == [2]
    assert data.split_idx is not None
    assert data[data.split_idx["train"]].smiles == [SMILES[5], SMILES[0]]
    assert data[data.split_idx["test-dev"]].row.tolist() == SPLIT["test-dev"]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("tensors", [False, True])
def test_forms_of_the_split(tmp_path: Path, legacy: bool, tensors: bool) -> None:
    split = arrays(SPLIT)
    content = {part: torch.from_numpy(rows) if tensors else rows for part, rows in split.items()}
    torch.save(content, tmp_path / "split_dict.pt", _use_new_zipfile_serialization=not legacy)
    for part, rows in read_split(tmp_path).items():
        assert np.array_equal(rows, split[part])


def test_the_split_of_another_numpy(tmp_path: Path) -> None:
    path = tmp_path / "split_dict.pt"
    torch.save(arrays(SPLIT), path, _use_new_zipfile_serialization=False)
    here, there = b"numpy._core.multiarray", b"numpy.core.multiarray"
    content = path.read_bytes()
    if here not in content:
        here, there = there, here
    path.write_bytes(content.replace(here, there))
    assert read_split(tmp_path)["train"].tolist() == SPLIT["train"]


class Command:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (arrays(SPLIT) | {"train": Command()}, "something else"),
        (arrays(SPLIT) | {"train": np.array([Command()], dtype=object)}, "something else"),
        ({"train": np.arange(3)}, "got 'train'"),
        ([1, 2], "got list"),
        (arrays(SPLIT) | {"train": torch.rand(3)}, r"train is float32 \(3,\)"),
    ],
)
def test_anything_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, "split_dict.pt")
    expected = f"integer arrays called {', '.join(PARTS)}.*{reason}"
    with pytest.raises(ValueError, match=expected):
        read_split(tmp_path)
    assert not Path("unpickled").exists()


def test_a_damaged_split(tmp_path: Path) -> None:
    torch.save(arrays(SPLIT), tmp_path / "split_dict.pt")
    content = (tmp_path / "split_dict.pt").read_bytes()
    for size in (0, 10, len(content) // 2):
        (tmp_path / "split_dict.pt").write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"split_dict\.pt: expected a dictionary of integer arrays"):
            read_split(tmp_path)
    (tmp_path / "split_dict.pt").unlink()
    with pytest.raises(FileNotFoundError, match=r"split_dict\.pt: no such file"):
        read_split(tmp_path)
