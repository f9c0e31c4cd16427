from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.inputs.graphs import assert_same_arrays
from wlkernelnn.datasets import (
    MOLECULE_SETS,
    content_sha256,
    find_file,
    load_molecules,
    molecule_ids,
    random_split,
    read_table,
    scaffold_split,
)

pytestmark = pytest.mark.usefixtures("no_data_folder")


def test_every_set_is_described() -> None:
    names = "esol freesolv lipophilicity cep bbbp bace clintox sider tox21 hiv qm7 qm8 organic_ri"
    single = [name for name in MOLECULE_SETS if "/" not in name]
    assert " ".join(single) == "chembl2321810 " + names
    ace = [name for name in MOLECULE_SETS if name.startswith("moleculeace/CHEMBL")]
    assert len(ace) == 30
    assert len(single) + len(ace) == len(MOLECULE_SETS)
    for name, spec in MOLECULE_SETS.items():
        assert spec.name == name
        assert spec.metric in ("rmse", "mae") if spec.task == "regression" else spec.metric == "roc_auc"
        assert spec.unit
        assert spec.source
        assert spec.licence
        assert spec.sha256 or name == "chembl2321810"
        assert all(len(checksum) == 64 for checksum in spec.sha256)


def test_the_embedded_set() -> None:
    data = load_molecules("chembl2321810")
    assert (len(data), data.rejects, data.task, data.metric) == (1017, [], "regression", "rmse")
    assert data.description.target_names == ("Act",)
    assert data.y.min().item() == pytest.approx(4.27)
    assert data.y.max().item() == pytest.approx(9.22)
    # Name 1520012, the first of the SMILES file.
    assert data.smiles[0] == "O=S(=O)(Nc1cccs1)c2ccc(Oc3ccccc3c4ccccc4)c(c2)C#N"
    assert data.y[0].item() == pytest.approx(5.48)
    assert data.row.tolist() == list(range(1017))
    assert [len(part) for part in data.split_idx.values()] == [813, 102, 102]
    assert np.array_equal(data.split_idx["test"], scaffold_split(data.smiles)["test"])
    assert_same_arrays(data, load_molecules("ChEMBL"))


@pytest.mark.parametrize(
    ("name", "rejected"),
    [("esol", 0), ("freesolv", 0), ("bbbp", 11), ("clintox", 0), ("sider", 0), ("tox21", 8), ("qm7", 0)],
)
def test_published_sets(data_root: Path, name: str, rejected: int) -> None:
    spec = MOLECULE_SETS[name]
    data = load_molecules(name, data_root)
    assert len(data) + rejected == spec.size
    assert len(data.rejects) == rejected
    assert sorted([*data.row.tolist(), *(reject.row for reject in data.rejects)]) == list(range(spec.size))
    assert (data.task, data.metric, data.num_tasks) == (spec.task, spec.metric, len(spec.target_columns))
    assert data.description.target_names == spec.target_columns
    assert data.description.unit == spec.unit
    assert list(data.split_idx) == ["train", "valid", "test"]
    if spec.split == "random":
        groups = molecule_ids(data.smiles)
        assert np.array_equal(data.split_idx["valid"], random_split(len(data), groups=groups)["valid"])
    frame = read_table(find_file(spec.file, data_root), [spec.smiles_column, spec.target_columns[-1]])
    last = int(data.row[-1])
    assert data.smiles[-1] == frame[spec.smiles_column].iloc[last].strip()
    assert data.y[-1, -1].item() == pytest.approx(float(frame[spec.target_columns[-1]].iloc[last] or "nan"))


@pytest.mark.parametrize("name", [name for name in MOLECULE_SETS if name != "chembl2321810"])
def test_files_are_what_the_table_says(data_root: Path, name: str) -> None:
    spec = MOLECULE_SETS[name]
    path = find_file(spec.file, data_root)
    if path is None:
        pytest.skip(f"{spec.file} is not in {data_root}")
    assert content_sha256(path) in spec.sha256
    assert len(read_table(path, [spec.smiles_column, *spec.target_columns])) == spec.size


def test_a_set_is_downloaded_once_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = "smiles,expt,calc\r\nCCO,-5.0,1\r\nC,2.0,1\r\n" + "".join(
        f"C{'C' * n},0.5,1\r\n" for n in range(1, 19)
    )
    served = tmp_path / "served" / "SAMPL.csv"
    served.parent.mkdir()
    served.write_bytes(text.encode())
    spec = replace(MOLECULE_SETS["freesolv"], url=served.as_uri(), sha256=(content_sha256(served),))
    monkeypatch.setitem(MOLECULE_SETS, "freesolv", spec)
    data = load_molecules("FreeSolv")
    assert data.smiles[:2] == ["CCO", "C"]
    assert data.y[:2, 0].tolist() == [-5.0, 2.0]
    assert (tmp_path / "cache" / "data" / "SAMPL.csv").read_bytes() == served.read_bytes()
    shutil.rmtree(served.parent)
    assert_same_arrays(load_molecules("freesolv"), data)
    assert "not a known version" not in caplog.text

    (tmp_path / "SAMPL.csv").write_text(text.replace("-5.0", "-6.0"))
    assert load_molecules("freesolv", tmp_path).y[0].item() == -6.0
    # What is known of the published targets is not of other columns.
    assert load_molecules("freesolv", tmp_path, target_columns="expt").description.unit == "kcal/mol"
    other = load_molecules("freesolv", tmp_path, target_columns=["expt", "calc"]).description
    assert (other.unit, other.target_names) == ("", ("expt", "calc"))
    assert "SAMPL.csv: not a known version of this data set" in caplog.text


def test_a_set_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = tmp_path / "SAMPL.csv"
    served.write_text("smiles,expt\nC,1\n")
    spec = replace(MOLECULE_SETS["freesolv"], url=served.as_uri(), file="elsewhere/freesolv.csv")
    monkeypatch.setitem(MOLECULE_SETS, "freesolv", spec)
    folder = tmp_path / "cache" / "data"
    with pytest.raises(FileNotFoundError) as error:
        load_molecules("freesolv", tmp_path)
    for part in (
        f"elsewhere/freesolv.csv is not in {tmp_path} nor in {folder}",
        f"has SHA-256 {hashlib.sha256(served.read_bytes()).hexdigest()}, expected {spec.sha256[0]}",
        f"Get it from {spec.url} ({spec.source}) and put it, as it is or gzipped, at {tmp_path / spec.file}",
    ):
        assert part in str(error.value)
    with pytest.raises(
        FileNotFoundError, match=r"organic_ri/properties\.csv is not in .* chemml 1\.3 on PyPI"
    ):
        load_molecules("organic_ri")
    with pytest.raises(FileNotFoundError, match="root is not a folder"):
        load_molecules("esol", tmp_path / "nowhere")


def test_a_set_with_a_published_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "moleculeace").mkdir()
    rows = [f"{'C' * (n + 1)},{10**n},{-n},{n % 2},{'test' if n in (1, 4) else 'train'}" for n in range(10)]
    table = "\n".join(["smiles,exp_mean [nM],y,cliff_mol,split", *rows])
    (tmp_path / "moleculeace" / "CHEMBL204_Ki.csv").write_text(table)
    data = load_molecules("moleculeace/chembl204_ki", tmp_path)
    assert "not a known version" in caplog.text
    assert data.description.name == "moleculeace/CHEMBL204_Ki"
    assert (data.description.unit, data.metric) == ("-log10(Ki in nM)", "rmse")
    assert data.y[:, 0].tolist() == [-n for n in range(10)]
    parts = {part: rows.tolist() for part, rows in data.split_idx.items()}
    assert parts == {"train": [0, 2, 3, 5, 6, 7, 8, 9], "valid": [], "test": [1, 4]}
    other = load_molecules("moleculeace/CHEMBL204_Ki", tmp_path, split="random")
    assert np.array_equal(other.split_idx["train"], random_split(10)["train"])
    with pytest.raises(FileNotFoundError, match=r"moleculeace/CHEMBL218_EC50\.csv is not in .* MoleculeACE"):
        load_molecules("moleculeace/CHEMBL218_EC50", tmp_path)
    with pytest.raises(ValueError, match=r"did you mean 'moleculeace/CHEMBL204_Ki'\? Known are chembl"):
        load_molecules("moleculeace/CHEMBL204_K")


def test_names(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="no data set is called 'lipophilicty'; did you mean 'lipophilicity'"
    ):
        load_molecules("lipophilicty")
    with pytest.raises(ValueError, match="root goes with the name of a published data set"):
        load_molecules(tmp_path / "set.csv", tmp_path)


def test_a_published_set_with_other_columns(data_root: Path) -> None:
    data = load_molecules("tox21", data_root, target_columns=["SR-p53"], on_invalid="nan", cache=False)
    assert data.description.target_names == ("SR-p53",)
    # Of the 8 rows without a molecule some have no p53 label either: each row is rejected once.
    assert len(data) + len(data.rejects) == 7831
    assert not data.y.isnan().any()
    reasons = pd.Series([reject.reason for reject in data.rejects])
    labels = pd.read_csv(find_file("moleculenet/tox21.csv", data_root))["SR-p53"]
    assert (reasons == "no target value").sum() == labels.isna().sum()


def test_another_task_of_a_published_set_has_its_own_metric(data_root: Path) -> None:
    data = load_molecules("bbbp", data_root, task="regression", cache=False)
    assert (data.task, data.metric) == ("regression", "rmse")
    data = load_molecules("qm7", data_root, task="regression", cache=False)
    assert (data.task, data.metric) == ("regression", "mae")


def test_the_wrong_column_of_a_published_set_is_an_error(data_root: Path) -> None:
    with pytest.raises(
        ValueError, match=r"(\d),(\d+) of \1,\2 rows give no molecule or have no target\n  data row 1 "
    ):
        load_molecules("bbbp", data_root, smiles_column="num", cache=False)
