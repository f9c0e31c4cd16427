from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.checks.pages import read
from tests.inputs.molecules import classification_set, regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.report import write_run_page
from wlkernelnn.training import load_run


def test_networks(run_folder: Path) -> None:
    page = read(run_folder / "report.html")
    report = json.loads((run_folder / "metrics.json").read_text())
    for part in ("train", "valid", "test"):
        assert f"{report['scores'][part]['mean']['spearman']:.4g}" in page.text
    for section in ("Data", "Model", "Learning curves", "Predictions", "Calibration", "Worst predictions"):
        assert section in page.text
    assert "2 networks that differ in their seeds" in page.text
    assert "network 2: loss" in page.text
    assert f"--output-dir {run_folder}" in page.text
    assert "--hidden-channels 8" in page.text
    worst = pd.read_csv(run_folder / "test_predictions.csv")
    rows = worst["row"][(worst["Act"] - worst["Act_pred"]).abs().argsort()[::-1]]
    shown = [int(row) for row in re.findall(r"(?<!training )row (\d+)measured", page.text)]
    assert shown == rows.tolist()[: len(shown)]
    assert "training row" in page.text


def test_text_of_the_user_is_escaped(tmp_path: Path) -> None:
    """Of a column, of the table's name and of a rejected row, in a run of a machine for classes."""
    data = classification_set()
    name, bad = "<b>&active", "<img src=x>"
    table = write_table(tmp_path / "a&<i>b.csv", data).rename(tmp_path / "a&<i>b.csv")
    frame = pd.read_csv(table).rename(columns={"active": name})
    frame.loc[len(frame)] = {"smiles": bad, name: 1.0, "aza": 0.0}
    frame.to_csv(table, index=False)
    command = ["train", "--data-path", str(table), "--target-columns", name, "aza", "--on-invalid", "skip"]
    assert main([*command, "--model", "linear", "--output-dir", str(tmp_path / "run")]) == 0
    page = read(tmp_path / "run" / "report.html")
    assert not {"b&active", "img", "i"} & {*page.tags}
    assert f"ROC: {name}" in page.text
    assert "a&<i>b.csv" in page.text
    assert bad in page.text
    assert f"{len(frame)} = {len(data)} molecules + 1 rejected" in page.text
    for text in ("Logistic regression", "precision and recall", "of the largest log loss"):
        assert text in page.text


def test_no_part_apart_and_a_molecule_without_neighbours(run_folder: Path, tmp_path: Path) -> None:
    data, folder = regression_set(), tmp_path / "run"
    shutil.copytree(run_folder, folder)
    frame = pd.DataFrame({"row": range(60), "Act": data.y[:, 0], "Act_pred": data.y[:, 0]})
    frame.to_csv(folder / "train_predictions.csv", index=False)
    report = json.loads((folder / "metrics.json").read_text())
    report |= {"counts": {"train": 60}, "scores": {"train": report["scores"]["train"]}}
    write_run_page(folder, load_run(folder), data, {"train": np.arange(60)}, report)
    page = read(folder / "report.html")
    assert "Training saw all parts" in page.text
    assert "Worst predictions" not in page.text


def test_a_page_that_fails_leaves_the_run_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> Path:
        raise RuntimeError("no\npage today")

    monkeypatch.setattr("wlkernelnn.report.write_run_page", fails)
    table = write_table(tmp_path / "set.csv", regression_set())
    command = f"train --data-path {table} --target-columns Act --model linear --output-dir {tmp_path / 'run'}"
    assert main(command.split()) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if "report.html" in line]
    assert line == "no report.html: RuntimeError: no page today"
    assert "run folder" in out
    assert load_run(tmp_path / "run").about["target_names"] == ["Act"]
