from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import MOLECULES, ROWS, regression_set, write_table
from wlkernelnn.cli.data import DataOptions, SplitOptions, one_column, score_text
from wlkernelnn.datasets import butina_split, random_split, scaffold_split


@pytest.fixture
def table(tmp_path: Path) -> Path:
    data = regression_set()
    labels = ["Train"] * 40 + ["val"] * 12 + ["TEST"] * 8
    return write_table(tmp_path / "set.csv", data, part=labels, other=data.y[:, 0] * 2)


def test_a_file(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act", "other"]).load()
    assert data.description.name == "set.csv"
    assert data.description.target_names == ("Act", "other")
    assert data.description.features == "ogb"
    np.testing.assert_allclose(data.y[:, 1], 2 * regression_set().y[:, 0])


def test_options_reach_the_loader(table: Path, tmp_path: Path) -> None:
    table.write_text(table.read_text().replace("smiles", "structure") + "C1CC,0,test,0\n")
    options: dict[str, Any] = {"target_columns": ["Act"], "features": "duvenaud", "num_workers": 0}
    data = DataOptions(str(table), ["structure"], on_invalid="skip", **options).load(tmp_path / "r.csv")
    assert data.description.features == "duvenaud"
    assert (len(data), len(data.rejects)) == (60, 1)
    assert (tmp_path / "r.csv").read_text().splitlines()[1].startswith("61,C1CC,")
    with pytest.raises(ValueError, match="1 of 61 rows give no molecule"):
        DataOptions(str(table), ["structure"], **options).load()
    with pytest.raises(ValueError, match="column 'Act': expected classes, names or whole numbers"):
        DataOptions(str(table), ["structure"], ["Act"], task_type="classification", on_invalid="skip").load()


def test_additions_to_the_features(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act"], features="duvenaud+rw7+morgan").load()
    assert data.description.features == "duvenaud+rw7+morgan"
    assert (data.description.num_node_values, data.description.num_graph_values) == (7, 2048)


def test_standardized_molecules(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("smiles,y\nCC(=O)[O-].[Na+],1\nCCO,2\n")
    options: dict[str, Any] = {"target_columns": ["y"], "standardize": True}
    for features in ("lei", "lei+standardize"):
        data = DataOptions(str(tmp_path / "set.csv"), features=features, **options).load()
        assert data.description.features == "lei+standardize"
        assert data.smiles == ["CC(=O)O", "CCO"]
        assert data.changes == [(0, "CC(=O)[O-].[Na+]", "CC(=O)O", ("fragment", "uncharge"))]


def test_every_bad_row_is_accounted_for(tmp_path: Path) -> None:
    lines = [f'"{smiles}",{i}' for i, (smiles, _) in enumerate(ROWS.values())]
    (tmp_path / "set.csv").write_text("\n".join(["smiles,y", *lines, "CC,", ""]))
    data = DataOptions(str(tmp_path / "set.csv"), target_columns=["y"], on_invalid="skip").load()
    assert data.row.tolist() == np.flatnonzero(MOLECULES).tolist()
    assert len(data) + len(data.rejects) == len(ROWS) + 1
    assert data.rejects[-1] == (len(ROWS), "CC", "no target value")


def test_a_published_set() -> None:
    data = DataOptions("chembl").load()
    assert data.description.name == "chembl2321810"
    split, name = SplitOptions().apply(data)
    assert name == "scaffold"
    assert np.array_equal(split["test"], scaffold_split(data.smiles)["test"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_path": "set.csv"}, "--target-columns: which columns of set.csv"),
        ({"data_path": "set.csv", "target_columns": ["y"]}, "set.csv: no such file"),
        (
            {"data_path": "set.csv", "target_columns": ["y"], "features": "ogb+ecfp"},
            "unknown features 'ogb.ecfp'",
        ),
        ({"data_path": "esoll"}, "no data set is called 'esoll'; did you mean 'esol'"),
        ({"data_path": "set.xls", "target_columns": ["y"]}, "ends in .csv, .* .xlsx, .smi"),
        (
            {"data_path": "chembl", "smiles_columns": ["a", "b"]},
            "--smiles-columns: expected one column, got 2: a, b; --join-smiles joins them",
        ),
        (
            {"data_path": "chembl", "smiles_columns": ["a"], "join_smiles": True},
            "--join-smiles joins several columns: name them by --smiles-columns",
        ),
        (
            {"data_path": "chembl", "smiles_columns": ["a", "b"], "join_smiles": True, "standardize": True},
            "--standardize keeps the largest component alone: not with --join-smiles",
        ),
    ],
)
def test_what_cannot_be_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        DataOptions(**options).load()


def test_one_column() -> None:
    assert one_column(None) is None
    assert one_column(["a"]) == "a"
    with pytest.raises(ValueError, match="expected one column, got 2: a, b"):
        one_column(["a", "b"])


# Splits


def test_a_random_split_is_the_default_for_a_file(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act"]).load()
    split, name = SplitOptions(split_sizes=(0.5, 0.25, 0.25), data_seed=3).apply(data)
    assert name == "random"
    for part, positions in random_split(60, (0.5, 0.25, 0.25), 3).items():
        assert np.array_equal(split[part], positions)


def test_a_seed_where_the_recommended_split_is_not_random(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act"]).load()
    data.description = replace(data.description, name="bbbp")
    with pytest.raises(ValueError, match="--data-seed is an option of --split random: there is one scaffold"):
        SplitOptions(data_seed=7).apply(data)
    assert SplitOptions().apply(data)[1] == "scaffold"


def test_a_scaffold_split(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act"]).load()
    split, name = SplitOptions(split="scaffold").apply(data)
    assert name == "scaffold"
    assert np.array_equal(split["train"], scaffold_split(data.smiles)["train"])


def test_a_column_of_times(table: Path) -> None:
    frame = pd.read_csv(table).assign(year=np.arange(2060, 2000, -1))
    frame.to_csv(table, index=False)
    options = SplitOptions(split="time", time_column="year", split_sizes=(0.5, 0.25, 0.25))
    data = DataOptions(str(table), target_columns=["Act"]).load(**options.of_table())
    split, name = options.apply(data)
    assert name == "time, column year"
    assert [part.tolist() for part in split.values()] == [
        [*range(30, 60)],
        [*range(15, 30)],
        [*range(15)],
    ]


def test_a_column_of_labels(table: Path) -> None:
    lines = table.read_text().splitlines()
    lines[3] = "C1CC" + lines[3][lines[3].index(",") :]
    table.write_text("\n".join(lines))
    options = DataOptions(str(table), target_columns=["Act"], on_invalid="skip")
    data = options.load(split_column="part")
    split, name = SplitOptions(splits_column="part").apply(data)
    assert name == "column part"
    # Positions among the molecules: row 2, of the training part, is none.
    assert [part.tolist() for part in split.values()] == [
        list(range(39)),
        list(range(39, 51)),
        list(range(51, 59)),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"split": "random", "splits_column": "part"}, "either --split or --splits-column"),
        (
            {"split_sizes": (0.6, 0.2, 0.2), "splits_column": "part"},
            "either --split-sizes or --splits",
        ),
        ({"data_seed": 1, "splits_column": "part"}, "either --data-seed or --splits-column"),
        ({"data_seed": 1, "split": "scaffold"}, "--data-seed is an option of --split random"),
        (
            {"data_seed": 1, "split": "butina"},
            "--data-seed is an option of --split random: there is one butina",
        ),
        ({"split": "time"}, "--split time and --time-column go together"),
        ({"time_column": "date"}, "--split time and --time-column go together"),
        ({"cluster_similarity": 0.5}, "--cluster-similarity is an option of --split butina"),
        (
            {"cluster_similarity": 1.5, "split": "butina"},
            "--cluster-similarity: expected a number above 0 and at most 1, got 1.5",
        ),
        ({"data_seed": -1}, "--data-seed: expected at least 0, got -1"),
    ],
)
def test_options_that_would_do_nothing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitOptions(**given).check_seed()
    assert SplitOptions(split_sizes=[0.8, 0.1, 0.1], splits_column="part")  # type: ignore[arg-type]


def test_clusters_of_a_similarity(table: Path) -> None:
    data = DataOptions(str(table), target_columns=["Act"]).load()
    split, name = SplitOptions(split="butina", cluster_similarity=0.7, split_sizes=(0.5, 0.5, 0.0)).apply(
        data
    )
    assert name == "butina, similarity 0.7"
    expected = butina_split(data.smiles, (0.5, 0.5, 0.0), 0.7)
    assert [part.tolist() for part in split.values()] == [part.tolist() for part in expected.values()]
    other = SplitOptions(split="butina", split_sizes=(0.5, 0.5, 0.0)).apply(data)[0]
    assert other["train"].tolist() != split["train"].tolist()


def test_processes_that_there_cannot_be() -> None:
    with pytest.raises(ValueError, match="--num-workers: expected at least 0, got -1"):
        DataOptions("esol", num_workers=-1)


def test_a_column_of_other_labels(table: Path) -> None:
    table.write_text(table.read_text().replace("TEST", "blind"))
    with pytest.raises(
        ValueError, match=r"column 'part': data row 53: expected a split label .* got 'blind'"
    ):
        DataOptions(str(table), target_columns=["Act"]).load(split_column="part")


@pytest.mark.parametrize(
    ("score", "text"),
    [
        *[(0.55296, "0.5530"), (12.0, "12.0000"), (0.0, "0.0000"), (2.34567e-6, "2.346e-06")],
        *[(-4e-4, "-0.0004"), (float("nan"), "nan")],
    ],
)
def test_digits_of_scores(score: float, text: str) -> None:
    assert score_text(score) == text
