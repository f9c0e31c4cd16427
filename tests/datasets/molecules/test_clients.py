"""TDC and Polaris through stand-ins for their packages, which return tables as these do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules


def recorded(begin: int, end: int, classes: bool = False) -> pd.DataFrame:
    """Rows as TDC returns them."""
    lengths = range(begin, end)
    y = [float(n % 2) if classes else -4.5 - n / 10 for n in lengths]
    smiles = ["C" * n + "O" for n in lengths]
    return pd.DataFrame({"Drug_ID": [f"drug {n}" for n in lengths], "Drug": smiles, "Y": y})


class Group:
    """What ``tdc.benchmark_group.admet_group`` makes."""

    dataset_names: Sequence[str] = ("caco2_wang", "cyp2d6_veith")

    def __init__(self, path: str) -> None:
        assert Path(path).is_dir()

    def get_train_valid_split(
        self, seed: int, benchmark: str, split_type: str = "default"
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        classes = benchmark == "cyp2d6_veith"
        return recorded(1, 16 - seed, classes), recorded(16 - seed, 18, classes)

    def get(self, benchmark: str) -> dict[str, Any]:
        classes = benchmark == "cyp2d6_veith"
        return {
            "train_val": recorded(1, 18, classes),
            "test": recorded(18, 22, classes),
            "name": benchmark,
        }


class Train:
    """A training part of Polaris."""

    def __init__(self, tasks: int, classes: bool = False) -> None:
        self.inputs = np.array(["CCO", "C1CC", "CCN"])
        values = {f"y{t}": np.array([1, 1, t] if classes else [1.5, 2.5, t]) for t in range(tasks)}
        self.targets = values if tasks > 1 else values["y0"]


class Test:
    """A test part, whose targets Polaris keeps."""

    __test__ = False

    @property
    def targets(self) -> None:
        raise AssertionError


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WLKERNELNN_DATA", str(tmp_path))
    metrics = {"admet_group": {"caco2_wang": "mae", "cyp2d6_veith": "pr-auc"}}
    modules = {
        "tdc": {},
        "tdc.benchmark_group": {"admet_group": Group},
        "tdc.metadata": {"bm_metric_names": metrics},
        "polaris": {"load_benchmark": load_benchmark},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def load_benchmark(name: str) -> SimpleNamespace:
    """A benchmark of Polaris, whose columns are sets."""
    tasks = 9 if name == "owner/nine-tasks" else 1
    metric = {"owner/classes": "pr_auc", "owner/nine-tasks": "pearsonr"}.get(name, "mean_absolute_error")
    return SimpleNamespace(
        input_cols={"smiles", "sequence"} if name == "owner/two-inputs" else {"MOL_smiles"},
        target_cols={f"y{t}" for t in range(tasks)},
        main_metric=SimpleNamespace(label=metric, name=metric),
        get_train_test_split=lambda: (Train(tasks, name == "owner/classes"), Test()),
    )


def test_tdc_has_its_own_split_and_metric() -> None:
    data = load_molecules("tdc/Caco2_Wang", cache=False)
    assert data.description.name == "tdc/caco2_wang"
    assert (data.task, data.metric, data.description.target_names) == ("regression", "mae", ("Y",))
    assert data.split_idx is not None
    assert {part: len(rows) for part, rows in data.split_idx.items()} == {"train": 14, "valid": 3, "test": 4}
    assert data.smiles[17] == "C" * 18 + "O"
    assert data.y[17, 0] == pytest.approx(-6.3)
    classes = load_molecules("tdc/cyp2d6_veith", cache=False)
    assert (classes.task, classes.metric) == ("classification", "average_precision")
    third = load_molecules("tdc/caco2_wang/3", cache=False)
    assert third.description.name == "tdc/caco2_wang/3"
    assert third.split_idx is not None
    assert {part: len(rows) for part, rows in third.split_idx.items()} == {"train": 12, "valid": 5, "test": 4}
    again = load_molecules("tdc/caco2_wang", split="random", cache=False)
    assert again.split_idx is not None
    assert len(again.split_idx["test"]) == 2


def test_polaris_gives_the_training_part() -> None:
    data = load_molecules("polaris/owner/one-task", cache=False)
    assert data.smiles == ["CCO", "CCN"]
    assert [reject.row for reject in data.rejects] == [1]
    assert data.y.tolist() == [[1.5], [0.0]]
    assert data.split_idx is not None
    assert {part: rows.tolist() for part, rows in data.split_idx.items()} == {
        "train": [0, 1],
        "valid": [],
        "test": [],
    }
    assert (data.task, data.metric) == ("regression", "mae")
    classes = load_molecules("polaris/owner/classes", cache=False)
    assert (classes.task, classes.metric) == ("classification", "average_precision")
    # In an order that is the same in every process; Pearson's correlation is not among our metrics.
    nine = load_molecules("polaris/owner/nine-tasks", cache=False)
    assert nine.y.tolist() == [[1.5] * 9, [*range(9)]]
    assert nine.description.target_names == tuple(f"y{t}" for t in range(9))
    assert nine.metric == "rmse"
    with pytest.raises(ValueError, match="expected one column of SMILES, got sequence, smiles"):
        load_molecules("polaris/owner/two-inputs", cache=False)


def test_wrong_names_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"no set 'caco2_wan'; did you mean 'caco2_wang'\? Known are caco2_wang"
    ):
        load_molecules("tdc/caco2_wan")
    with pytest.raises(ValueError, match="tdc/caco2_wang/one: expected a seed of the validation part"):
        load_molecules("tdc/caco2_wang/one")
    with pytest.raises(ValueError, match=r"no data set is called 'tcd/caco2_wang'.*tdc/caco2_wang"):
        load_molecules("tcd/caco2_wang")
    for name, package in (("tdc.benchmark_group", "PyTDC"), ("polaris", "polaris-lib")):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails
        with pytest.raises(ImportError, match=f"pip install {package}"):
            load_molecules(f"{name.partition('.')[0]}/owner/name")


def test_train_takes_the_published_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "--data-path", "tdc/caco2_wang", "--model", "linear", "--no-cache"]
    assert main([*train, "--output-dir", str(tmp_path / "run")]) == 0
    assert "tdc/caco2_wang: mae (split: published)" in capsys.readouterr().out
    assert main([*train, "--output-dir", str(tmp_path / "other"), "--data-seed", "1"]) == 1
    assert "tdc/caco2_wang has a published split" in capsys.readouterr().err


def test_folds_leave_the_published_test_part_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "--data-path", "tdc/caco2_wang", "--model", "linear", "--no-cache", "--cv", "2"]
    assert main([*train, "--output-dir", str(tmp_path / "train")]) == 0
    assert "the 4 molecules of its published test part are in no fold" in capsys.readouterr().out
    assert main([*train, "--split", "random", "--output-dir", str(tmp_path / "all")]) == 0
    assert "published test part" not in capsys.readouterr().out
    for folder, rows in (("train", 17), ("all", 21)):
        folds = (tmp_path / folder / "folds").glob("linear_*.csv")
        assert sorted(pd.concat(map(pd.read_csv, folds))["row"]) == [*range(1, rows + 1)]


def test_a_download_that_was_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def group(path: str) -> Group:
        with ZipFile(Path(path, "admet_group.zip")):  # as TDC reads it
            return Group(path)

    (tmp_path / "admet_group").mkdir()
    (tmp_path / "admet_group.zip").write_bytes(b"PK\3\4 and no more")
    monkeypatch.setattr(sys.modules["tdc.benchmark_group"], "admet_group", group)
    with pytest.raises(ValueError, match=r"admet_group\.zip: not downloaded whole, delete it"):
        load_molecules("tdc/caco2_wang")
