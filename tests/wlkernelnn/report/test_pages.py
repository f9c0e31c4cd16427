"""The pages of evaluate and explain."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from tests.checks.pages import read
from tests.inputs.molecules import regression_set
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import MoleculeMachine, save_machine
from wlkernelnn.machines.parts import FEATURES

MEASURED = regression_set()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    data = load_molecules(MEASURED.smiles[:30], y=MEASURED.y[:30].numpy(), features=FEATURES, cache=False)
    save_machine(folder, MoleculeMachine().fit(data))
    return folder


def test_evaluation(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "later.html"
    table = run_folder / "test_predictions.csv"
    command = ["evaluate", "--data-path", table, "--model-path", run_folder, "--report-path", path]
    assert main([*map(str, command), "--metrics", "mae"]) == 0
    out = capsys.readouterr().out
    assert f"report: {path}" in out
    page = read(path)
    frame = pd.read_csv(table)
    error = (frame["Act"] - frame["Act_pred"]).abs()
    assert f"{error.mean():.4g}" in page.text
    worst = error.argmax()
    (first, *_) = re.findall(r"row (\d+)measured", page.text)
    assert int(first) == worst + 1
    assert "Spearman" in page.text  # all metrics, whatever is printed
    assert "training row" not in page.text  # networks do not know their training molecules
    assert main([*map(str, command[:-1]), str(table)]) == 1
    assert "--report-path" in capsys.readouterr().err


def test_evaluation_of_a_machine_names_training_molecules(machine: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": MEASURED.smiles[30:50], "y": MEASURED.y[30:50, 0].numpy()})
    frame.to_csv(tmp_path / "later.csv", index=False)
    command = ["evaluate", "--data-path", tmp_path / "later.csv", "--model-path", machine]
    command += ["--target-columns", "y", "--report-path", tmp_path / "later.html"]
    assert main([*map(str, command)]) == 0
    page = read(tmp_path / "later.html")
    assert len(re.findall(r"training row \d+, similarity [01]\.\d\d", page.text)) == 8
    assert "Errors by similarity" in page.text


def test_explanation(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"smiles": [*MEASURED.smiles[:3], "<b>"]}).to_csv(tmp_path / "rows.csv", index=False)
    command = ["explain", "--test-path", tmp_path / "rows.csv", "--model-path", machine, "--drawings", 2]
    assert main([*map(str, command), "--output-dir", str(tmp_path / "out")]) == 0
    assert f"report: {tmp_path / 'out' / 'report.html'}" in capsys.readouterr().out
    page = read(tmp_path / "out" / "report.html")
    molecules = pd.read_csv(tmp_path / "out" / "molecules.csv")
    for prediction in molecules["prediction"]:
        assert f"{prediction:.4g}" in page.text
    assert page.links == ["#molecules", "#drawings", "#row-1", "#row-2"]
    atoms = pd.read_csv(tmp_path / "out" / "atoms.csv")
    largest = atoms[atoms["row"] == 1].iloc[:, -1].abs().max()
    assert f"{-largest:.4g}" in page.text  # the legend
    assert "3 molecules, 1 rows rejected" in page.text


def test_explanation_of_networks(run_folder: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["CCO", "c1ccccc1O"]}).to_csv(tmp_path / "rows.csv", index=False)
    command = ["explain", "--test-path", tmp_path / "rows.csv", "--model-path", run_folder]
    assert main([*map(str, command), "--output-dir", str(tmp_path / "out")]) == 0
    page = read(tmp_path / "out" / "report.html")
    assert "prediction" in page.text
    assert "Each prediction is the sum" not in page.text
