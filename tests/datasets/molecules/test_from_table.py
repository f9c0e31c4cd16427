from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.inputs.graphs import assert_same_arrays
from wlkernelnn.datasets import PackedGraphs, Reject, load_molecules, molecules_from, random_split
from wlkernelnn.datasets.graphs import store_cache
from wlkernelnn.datasets.molecules import from_table as module

pytestmark = pytest.mark.usefixtures("no_data_folder")

# What a table can hold: row 0, 3, 5, 7 and 9 are molecules with a target.
CELLS = [
    ("CCO", 1.5),
    ("C1CC", 2.0),
    ("", 3.0),
    ("c1ccccc1", -1.0),
    ("   ", 0.0),
    ("[Na+].[Cl-]", 7.0),
    (None, 1.0),
    ("C", 0.25),
    ("CN", None),
    ("CCO", 2.5),
    ("C(C)(C)(C)(C)C", 0.0),
]
GOOD = [0, 3, 5, 7, 9]


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(CELLS, columns=["SMILES", "y"])


@pytest.fixture
def path(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_csv(tmp_path / "set.csv", index=False)
    return tmp_path / "set.csv"


def test_only_columns_that_are_used_need_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("smiles,y,z,z\nCCO,1,2,3\nCC,2,2,3\n")
    data = molecules_from(tmp_path / "t.csv", target_columns="y", cache=False)
    assert data.y[:, 0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="2 columns are called 'z'"):
        molecules_from(tmp_path / "t.csv", target_columns="z", cache=False)


def test_rows_without_a_molecule_are_left_out_and_listed(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "wlkernelnn")
    data = load_molecules(
        path, target_columns=["y"], on_invalid="skip", rejects_path=tmp_path / "out" / "rejects.csv"
    )
    assert data.row.tolist() == GOOD
    assert data.y[:, 0].tolist() == [CELLS[row][1] for row in GOOD]
    assert [reject.row for reject in data.rejects] == [1, 2, 4, 6, 8, 10]
    assert data.rejects[4] == Reject(8, "CN", "no target value")
    assert data.description.name == "set.csv"
    assert (data.task, data.metric, data.split_idx) == ("regression", "rmse", None)
    assert f"{path}: 11 rows in = 5 molecules + 6 rejected" in caplog.text
    assert "1 rows repeat the SMILES of an earlier row and are kept; the first is data row 10 (line 11)," in (
        caplog.text
    )
    written = pd.read_csv(tmp_path / "out" / "rejects.csv", keep_default_na=False)
    assert written.columns.tolist() == ["row", "smiles", "reason"]
    assert written["row"].tolist() == [2, 3, 5, 7, 9, 11]
    assert written["smiles"].tolist() == ["C1CC", "", "   ", "", "CN", "C(C)(C)(C)(C)C"]
    assert written["reason"].str.len().gt(0).all()
    assert_same_arrays(data, molecules_from(path, target_columns=["y"], on_invalid="nan", cache=False))


def test_by_default_a_row_without_a_molecule_is_an_error(path: Path, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="11 rows give no molecule") as error:
        molecules_from(path, target_columns=["y"])
    message = str(error.value)
    assert f"{path}: 6 of 11 rows give no molecule" in message
    assert "data row 2 (line 3): 'C1CC': " in message
    assert "and 3 more" in message
    with pytest.raises(ValueError, match=r"the data frame: 5 of 11 .*\n  data row 2: 'C1CC': "):
        molecules_from(frame)
    with pytest.raises(ValueError, match="on_invalid must be one of raise, skip, nan, got 'drop'"):
        molecules_from(frame, on_invalid="drop")  # type: ignore[arg-type]


def test_all_kinds_of_sources_give_the_same(frame: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "set.parquet")
    wanted = molecules_from(path, target_columns=["y"], on_invalid="skip")
    for data in (
        molecules_from(str(tmp_path / "set.parquet"), target_columns=["y"], on_invalid="skip"),
        molecules_from(frame, target_columns=["y"], on_invalid="skip"),
        molecules_from(pa.table({**frame}), target_columns=["y"], on_invalid="skip"),
        molecules_from(pa.table({**frame})["SMILES"], frame["y"], on_invalid="skip"),
        molecules_from(frame["SMILES"], frame["y"], on_invalid="skip"),
        load_molecules(frame["SMILES"].to_list(), y=[y for _, y in CELLS], on_invalid="skip"),
    ):
        assert_same_arrays(data, wanted)
        assert data.description.target_names == ("y",)


def test_without_targets_every_molecule_counts(path: Path) -> None:
    data = molecules_from(path, on_invalid="nan")
    assert data.row.tolist() == sorted([*GOOD, 8])
    assert (data.num_tasks, data.task, data.metric) == (0, None, None)


def test_nothing_left(tmp_path: Path) -> None:
    data = molecules_from(["x", ""], y=[1.0, 2.0], on_invalid="skip")
    assert (len(data), len(data.rejects), data.num_tasks) == (0, 2, 1)
    with pytest.raises(
        ValueError, match=r"the list of SMILES: 2 of 2 rows give no molecule or have no target\n  .* 'x'"
    ):
        molecules_from(["x", ""], on_invalid="skip", split="random")
    (tmp_path / "t.csv").write_text("smiles\nx\n")
    with pytest.raises(ValueError, match="1 of 1 rows give no molecule"):
        molecules_from(tmp_path / "t.csv", on_invalid="skip", rejects_path=tmp_path / "rejects.csv")
    assert "1,x," in (tmp_path / "rejects.csv").read_text()


def test_task_and_metric() -> None:
    smiles = ["C", "CC", "CCC"]
    labels = [[0, 1], [1, None], [None, 0]]
    assert molecules_from(smiles, labels).task == "classification"
    assert molecules_from(smiles, labels).metric == "roc_auc"
    assert molecules_from(smiles, [0, 1, 0.5]).task == "regression"
    assert molecules_from(smiles, [1, 1, 1]).task == "regression"
    data = molecules_from(smiles, [0, 1, 1], task="regression", metric="mae", unit="K", name="mine")
    assert (data.task, data.metric, data.description.unit, data.description.name) == (
        *("regression", "mae", "K"),
        "mine",
    )
    with pytest.raises(
        ValueError, match="column 'y': expected classes, at most one for every two rows, got 3"
    ):
        molecules_from(smiles, [0, 1, 2], task="classification")
    with pytest.raises(ValueError, match="data row 3, column 'y': expected 0 or 1"):
        molecules_from(smiles, [0, 1, 2], task="classification", classes=())
    with pytest.raises(ValueError, match="classification, ordinal, got 'ranking'"):
        molecules_from(smiles, [0, 1, 2], task="ranking")


def test_targets_of_a_list() -> None:
    y = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0]])
    data = molecules_from(["C", "CC", "CCC"], y, on_invalid="skip")
    assert data.description.target_names == ("y1", "y2")
    np.testing.assert_array_equal(data.y.numpy(), y[[0, 2]].astype(np.float32))
    assert molecules_from(["C"], [[1, 2]], target_columns=["a", "b"]).description.target_names == ("a", "b")
    frame = pd.DataFrame({"logS": [1.0, 2.0], "logP": [0.5, 0.25]})
    assert molecules_from(["C", "CC"], frame).description.target_names == ("logS", "logP")
    assert molecules_from(["C", "CC"], frame["logP"]).description.target_names == ("logP",)
    with pytest.raises(ValueError, match="y: expected targets of different names, got logS, logS"):
        molecules_from(["C", "CC"], frame[["logS", "logS"]])
    for bad, message in (
        ([1.0], r"y must be \[2\] or \[2, T\], got shape \(1,\)"),
        (["high", 1], "data row 1, column 'y': expected a finite number.* got 'high'"),
        ([1, np.inf], "data row 2, column 'y'"),
    ):
        with pytest.raises(ValueError, match=message):
            molecules_from(["C", "CC"], bad)
    with pytest.raises(ValueError, match="1 target_columns for y with 2 columns"):
        molecules_from(["C"], [[1, 2]], target_columns=["a"])


def test_arguments_that_do_not_fit(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="y goes with a list of SMILES"):
        molecules_from(frame, [1.0])
    with pytest.raises(ValueError, match="go with a table, not with a list"):
        molecules_from(["C"], smiles_column="smiles")
    with pytest.raises(ValueError, match="either split or split_column"):
        molecules_from(frame, split="random", split_column="y")
    with pytest.raises(ValueError, match="the data frame: no column 'z'"):
        molecules_from(frame, target_columns=["y", "z"])


@pytest.mark.parametrize("cache", [False, True])
def test_a_split_given_by_a_column(frame: pd.DataFrame, tmp_path: Path, cache: bool) -> None:
    frame["set"] = ["train", "test", "train", "val", "train", "train", "test", "test", "val", "Train", "test"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = molecules_from(
        tmp_path / "t.csv", target_columns=["y"], split_column="set", on_invalid="skip", cache=cache
    )
    rows = {part: data.row[positions].tolist() for part, positions in data.split_idx.items()}
    assert list(rows.items()) == [("train", [0, 5, 9]), ("valid", [3]), ("test", [7])]
    frame.loc[5, "set"] = "holdout"
    with pytest.raises(ValueError, match=r"the data frame: column 'set': data row 6: .* got 'holdout'"):
        molecules_from(frame, split_column="set")


def test_rows_that_are_left_out_need_no_split() -> None:
    frame = pd.DataFrame({"smiles": ["C", "C1CC", "CC", "CCC"], "set": ["train", None, "val", "test"]})
    frame["year"] = [2001, None, 2002, 2003]
    by_label = molecules_from(frame, split_column="set", on_invalid="skip", cache=False)
    sizes = (1 / 3, 1 / 3, 1 / 3)
    by_time = molecules_from(
        frame, split="time", time_column="year", split_sizes=sizes, on_invalid="skip", cache=False
    )
    for data in (by_label, by_time):
        assert data.split_idx is not None
        assert {part: rows.tolist() for part, rows in data.split_idx.items()} == {
            "train": [0],
            "valid": [1],
            "test": [2],
        }
    frame.loc[2, "year"] = None
    with pytest.raises(ValueError, match=r"column 'year': data row 3: .* \(1 such rows\)"):
        molecules_from(frame, split="time", time_column="year", on_invalid="skip", cache=False)


def test_a_split_that_is_made() -> None:
    smiles = ["C" * i for i in range(1, 41)]
    data = molecules_from(smiles, split="random")
    assert np.array_equal(data.split_idx["test"], random_split(40)["test"])


def test_additions_to_the_features() -> None:
    smiles = ["C1CC1", "C1CCCCC1", "x"]
    data = molecules_from(smiles, [1.0, 2.0, 3.0], features="ogb+rw4+morgan", on_invalid="skip", split=None)
    about = data.description
    assert (about.features, about.num_node_values, about.num_graph_values) == ("ogb+rw4+morgan", 4, 2048)
    assert data.y[:, 0].tolist() == [1.0, 2.0]
    # Of the walks in a ring of three a quarter is back after three steps: two out of eight.
    assert data[0].x[0].tolist()[9:] == [0, 128, 64, 96]
    assert data[1].x[0].tolist()[9:] == [0, 128, 0, 96]
    assert data[0].graph_x.sum() > 0
    # Once more, from the cache.
    again = molecules_from(smiles, [1.0, 2.0, 3.0], features="ogb+rw4+morgan", on_invalid="skip", split=None)
    assert again.description == about
    assert_same_arrays(data, again)


def test_unknown_features_are_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown features 'ogb\\+rw0'"):
        molecules_from(tmp_path / "nowhere.csv", features="ogb+rw0")


# The cache


@pytest.fixture
def large(path: Path) -> Path:
    """The same table with enough molecules for a split."""
    path.write_text(path.read_text() + "".join(f"{'C' * n},{n}\n" for n in range(3, 30)))
    return path


def test_what_was_packed_is_not_packed_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = molecules_from(large, target_columns=["y"], on_invalid="skip", split="random")
    monkeypatch.setattr(module, "featurize", None)
    again = molecules_from(large, target_columns=["y"], on_invalid="skip", split="random")
    assert_same_arrays(first, again)
    assert again.rejects == first.rejects
    assert all(isinstance(reject, Reject) for reject in again.rejects)
    assert again.description == first.description
    for part, positions in first.split_idx.items():
        assert np.array_equal(positions, again.split_idx[part])
    copy = pickle.loads(pickle.dumps(again[[1, 2]]))
    assert copy.smiles == again.smiles[1:3]
    assert copy.rejects == []
    with pytest.raises(ValueError, match="rows give no molecule"):
        molecules_from(large, target_columns=["y"], split="random")


def test_the_cache_tells_contents_apart(large: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "packed"

    def count(**options: object) -> int:
        load_molecules(large, on_invalid="skip", **options)
        return len(list(folder.iterdir()))

    assert count(target_columns=["y"]) == 1
    assert count(target_columns=["y"]) == 1
    assert count() == 2
    assert count(target_columns=["y"], features="duvenaud") == 3
    assert count(target_columns=["y"], features="ogb+rw8") == 4
    assert count(target_columns=["y"], features="ogb+rw9") == 5
    assert count(target_columns=["y"], features="ogb+morgan") == 6
    assert count(target_columns=["y"], split="random") == 7
    assert count(target_columns=["y"], cache=False) == 7
    large.write_text(large.read_text().replace("CN", "CF"))
    assert count(target_columns=["y"]) == 8


def test_a_damaged_cache_is_reported_and_mended(path: Path, tmp_path: Path) -> None:
    wanted = molecules_from(path, on_invalid="skip", cache=False)
    molecules_from(path, on_invalid="skip")
    (stored,) = (tmp_path / "cache" / "packed").iterdir()
    stored.write_bytes(stored.read_bytes()[:-50])
    with pytest.warns(UserWarning, match=rf"damaged cache.*{stored.name}"):
        data = molecules_from(path, on_invalid="skip")
    assert_same_arrays(data, wanted)
    assert_same_arrays(molecules_from(path, on_invalid="skip"), wanted)


def test_without_a_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WLKERNELNN_CACHE", "")
    assert len(molecules_from(path, on_invalid="skip"))


def test_the_cache_is_its_owners_and_keeps_to_its_size(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache" / "packed"

    def load(features: str) -> Path:
        data = molecules_from(path, on_invalid="skip", features=features)
        return Path(data._path) if data._path else Path()

    def kept() -> set[Path]:
        return {path for path, _ in store_cache.stores(folder)}

    first, second = load("ogb"), load("duvenaud")
    assert folder.stat().st_mode & 0o777 == 0o700
    for long_ago, store in enumerate((first, second)):
        os.utime(store, (long_ago, store.stat().st_mtime))
    assert load("ogb") == first  # now the second is the one that was not used for longest
    monkeypatch.setattr(store_cache, "MOST_BYTES", sum(size for _, size in store_cache.stores(folder)) + 100)
    third = load("lei")
    assert kept() == {first, third}
    monkeypatch.setattr(store_cache, "MOST_BYTES", 10)
    assert load("ogb+rings") == Path()  # too large to be kept
    assert len(kept()) == 2


def test_a_cache_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.warns(UserWarning, match=r"could not be written .* going on without the cache"):
        data = molecules_from(path, on_invalid="skip")
    assert data.row.tolist() == sorted([*GOOD, 8])


def test_a_cache_that_cannot_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have made it."""
    molecules_from(path, on_invalid="skip")

    def denied(path: Path, **_: Any) -> PackedGraphs:
        raise PermissionError(f"{path}: permission denied")

    monkeypatch.setattr(PackedGraphs, "load", denied)
    with pytest.warns(UserWarning, match=r"could not be read .* going on without the cache"):
        data = molecules_from(path, on_invalid="skip")
    assert data.row.tolist() == sorted([*GOOD, 8])


@pytest.mark.parametrize("columns", [pd.Index(["y"]), np.array(["y"], dtype=object), ("y",), "y"], ids=repr)
def test_any_sequence_of_target_columns(columns: Any) -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "CC"], "y": [1.0, 2.5]})
    data = molecules_from(frame, target_columns=columns)
    assert data.y.tolist() == [[1.0], [2.5]]
    assert data.description.target_names == ("y",)


def test_target_columns_that_are_numbers_or_given_twice() -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "CC"], 7: [1.0, 2.5]})
    assert molecules_from(frame, target_columns=frame.columns[1:]).description.target_names == ("7",)
    with pytest.raises(ValueError, match="target_columns must be different columns, got 7, 7"):
        molecules_from(frame, target_columns=[7, 7])


def test_a_target_is_not_called_as_the_smiles() -> None:
    with pytest.raises(ValueError, match="smiles is the column of the SMILES"):
        molecules_from(["CCO"], [1.0], target_columns="smiles", cache=False)


def test_rejected_rows_repeat_nothing(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"target_columns": ["y"], "on_invalid": "skip", "cache": False}
    molecules_from(["CCO", "CCO", "x", "x"], [1.0, float("nan"), 2.0, 3.0], **options)
    assert "repeat" not in caplog.text
    molecules_from(["CCO", "x", "CCO"], [1.0, 2.0, 3.0], **options)
    assert "1 rows repeat the SMILES of an earlier row and are kept; the first is data row 3" in caplog.text
