from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.inputs.molecules import regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import butina_clusters, cv_folds, load_molecules


def test_a_refused_resume_changes_nothing(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, frame = tmp_path / "cv", pd.read_csv(table)
    given = ("--cv", 2, "--model", "linear", "wl", "--epochs", 1, "--hidden-channels", 8)
    given = (*given, "--on-invalid", "skip", "--output-dir", folder)
    frame.loc[3, frame.columns[0]] = "C1CC"
    frame.to_csv(table, index=False)
    assert cross(table, *given) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    frame.loc[:5, frame.columns[0]] = "none"
    frame.to_csv(other := tmp_path / "other.csv", index=False)
    assert cross(other, *given, "--resume") == 1
    assert "the cross-validation to resume is of other data" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert pd.read_csv(folder / "rejects.csv")["row"].tolist() == [4]
    (folder / "rejects.csv").unlink()
    assert main(["train", "--config", str(folder / "config.yaml"), "--resume"]) == 0
    assert pd.read_csv(folder / "rejects.csv")["row"].tolist() == [4]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "set.csv", regression_set())


def cross(table: Path, *arguments: Any) -> int:
    given = ("--data-path", table, "--target-columns", "Act", *arguments)
    return main(["train", *map(str, given)])


def test_two_models_on_the_same_folds(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cv"
    given = ("--cv", 2, "--model", "linear", "wl", "--epochs", 1, "--hidden-channels", 8)
    assert cross(table, *given, "--output-dir", folder) == 0
    out = capsys.readouterr().out
    assert "mean ± standard deviation over 1 × 2 folds (split: random)" in out
    assert "linear − wl" in out
    assert "no model is kept: train without --cv for one" in out
    assert max(map(len, (line for line in out.splitlines() if str(tmp_path) not in line))) <= 80
    report = json.loads((folder / "cv.json").read_text())
    for model in ("linear", "wl"):
        figures = report["models"][model]["rmse"]
        assert f"{figures['mean']:.4f} ± {figures['std']:.4f}" in out
    scores = pd.read_csv(folder / "cv.csv")
    assert len(scores) == 4
    tested = [pd.read_csv(folder / "folds" / f"linear_repeat1_fold{fold}.csv") for fold in (1, 2)]
    assert sorted(pd.concat(tested)["row"]) == [*range(1, 61)]
    page = (folder / "report.html").read_text()
    assert "Cross-validation: set.csv" in page
    assert "linear − wl" in page
    # Goes on from its own config, with nothing to do; another number of folds is another cross-validation.
    before = (folder / "folds" / "wl_repeat1_fold2.json").stat().st_mtime_ns
    assert main(["train", "--config", str(folder / "config.yaml"), "--resume"]) == 0
    assert (folder / "folds" / "wl_repeat1_fold2.json").stat().st_mtime_ns == before
    assert json.loads((folder / "cv.json").read_text()) == report
    capsys.readouterr()
    more = ["--resume", "--ensemble-size", "3"]
    assert main(["train", "--config", str(folder / "config.yaml"), *more]) == 1
    assert "the run to resume has ensemble_size=1" in capsys.readouterr().err
    alone = ["train", "--data-path", str(table), "--output-dir", str(folder)]
    assert main([*alone, "--target-columns", pd.read_csv(table).columns[1]]) == 1
    assert "holds a cross-validation already" in capsys.readouterr().err
    assert main(["train", "--config", str(folder / "config.yaml")]) == 1
    assert "holds a cross-validation already" in capsys.readouterr().err
    assert main(["train", "--config", str(folder / "config.yaml"), "--resume", "--cv", "3"]) == 1
    assert "the run to resume has cv=2, but 3 is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ("--model", "linear", "wl"),
            "--model: several models are compared by train --cv, and here are",
        ),
        (("--repeats", 2), "--repeats is an option of --cv"),
        (("--cv", 1), "--cv: expected at least 2 folds, got 1"),
        (("--cv", 2, "--model", "gp", "gp"), "--model: expected different models, got gp, gp"),
        (("--cv", 2, "--split", "time", "--time-column", "t"), "--split time does not go with --cv"),
        (("--cv", 2, "--splits-column", "part"), "--splits-column does not go with --cv"),
        (("--cv", 2, "--split-sizes", 0.5, 0.5, 0), "--split-sizes does not go with --cv"),
        (
            ("--cv", 2, "--model", "wl", "--devices", 2),
            "--devices does not go with --cv, which splits and trains 2 times",
        ),
        (
            ("--cv", 2, "--model", "gp", "linear", "--epochs", 3),
            "--epochs is an option of --model wl",
        ),
    ],
)
def test_what_does_not_go_together(
    given: tuple[Any, ...], message: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cross(table, *given, "--output-dir", tmp_path / "cv") == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "cv").exists()


def test_a_model_that_is_unknown(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cross(table, "--cv", 2, "--model", "gp", "gin", "--output-dir", tmp_path / "cv")
    assert "--model: expected one of auto, gp, linear" in capsys.readouterr().err


def test_clusters_stay_in_one_fold(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cv"
    clusters = ("--split", "butina", "--cluster-similarity", 0.7, "--data-seed", 5)
    assert cross(table, "--cv", 2, "--model", "linear", *clusters, "--output-dir", folder) == 0
    [fold] = json.loads((folder / "folds.json").read_text())["folds"]
    cluster = butina_clusters(pd.read_csv(table)["smiles"].tolist(), 0.7)
    assert len(set(zip(cluster.tolist(), fold, strict=True))) == cluster.max() + 1
    data = load_molecules(table, target_columns="Act", cache=False)
    for seed in (5, 0):
        drawn = cv_folds(data, 2, 1, "butina", seed, similarity=0.7)[0].tolist()
        assert (drawn == fold) == (seed == 5)


def test_a_class_in_one_fold_is_refused_before_training(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(table)
    frame["one"] = [int(i == 7) for i in range(len(frame))]
    frame.to_csv(table, index=False)
    words = ["train", "--data-path", table, "--target-columns", "one", "--cv", 4, "--model", "wl", "linear"]
    assert main([*map(str, words), "--output-dir", str(tmp_path / "cv")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "linear, repeat 1, fold " in said
    assert "target one: expected two classes, all training molecules have 0" in said
    assert not (tmp_path / "cv" / "folds").exists()
