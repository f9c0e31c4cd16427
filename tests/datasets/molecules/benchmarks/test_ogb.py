from __future__ import annotations

import logging
import re
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.ogb_files import PARTS, SMILES, write_rows, write_set, write_split
from wlkernelnn.datasets import OGB_SETS, PackedGraphs, PackedLoader, load_molecules, load_ogb, scaffold_split
from wlkernelnn.datasets.molecules.benchmarks import ogb
from wlkernelnn.datasets.molecules.benchmarks.ogb import ogb_parts, ogb_source

pytestmark = pytest.mark.usefixtures("no_data_folder")


@pytest.fixture
def esol(tmp_path: Path) -> Path:
    """A set like ogbg-molesol in ``tmp_path``."""
    return write_set(tmp_path, "ogbg-molesol", SMILES, np.linspace(-2, 3, 8)[:, None], ["y"])


def assert_same_graphs(one: PackedGraphs, other: PackedGraphs) -> None:
    for field in ("source", "in_degree", "edge_type", "node_ptr", "edge_ptr", "row", "smiles", "smiles_ptr"):
        assert torch.equal(getattr(one.arrays, field), getattr(other.arrays, field)), field
    codes = [data.arrays.node_table[data.arrays.node_type.long()] for data in (one, other)]
    assert torch.equal(*codes)


# What is read


@pytest.mark.parametrize("name", ["ogbg-molesol", "ogbg-molfreesolv", "ogbg-molbbbp"])
def test_published_sets_are_what_our_featurizer_makes_of_their_smiles(name: str, data_root: Path) -> None:
    data = load_ogb(name, data_root)
    spec = OGB_SETS[name]
    assert len(data) == spec.size
    (target,) = data.description.target_names
    table = data_root / "ogb" / spec.folder / "mapping" / "mol.csv.gz"
    ours = load_molecules(table, smiles_column="smiles", target_columns=[target], cache=False)
    assert_same_graphs(data, ours)
    assert torch.equal(data.y, ours.y)
    assert data.description == replace(ours.description, name=name, unit=spec.unit)
    assert data.split_idx is not None
    for part, rows in scaffold_split(data.smiles).items():
        assert np.array_equal(data.split_idx[part], rows)


def test_labels_may_be_missing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.choice([0.0, 1.0, np.nan], (len(SMILES), 128))
    y[2] = np.nan
    write_set(tmp_path, "ogbg-molpcba", SMILES, y, [f"PCBA-{task}" for task in range(128)])
    data = load_ogb("ogbg-molpcba", tmp_path)
    assert np.array_equal(data.y.numpy(), y, equal_nan=True)
    assert data.description.target_names[127] == "PCBA-127"
    assert (data.task, data.metric) == ("classification", "average_precision")
    assert data.smiles == SMILES
    assert {part: index.tolist() for part, index in (data.split_idx or {}).items()} == PARTS
    assert_same_graphs(data, load_molecules(SMILES, cache=False))
    batch = next(iter(PackedLoader(data, len(data))))
    assert np.array_equal(batch.y.numpy(), y, equal_nan=True)


def test_a_split_beside_a_table_of_smiles(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "moleculenet").mkdir()
    smiles = [*SMILES[:3], "C(C)(C)(C)(C)C", *SMILES[4:]]
    table = pd.DataFrame({"smiles": smiles, "activity": "CI", "HIV_active": [0, 1, 0, 0, 1, 0, 0, 1]})
    table.to_csv(tmp_path / "moleculenet" / "HIV.csv", index=False)
    write_split(tmp_path / "ogbg_molhiv", PARTS)
    with caplog.at_level(logging.WARNING, "wlkernelnn"):
        data = load_ogb("ogbg-molhiv", tmp_path)
    assert "1 of 8 SMILES give no molecule" in caplog.text
    assert "train 3, valid 2, test 2" in caplog.text
    assert [reject.row for reject in data.rejects] == [3]
    assert data.split_idx is not None
    for part, rows in PARTS.items():
        view = data[data.split_idx[part]]
        assert view.row.tolist() == [row for row in rows if row != 3]
        assert view.y[:, 0].tolist() == table["HIV_active"][view.row.numpy()].tolist()
    assert data.description.name == "ogbg-molhiv"
    source = (
        "graphs made from SMILES, those of MoleculeNet's table 'hiv'; the split is that of the files there, "
        "which OGB's archive did not come with"
    )
    assert ogb_source("ogbg-molhiv", tmp_path) == source
    parts = ogb_parts("ogbg-molhiv", tmp_path)
    assert {part: rows.tolist() for part, rows in parts.items()} == PARTS


def test_source_and_parts(esol: Path) -> None:
    root = esol.parents[1]
    assert ogb_source("ogbg-molesol", root) == "OGB's own graphs"
    assert ogb_source("ogbg-molesol", root, features="ogb+rw4") == "graphs made from SMILES, those of OGB"
    assert ogb_source("pcqm4mv2", root) == "graphs made from SMILES, those of OGB"
    assert {part: rows.tolist() for part, rows in ogb_parts("ogbg-molesol", root).items()} == PARTS
    with pytest.raises(FileNotFoundError, match="ogbg-molbbbp: there is no ogb/ogbg_molbbbp"):
        ogb_parts("ogbg-molbbbp", root)


def test_another_size_is_said(esol: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_ogb("OGBG_molesol", esol.parents[1])
    assert "has 8 graphs, but ogbg-molesol 1,128; results may not compare" in caplog.text


def test_other_features_come_from_the_smiles(esol: Path) -> None:
    data = load_ogb("ogbg-molesol", esol.parents[1], features="ogb+rw4+morgan")
    plain = load_ogb("ogbg-molesol", esol.parents[1])
    assert torch.equal(data.y, plain.y)
    assert data.split_idx is not None
    assert data.split_idx["train"].tolist() == PARTS["train"]
    ours = load_molecules(SMILES, features="ogb+rw4+morgan", cache=False)
    assert_same_graphs(data, ours)
    assert torch.equal(data.arrays.graph_x, ours.arrays.graph_x)
    same = ("name", "task", "metric", "target_names", "node_dims", "num_edge_types")
    assert all(getattr(data.description, name) == getattr(plain.description, name) for name in same)
    with pytest.raises(ValueError, match="unknown features 'mine'"):
        load_ogb("ogbg-molesol", esol.parents[1], features="mine")


def test_smiles_of_other_graphs_are_said(esol: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_ogb("ogbg-molesol", esol.parents[1], features="ogb+rw4")
    assert "another number of atoms" not in caplog.text
    path = esol / "mapping" / "mol.csv.gz"
    table = pd.read_csv(path)
    table.loc[4, "smiles"] = "CC"
    table.loc[2, "smiles"] = "C(C)(C)(C)(C)C"  # none at all
    table.to_csv(path, index=False)
    load_ogb("ogbg-molesol", esol.parents[1], features="ogb+rw4")
    said = r"num-node-list\.csv\.gz: 1 graphs have another .* such as 'CC' in line 5 with 6 instead of 2"
    assert re.search(said, caplog.text)


def test_what_was_packed_is_read_once(esol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_ogb("ogbg-molesol", esol.parents[1])
    with monkeypatch.context() as patch:
        patch.setattr(ogb, "read_graphs", None)
        again = load_ogb("ogbg-molesol", esol.parents[1])
        assert_same_graphs(first, again)
        assert again.split_idx is not None
        assert again.split_idx["train"].tolist() == PARTS["train"]
    write_rows(esol / "raw" / "graph-label.csv.gz", np.zeros(8))
    assert load_ogb("ogbg-molesol", esol.parents[1]).y.abs().sum() == 0


# Where it comes from


@pytest.mark.parametrize("place", ["ogb/ogbg_molesol", "ogbg_molesol", "cache/data/ogb/ogbg_molesol"])
def test_places(esol: Path, tmp_path: Path, place: str) -> None:
    moved = tmp_path / "moved" / place
    moved.parent.mkdir(parents=True)
    esol.rename(moved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_DATA", str(tmp_path / "moved"))
        patch.setenv("WLKERNELNN_CACHE", str(tmp_path / "moved" / "cache"))
        assert len(load_ogb("ogbg-molesol")) == 8


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the zip file that ogbg-molesol is fetched from."""
    path = tmp_path / "publisher" / "esol.zip"
    path.parent.mkdir()
    spec = replace(OGB_SETS["ogbg-molesol"], url=path.as_uri())
    monkeypatch.setitem(OGB_SETS, "ogbg-molesol", spec)
    return path


def test_download(esol: Path, publisher: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    esol.rename(tmp_path / "esol")
    shutil.make_archive(str(publisher.with_suffix("")), "zip", tmp_path, "esol")
    data = load_ogb("ogbg-molesol", progress=True)
    assert "no checksum is known" in caplog.text
    publisher.unlink()
    assert_same_graphs(data, load_ogb("ogbg-molesol"))
    assert [path.name for path in (tmp_path / "cache" / "data" / "ogb").iterdir()] == ["ogbg_molesol"]


def test_another_process_may_be_faster(
    esol: Path, publisher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    esol.rename(tmp_path / "esol")
    shutil.make_archive(str(publisher.with_suffix("")), "zip", tmp_path, "esol")
    cached = tmp_path / "cache" / "data" / "ogb" / "ogbg_molesol"

    def other_first(url: str, path: Path, *_: object, **__: object) -> Path:
        shutil.copytree(tmp_path / "esol", cached)
        shutil.copy(publisher, path)
        return path

    monkeypatch.setattr(sys.modules["wlkernelnn.datasets.files.download"], "download", other_first)
    assert len(load_ogb("ogbg-molesol")) == 8
    assert [path.name for path in cached.parent.iterdir()] == ["ogbg_molesol"]


def test_a_folder_that_is_not_whole(publisher: Path, tmp_path: Path) -> None:
    cached = tmp_path / "cache" / "data" / "ogb" / "ogbg_molesol"
    (cached / "raw").mkdir(parents=True)
    with pytest.raises(
        FileNotFoundError, match=r"ogbg_molesol has no raw/node-feat\.csv\.gz: remove the folder"
    ):
        load_ogb("ogbg-molesol")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "could not be downloaded"),
        (b"<html>", "not a whole zip file"),
        ("other/raw/node-feat.csv.gz", r"there is no esol/raw/node-feat\.csv\.gz in it"),
    ],
)
def test_download_fails(publisher: Path, tmp_path: Path, content: bytes | str | None, reason: str) -> None:
    if isinstance(content, bytes):
        publisher.write_bytes(content)
    elif content:
        with zipfile.ZipFile(publisher, "w") as archive:
            archive.writestr(content, b"")
    folder = r"cache/data/ogb/ogbg_molesol"
    with pytest.raises(
        FileNotFoundError, match=f"ogbg-molesol: there is no .*{reason}.* Put the files .*{folder}"
    ):
        load_ogb("ogbg-molesol")
    assert not list((tmp_path / "cache" / "data" / "ogb").iterdir())
