from __future__ import annotations

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.molecules import (
    SMALL_RUN,
    classification_set,
    regression_set,
    small_network,
    write_table,
)
from wlkernelnn.cli.evaluate import DATA_OPTIONS, EvaluateOptions
from wlkernelnn.cli.main import main
from wlkernelnn.training import calibration, load_ensemble, predict, save_checkpoint, score
from wlkernelnn.training.molecules.recalibration import Recalibration


def evaluate(*arguments: Any) -> int:
    return main(["evaluate", *map(str, arguments)])


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        evaluate("--help")
    assert left.value.code == 0
    out = capsys.readouterr().out
    for name in [*DATA_OPTIONS, *(field.name for field in fields(EvaluateOptions))]:
        assert re.search(rf"^  --{name.replace('_', '-')}\b", out, re.MULTILINE), name


def test_regression(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = regression_set()
    table = run_folder.parent / "molecules.csv"
    path = tmp_path / "scores.json"
    assert evaluate("--data-path", table, "--model-path", run_folder, "--metrics-path", path) == 0
    out, err = capsys.readouterr()
    assert "60 rows in = 60 molecules + 0 rejected" in err
    mean, _ = load_ensemble(run_folder).predict(data)
    report = json.loads(path.read_text())
    assert (report["molecules"], report["rejected"]) == (60, 0)
    for name in ("rmse", "mae", "r2"):
        expected = score(name, data.y.numpy(), mean)
        assert report["mean"][name] == pytest.approx(expected, rel=1e-5)
        assert report["targets"]["Act"][name] == report["mean"][name]
        assert f" {expected:.4f} " in out
    assert "molecules.csv: 60 molecules" in out


def test_the_test_part_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    """The predictions in a run folder are a table that can be evaluated, and give the score of the run."""
    path = tmp_path / "scores.json"
    table = run_folder / "test_predictions.csv"
    assert evaluate("--data-path", table, "--model-path", run_folder, "--metrics-path", path) == 0
    expected = json.loads((run_folder / "metrics.json").read_text())["test"]
    assert json.loads(path.read_text())["mean"]["rmse"] == pytest.approx(expected, rel=1e-5)


def test_molecules_of_the_training_are_told(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, path, page = run_folder.parent / "molecules.csv", tmp_path / "scores.json", tmp_path / "page.html"
    command = ["--data-path", table, "--metrics", "mae"]
    for folder in (run_folder, run_folder / "model_0"):
        assert evaluate(*command, "--model-path", folder, "--metrics-path", path, "--report-path", page) == 0
        out, err = capsys.readouterr()
        said = "48 of 60 rows are of molecules that the model was trained on"
        assert said in err
        assert said in page.read_text()
        assert "the 12 rows of other molecules" in out
        report = json.loads(path.read_text())
        assert report["in_training"] == 48
    assert (
        evaluate(*command[2:], "--data-path", run_folder / "test_predictions.csv", "--model-path", folder)
        == 0
    )
    assert "was trained on" not in capsys.readouterr().err
    shutil.copytree(folder, tmp_path / "alone")
    assert evaluate(*command, "--model-path", tmp_path / "alone", "--metrics-path", path) == 0
    assert "not known which of these molecules the training had: no training" in capsys.readouterr().err
    assert "in_training" not in json.loads(path.read_text())
    known = tmp_path / "alone" / "training_molecules.json"
    content = json.loads((run_folder / "training_molecules.json").read_text())
    known.write_text(json.dumps(content | {"rdkit": "2020.03.1"}))
    assert evaluate(*command, "--model-path", tmp_path / "alone") == 0
    assert "was written with RDKit 2020.03.1, and here is" in capsys.readouterr().err
    known.write_text(json.dumps(content | {"molecules": ["CCO"]}))
    assert evaluate(*command, "--model-path", tmp_path / "alone") == 1
    assert f"{known}: not as a run writes it (ValueError" in capsys.readouterr().err


def test_classification_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """train, predict and evaluate on a table with missing labels agree with each other."""
    data = classification_set()
    table = write_table(tmp_path / "set.csv", data)
    run, preds, scores = tmp_path / "run", tmp_path / "preds.csv", tmp_path / "scores.json"
    command = f"train --data-path {table} --target-columns active aza --output-dir {run}"
    assert main([*command.split(), *SMALL_RUN, "--split-sizes", "0.6", "0.2", "0.2"]) == 0
    assert (
        main(["predict", "--test-path", f"{table}", "--model-path", f"{run}", "--preds-path", f"{preds}"])
        == 0
    )
    capsys.readouterr()
    assert evaluate("--data-path", table, "--model-path", run, "--metrics-path", scores) == 0
    out = capsys.readouterr().out
    prediction = pd.read_csv(preds)[["active_pred", "aza_pred"]].to_numpy()
    assert 0 < prediction.min() < prediction.max() < 1
    report = json.loads(scores.read_text())
    # By their names, in whatever order they are given.
    again = tmp_path / "again.json"
    command = ["--data-path", table, "--model-path", run, "--target-columns", "aza", "active"]
    assert evaluate(*command, "--metrics-path", again) == 0
    assert json.loads(again.read_text()) == report
    # Some of them.
    some = tmp_path / "some.json"
    pd.read_csv(table).dropna(subset="aza").drop(columns="active").to_csv(tmp_path / "aza.csv", index=False)
    command = ["--data-path", tmp_path / "aza.csv", "--model-path", run, "--target-columns", "aza"]
    assert evaluate(*command, "--metrics-path", some) == 0
    of_aza = json.loads(some.read_text())["targets"]
    assert of_aza == {"aza": pytest.approx(report["targets"]["aza"], rel=1e-5)}
    capsys.readouterr()
    for name in ("roc_auc", "average_precision", "accuracy", "f1", "mcc", "log_loss", "brier", "ece"):
        expected = score(name, data.y.numpy(), prediction)
        assert report["mean"][name] == pytest.approx(expected, rel=1e-5)
        assert name in out
    first = [line.split("│")[1].strip() for line in out.splitlines() if "│ " in line]
    assert first == ["active", "aza", "mean"] * 4  # all molecules, then those that the training had not
    assert max(map(len, out.splitlines())) <= 80


def test_other_names_of_the_targets_and_chosen_metrics(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = regression_set()[:10]
    frame = pd.DataFrame({"s": data.smiles, "pIC50 [mol/l]": data.y[:, 0]})
    frame.to_csv(tmp_path / "other.csv", index=False)
    command = ["--data-path", tmp_path / "other.csv", "--smiles-columns", "s", "--model-path", run_folder]
    assert evaluate(*command, "--target-columns", "pIC50 [mol/l]", "--metrics", "mae") == 0
    out = capsys.readouterr().out
    assert "pIC50 [mol/l]" in out
    assert "rmse" not in out
    assert evaluate(*command) == 1
    assert "no column 'Act'" in capsys.readouterr().err
    assert evaluate(*command, "--target-columns", "s", "pIC50 [mol/l]") == 1
    message = "--target-columns: expected some of Act, or 1 columns of other names; got s, pIC50 [mol/l]"
    assert message in " ".join(capsys.readouterr().err.split())
    assert evaluate(*command, "--metrics", "roc_auc") == 1
    assert "mae, r2, spearman for regression, got 'roc_auc'" in capsys.readouterr().err


def test_a_score_that_cannot_be_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    data = classification_set()
    about = {"features": "ogb", "target_names": ["active", "aza"], "task": "classification"}
    save_checkpoint(tmp_path / "net", small_network(data), about)
    only_ones = data.y.clamp(min=1)
    table = write_table(tmp_path / "set.csv", data.with_targets(only_ones))
    command = ["--data-path", table, "--model-path", tmp_path / "net", "--metrics", "roc_auc", "accuracy"]
    assert evaluate(*command, "--metrics-path", tmp_path / "scores.json") == 0
    report = json.loads((tmp_path / "scores.json").read_text())
    assert report["mean"]["roc_auc"] is None
    expected = score(
        "accuracy", only_ones.numpy(), predict(load_ensemble(tmp_path / "net").networks[0], data)
    )
    assert report["mean"]["accuracy"] == pytest.approx(expected)
    assert " nan " in capsys.readouterr().out

    assert "roc_auc is the mean of 0 of 2 targets" in caplog.text
    caplog.clear()
    one_class = torch.stack([data.y[:, 0], only_ones[:, 1]], dim=1)
    table = write_table(tmp_path / "set.csv", data.with_targets(one_class))
    assert evaluate(*command) == 0
    said = "set.csv: roc_auc is the mean of 1 of 2 targets; too few values, or a single class, have aza"
    assert caplog.messages[-1] == said

    table = write_table(tmp_path / "set.csv", data.with_targets(only_ones + 1, task="regression"))
    assert evaluate(*command) == 1
    assert "column 'active': expected 0 or 1 (or false or true), or nothing for a" in capsys.readouterr().err


def test_rows_without_molecule_or_target(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "set.csv").write_text("smiles,Act\nCCO,5\nC1CC,6\nCC,\nCCC,7\n")
    command = ["--data-path", tmp_path / "set.csv", "--model-path", run_folder]
    assert evaluate(*command) == 1
    assert "2 of 4 rows give no molecule" in capsys.readouterr().err
    assert evaluate(*command, "--on-invalid", "skip", "--rejects-path", tmp_path / "rejects.csv") == 0
    assert "4 rows in = 2 molecules + 2 rejected" in capsys.readouterr().err
    rejects = pd.read_csv(tmp_path / "rejects.csv")
    assert rejects["row"].tolist() == [2, 3]
    assert rejects["reason"][1] == "no target value"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--metrics-path", ".", "--metrics-path: .* is a folder, expected the name of a file"),
        ("--rejects-path", ".", "--rejects-path: .* is a folder, expected the name of a file"),
        ("--plot-path", "a.bmp", r"--plot-path: expected a name in .png, .svg, .pdf, got a.bmp"),
        ("--plot-path", "a.png", "--plot-path: networks have deviations of new measurements where recal"),
    ],
    ids=["metrics", "rejects", "plot", "plot of networks without deviations"],
)
def test_bad_options_are_found_before_data_are_read(
    run_folder: Path, option: str, value: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate("--data-path", "nowhere.csv", "--model-path", run_folder, option, value) == 1
    assert re.search(message, capsys.readouterr().err)


def test_no_molecule_at_all(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "bad.csv"
    table.write_text("smiles,Act\nC1CC,1\n")
    command = ["--data-path", table, "--model-path", run_folder, "--on-invalid", "skip"]
    assert evaluate(*command) == 1
    assert "bad.csv: 1 of 1 rows give no molecule or have no target data row 1 (line 2): 'C1CC'" in " ".join(
        capsys.readouterr().err.split()
    )


def test_columns_in_the_place_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column of a target's name is that target: in another's place it would be taken for that."""
    data = classification_set()
    about = {"features": "ogb", "target_names": ["active", "aza"], "task": "classification"}
    save_checkpoint(tmp_path / "model", small_network(data), about)
    frame = pd.DataFrame({"smiles": data.smiles, "aza": data.y[:, 1], "other": data.y[:, 0]})
    frame.to_csv(tmp_path / "set.csv", index=False)
    command = ["--data-path", tmp_path / "set.csv", "--model-path", tmp_path / "model", "--target-columns"]
    assert evaluate(*command, "aza", "other") == 1
    assert "got aza, other, where aza stands in the place of active" in capsys.readouterr().err
    assert evaluate(*command, "other", "aza") == 0


@pytest.mark.parametrize("option", ["--metrics-path", "--rejects-path"])
def test_the_data_are_not_overwritten(
    option: str, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "set.csv"
    table.write_text("smiles,Act\nCCO,1\nCCC,2\n")
    command = ["--data-path", table, "--model-path", run_folder]
    assert evaluate(*command, option, table) == 1
    assert f"{option}: {table} is the input, which would be overwritten" in capsys.readouterr().err
    assert evaluate(*command, "--metrics-path", tmp_path / "a", "--rejects-path", tmp_path / "a") == 1
    assert "is --metrics-path too" in capsys.readouterr().err


@pytest.mark.usefixtures("rendered")
def test_pictures(run_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, picture = run_folder.parent / "molecules.csv", tmp_path / "out" / "picture.svg"
    with caplog.at_level("INFO"):
        assert evaluate("--data-path", table, "--model-path", run_folder) == 0
    assert "no figures of deviations: networks have deviations" in caplog.text
    shutil.copytree(run_folder, tmp_path / "run")
    Recalibration(np.array([2.0]), np.array([0.5]), np.array([12]), networks=2).save(tmp_path / "run")
    scores = tmp_path / "scores.json"
    command = ["--data-path", table, "--model-path", tmp_path / "run", "--plot-path", picture]
    assert evaluate(*command, "--metrics-path", scores) == 0
    for text in ("Act", "share of targets within", "predicted deviation", "measured"):
        assert f">{text}" in picture.read_text()
    data = regression_set()
    mean, spread = load_ensemble(run_folder).predict(data)
    std = np.sqrt(4 * spread**2 + 0.25)
    found = json.loads(scores.read_text())["targets"]["Act"]
    assert found["coverage_80"] == pytest.approx(calibration(data.y, mean, std)["coverage_80"][0])
    assert found["by_deviation"]["count"] == [12] * 5


@pytest.mark.usefixtures("rendered")
def test_picture_of_classes(tmp_path: Path) -> None:
    data = classification_set()
    about = {"features": "ogb", "target_names": ["active", "aza"], "task": "classification"}
    save_checkpoint(tmp_path / "net", small_network(data), about)
    table, picture = write_table(tmp_path / "set.csv", data), tmp_path / "picture.svg"
    assert evaluate("--data-path", table, "--model-path", tmp_path / "net", "--plot-path", picture) == 0
    for text in ("active", "aza", "share of class 1"):
        assert f">{text}" in picture.read_text()
