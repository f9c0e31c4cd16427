"""Tables and options that ``train`` refuses, and what it says of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.inputs.molecules import SMALL_RUN, regression_set, write_table
from wlkernelnn.cli.main import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "set.csv", regression_set())


def train(*arguments: Any) -> int:
    return main(["train", *SMALL_RUN, *map(str, arguments)])


def test_a_table_that_the_run_would_overwrite(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run" / "test_predictions.csv"
    path.parent.mkdir()
    shutil.copy(table, path)
    content = path.read_bytes()
    assert train("--data-path", path, "--target-columns", "Act", "--output-dir", path.parent) == 1
    assert "test_predictions.csv is a file that the run would overwrite" in capsys.readouterr().err
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "name", ["README.md", "config.json", "model.safetensors", "config.yaml", "splits.json"]
)
def test_files_that_are_not_of_a_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--data-path", tmp_path / "nowhere.csv", "--target-columns", "Act", "--output-dir", tmp_path]
    others = {"config.yaml": "{colour: red, seed: 3}", "splits.json": "[]"}
    (tmp_path / name).write_text(others.get(name, "{}"))
    assert train(*command) == 1
    said = f"{tmp_path / name} is not of a run, and would be overwritten: choose another folder"
    assert said in capsys.readouterr().err
    if name != "config.yaml":  # its options are compared with those that are given
        assert train(*command, "--resume") == 1
        assert said in capsys.readouterr().err
    # What a run that failed left is in nobody's way.
    (tmp_path / name).write_text('{"seed": 3}')
    (tmp_path / "splits.json").write_text("{}")
    assert train(*command) == 1
    assert "nowhere.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (
            "smiles,y\nCCO,1.5\nCC,high\n",
            "",
            r"data row 2 \(line 3\), column 'y': expected a finite number.*'high'",
        ),
        ("smiles,y\nCCO,1.5\nCC,\n", "", r"1 of 2 rows give no molecule"),
        ("smiles,y\nCCO,1.5\nC1CC,2\n", "", r"1 of 2 rows give no molecule"),
        ("smiles,logS\nCCO,1.5\n", "", r"no column 'y' \(columns: 'smiles', 'logS'\)"),
        ("structure,y\nCCO,1.5\n", "", r"no column 'smiles' \(columns: 'structure', 'y'\)"),
        ("smiles,y\nCCO,1.5\n", "--smiles-columns SMILES", r"no column 'SMILES' \(columns: 'smiles', 'y'\)"),
        ("", "", "the file is empty"),
        ("smiles,y\n", "", "has a header but no rows"),
        (b"\x00\x01\x02\xff" * 100, "", "not a text table: binary data"),
        (b"PK\x03\x04" + b"x" * 100, "", "a zip archive or an Excel workbook"),
        ("smiles,y\nCCO,1,2\n", "", r"data row 1 \(line 2\) has 3 fields, expected 2"),
        ("smiles,y\nCCO,1.5\nCC,2\n", "", "the valid part of the split is empty: 2 items"),
        ("smiles,y\nCCO,1\nCC,2\n", "--split-sizes 0.5 0.5 0.5", "--split-sizes: expected three fractions"),
        ("smiles,y\nCCO,test\nCC,test\n", "--splits-column y", "expected a finite number"),
        ("smiles,y,s\nCCO,1,test\nCC,2,test\n", "--splits-column s", "the split has no training part"),
        (
            "smiles,y,s\nCCO,1,a\nCC,2,test\n",
            "--splits-column s",
            "column 's': data row 1: expected a split label",
        ),
        (
            "smiles,y\n" + "".join(f"{'C' * n}O,{n % 2}\n" for n in range(1, 19)),
            "--metric rmse",
            "metric must be one of roc_auc, .* got 'rmse'",
        ),
        (
            "smiles,y\n" + "CCO,1\nCC,0\n" * 9,
            "",
            "valid part .* is empty: 18 items .*; they are 2 different ones, which are not split",
        ),
        ("smiles,y\n" + "CCO,1\nCC,2\n" * 9, "--lr 0", "lr must be above 0, got 0"),
        (
            "smiles,y\n" + "CCO,1\nCC,2\n" * 9,
            "--lr-decay 0.1",
            "--lr-decay is an option of --schedule exponential, but the schedule is cosine",
        ),
        (
            "smiles,y\n" + "CCO,1\nCC,2\n" * 9,
            "--schedule constant --lr-min 1e-4",
            "--lr-min is an option of --schedule cosine and exponential, but the schedule is constant",
        ),
        ("smiles,y\nCCO,1e-50\n", "", r"column 'y': expected a finite number of 32 bits.*1e-50"),
        ("smiles,y\n" + "CCO,1\nCC,2\n" * 9, "--precision half", "precision must be one of .* got 'half'"),
    ],
)
def test_bad_input(
    content: str | bytes, arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "set.csv"
    table.write_bytes(content.encode() if isinstance(content, str) else content)
    command = ["--data-path", table, "--target-columns", "y", "--output-dir", tmp_path / "run"]
    assert train(*command, *arguments.split()) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 1
    assert errors[0].startswith("wlkernelnn train: error: ")
    assert re.search(message, errors[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--seed 4294967295 --ensemble-size 2", "seed must be from 0 to .*, got 4294967296"),
        ("--metric auc", "metric must be one of rmse, .* got 'auc'"),
        ("--precision 99", "precision must be one of 64-true, .* got '99'"),
        ("--precision 16-true", "precision must be one of 64-true, .* got '16-true'"),
        ("--accelerator abacus", "abacus"),
        ("--decay 2", r"decay must be a float in \[0, 1\], .* got 2.0"),
        ("--readout cat --hidden-channels 9", "9 is not divisible by num_iterations=2"),
        ("--hidden-channels 0", "hidden_channels must be an integer of at least 1, got 0"),
    ],
)
def test_bad_options_are_found_before_data_are_read(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--data-path", "nowhere.csv", "--target-columns", "y", "--output-dir", tmp_path / "run"]
    assert train(*command, *arguments.split()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert not (tmp_path / "run").exists()


def test_unknown_key_in_a_config(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("epochs: 2\nepohcs: 3\n")
    with pytest.raises(SystemExit) as left:
        train("--config", tmp_path / "bad.yaml", "--data-path", table, "--output-dir", tmp_path / "run")
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'epohcs'" in line
    assert not (tmp_path / "run").exists()


def test_an_output_dir_that_is_a_file(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data-path", table, "--target-columns", "Act", "--output-dir", table) == 1
    assert "set.csv" in capsys.readouterr().err
    assert len(pd.read_csv(table)) == 60
