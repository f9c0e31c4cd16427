from __future__ import annotations

import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.edited import edit
from tests.inputs.molecules import MOLECULES, ROWS, regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.cli.predict import PredictOptions
from wlkernelnn.datasets import molecules_from
from wlkernelnn.training import load_ensemble

GOOD = np.flatnonzero(MOLECULES)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """All kinds of rows, with identifiers that numbers would spoil."""
    lines = [f'"{smiles}",00{i},{name}' for i, (name, (smiles, _)) in enumerate(ROWS.items())]
    (tmp_path / "rows.csv").write_text("\n".join(["SMILES,id,note", *lines]) + "\n")
    return tmp_path / "rows.csv"


def predict(table: Path, model: Path, preds: Path, *arguments: Any) -> int:
    command = ["predict", "--test-path", table, "--model-path", model, "--preds-path", preds, *arguments]
    return main([str(word) for word in command])


def text_of(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["predict", "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    for field in fields(PredictOptions):
        assert re.search(rf"^  --{field.name.replace('_', '-')}\b", out, re.MULTILINE), field.name


def test_every_row_in_order(
    run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(table, run_folder, tmp_path / "preds.csv") == 0
    rows, bad = len(ROWS), len(ROWS) - len(GOOD)
    out = capsys.readouterr().out
    assert f"{rows} rows in = {len(GOOD)} predicted + {bad} rejected" in out
    assert f"(reasons in {tmp_path / 'preds.rejects.csv'})" in out
    assert f"{rows} rows out: {tmp_path / 'preds.csv'}" in out
    came = text_of(tmp_path / "preds.csv")
    assert came.columns.tolist() == ["SMILES", "id", "note", "Act", "Act_std"]
    pd.testing.assert_frame_equal(came[["SMILES", "id", "note"]], text_of(table))
    assert (came["Act"] != "").tolist() == MOLECULES
    assert (came["Act_std"] != "").tolist() == MOLECULES

    smiles = [smiles for smiles, is_molecule in ROWS.values() if is_molecule]
    mean, std = load_ensemble(run_folder).predict(molecules_from(smiles, cache=False))
    np.testing.assert_allclose(came["Act"].iloc[GOOD].astype(float), mean[:, 0], rtol=1e-5)
    np.testing.assert_allclose(came["Act_std"].iloc[GOOD].astype(float), std[:, 0], rtol=1e-3, atol=1e-6)
    # A duplicate is predicted like the first.
    assert came["Act"][1] == came["Act"][6]


def test_rejects_have_row_smiles_and_reason(run_folder: Path, table: Path, tmp_path: Path) -> None:
    assert predict(table, run_folder, tmp_path / "preds.csv", "--rejects-path", tmp_path / "r.csv") == 0
    rejects = text_of(tmp_path / "r.csv")
    assert rejects.columns.tolist() == ["row", "smiles", "reason"]
    expected = [(str(i + 1), smiles) for i, (smiles, fine) in enumerate(ROWS.values()) if not fine]
    assert list(zip(rejects["row"], rejects["smiles"], strict=True))[:-2] == expected[:-2]
    reasons = dict(zip(rejects["row"], rejects["reason"], strict=True))
    assert "ring" in reasons["1"]
    assert reasons["3"] == "empty"
    assert reasons["4"] == "blank"
    assert "ethane" in reasons["6"]
    assert all(reasons.values())
    assert not (tmp_path / "preds.rejects.csv").exists()


def test_skip(run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(table, run_folder, tmp_path / "preds.csv", "--on-invalid", "skip") == 0
    came = text_of(tmp_path / "preds.csv")
    assert came["id"].tolist() == [f"00{i}" for i in GOOD]
    assert (came["Act"] != "").all()
    assert f"{len(GOOD)} rows out" in capsys.readouterr().out


def test_raise(run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(table, run_folder, tmp_path / "preds.csv", "--on-invalid", "raise") == 1
    err = capsys.readouterr().err
    assert f"error: {table}: {len(ROWS) - len(GOOD)} of {len(ROWS)} rows give no molecule" in err
    assert "data row 1 (line 2): 'C1CC'" in err
    assert not (tmp_path / "preds.csv").exists()
    assert (tmp_path / "preds.rejects.csv").is_file()


@pytest.mark.parametrize("mode", ["nan", "skip"])
def test_no_row_is_a_molecule(
    run_folder: Path, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rows.csv").write_text("smiles\nC1CC\nnan\n")
    assert predict(tmp_path / "rows.csv", run_folder, tmp_path / "preds.csv", "--on-invalid", mode) == 0
    came = text_of(tmp_path / "preds.csv")
    assert came["Act"].tolist() == ([""] * 2 if mode == "nan" else [])
    assert "none of 2 rows gives a molecule: is their SMILES in another column" in caplog.text


def test_parquet(run_folder: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": ["CCO", None, "C1CC", "CC"], "count": [4, 3, 2, 1]})
    frame.to_parquet(tmp_path / "rows.parquet")
    assert predict(tmp_path / "rows.parquet", run_folder, tmp_path / "preds.parquet") == 0
    came = pd.read_parquet(tmp_path / "preds.parquet")
    assert came["count"].tolist() == [4, 3, 2, 1]
    assert came["smiles"].isna().tolist() == [False, True, False, False]
    assert came["Act"].isna().tolist() == [False, True, True, False]
    assert came["Act"].dtype == np.float32
    rejects = text_of(tmp_path / "preds.rejects.csv")
    assert rejects["row"].tolist() == ["2", "3"]


def test_measured_values_stay(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = regression_set()
    table = write_table(tmp_path / "measured.csv", data)
    assert predict(table, run_folder, tmp_path / "preds.csv") == 0
    came = pd.read_csv(tmp_path / "preds.csv")
    pd.testing.assert_series_equal(came["Act"], pd.read_csv(table)["Act"])
    assert predict(tmp_path / "preds.csv", run_folder, tmp_path / "again.csv") == 1
    assert "has a column 'Act_pred', and so has the output" in capsys.readouterr().err
    np.testing.assert_allclose(came["Act_pred"], load_ensemble(run_folder).predict(data)[0][:, 0], rtol=1e-5)


def test_one_network(run_folder: Path, table: Path, tmp_path: Path) -> None:
    assert predict(table, run_folder / "model_1", tmp_path / "preds.csv") == 0
    assert text_of(tmp_path / "preds.csv").columns.tolist() == ["SMILES", "id", "note", "Act"]


def test_smiles_column(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.tsv").write_text("a\tb\nCCO\tCC\n")
    assert predict(tmp_path / "rows.tsv", run_folder, tmp_path / "preds.csv") == 1
    assert "no column 'smiles' (columns: 'a', 'b')" in capsys.readouterr().err
    assert predict(tmp_path / "rows.tsv", run_folder, tmp_path / "preds.csv", "--smiles-columns", "b") == 0
    assert text_of(tmp_path / "preds.csv").columns.tolist() == ["a", "b", "Act", "Act_std"]


def test_the_input_is_never_overwritten(
    run_folder: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_bytes()
    assert predict(table, run_folder, table.parent / "x" / ".." / table.name) == 1
    assert "is the input, which would be overwritten" in capsys.readouterr().err
    assert predict(table, run_folder, table.with_name("p.csv"), "--rejects-path", table) == 1
    assert "--rejects-path" in capsys.readouterr().err
    assert table.read_bytes() == before


def test_outputs_that_overwrite_each_other_or_a_network(
    run_folder: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table.with_name("p.csv")
    assert predict(table, run_folder, path, "--rejects-path", path.parent / "." / path.name) == 1
    assert "is --preds-path too: one would overwrite the other" in capsys.readouterr().err
    for folder in (run_folder, run_folder / "model_0"):
        before = sorted(folder.rglob("*"))
        assert predict(table, run_folder, folder) == 1
        assert re.search(r"holds .*config\..*, which this run has not written", capsys.readouterr().err)
        assert sorted(folder.rglob("*")) == before
    out = table.parent / "out"
    for rejects in (out / "r.csv", out / "deeper" / "r.csv"):
        assert predict(table, run_folder, out, "--rejects-path", rejects) == 1
        assert "r.csv lies in --preds-path, as if it were part of it" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--preds-path", "--rejects-path"])
def test_folders_in_place_of_files(
    run_folder: Path,
    table: Path,
    option: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is predicted before that is found."""
    monkeypatch.setattr("wlkernelnn.training.predict_tables", None, raising=False)
    paths = {"--preds-path": table.with_name("p.csv"), "--rejects-path": table.with_name("r.csv")}
    paths[option].mkdir()
    assert predict(table, run_folder, paths["--preds-path"], "--rejects-path", paths["--rejects-path"]) == 1
    expected = f"{option}: {paths[option]} is a folder, expected the name of a file"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("smiles\n", "has a header but no rows"),
        (b"\x89PNG\r\n\x1a\n\x00\x00" * 50, "not a text table: binary data"),
        (None, "no such file"),
    ],
    ids=["empty", "header", "binary", "absent"],
)
def test_tables_that_cannot_be_read(
    run_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | bytes | None,
    message: str,
) -> None:
    table = tmp_path / "rows.csv"
    if content is not None:
        table.write_bytes(content.encode() if isinstance(content, str) else content)
    assert predict(table, run_folder, tmp_path / "preds.csv") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"wlkernelnn predict: error: .*rows\.csv: .*{message}", line)
    assert not (tmp_path / "preds.csv").exists()


def test_networks_that_cannot_be_read(
    run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def message() -> str:
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert predict(table, tmp_path / "nowhere", tmp_path / "preds.csv") == 1
    assert "nowhere: expected a run folder" in message()
    shutil.copytree(run_folder, tmp_path / "run")
    weights = tmp_path / "run" / "model_1" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert predict(table, tmp_path / "run", tmp_path / "preds.csv") == 1
    assert "model_1/model.safetensors: not a whole safetensors file" in message()
    config = tmp_path / "run" / "model_0" / "config.json"
    config.write_text(config.read_text().replace('"decay"', '"decoy"'))
    assert predict(table, tmp_path / "run", tmp_path / "preds.csv") == 1
    assert "model_0/config.json: not what was written there" in message()
    edit(config, {})
    assert predict(table, tmp_path / "run", tmp_path / "preds.csv") == 1
    assert "unexpected keyword argument 'decoy'" in message()


def test_a_name_without_a_kind(run_folder: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(table, run_folder, table.with_name("preds.xlsx")) == 1
    assert "--preds-path: expected a name in .csv or .parquet" in capsys.readouterr().err
