from __future__ import annotations

import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import SMALL_RUN, classification_set, regression_set, small_network
from wlkernelnn.cli.explain import ExplainOptions
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.training import load_ensemble, save_checkpoint
from wlkernelnn.training.molecules.explain import atom_contributions

SMILES = ["CCO", "C1CC", "[Na+].[Cl-]"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pd.DataFrame({"smiles": SMILES}).to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def explain(table: Path, model: Path, folder: Path, *arguments: Any) -> int:
    words = ["explain", "--test-path", table, "--model-path", model, "--output-dir", folder, *arguments]
    return main([str(word) for word in words])


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["explain", "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    for field in fields(ExplainOptions):
        assert re.search(rf"^  --{field.name.replace('_', '-')}\b", out, re.MULTILINE), field.name


def test_large_molecules_take_little_room(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large, table, out = "C" * 201, tmp_path / "rows.csv", tmp_path / "out"
    pd.DataFrame({"smiles": [large, "CCO", "C" * 300]}).to_csv(table, index=False)
    assert explain(table, run_folder, out, "--drawings", 1, "--max-length", 250) == 0
    assert "1 molecules drawn (not those of more than 200 atoms)" in capsys.readouterr().out
    assert [path.name for path in out.glob("*.svg")] == ["row-2.svg"]
    atoms = pd.read_csv(out / "atoms.csv", keep_default_na=False)
    assert atoms["smiles"].tolist() == [large] + [""] * 200 + ["CCO"] * 3
    assert "300 characters, more than max_length = 250" in (out / "rejects.csv").read_text()


def test_every_atom(
    run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(table, run_folder, tmp_path / "out") == 0
    assert "2 molecules (1 rows were rejected, see rejects.csv): 5 atoms in" in capsys.readouterr().out
    came = pd.read_csv(tmp_path / "out" / "atoms.csv")
    assert came.columns.tolist() == ["row", "smiles", "atom", "element", "Act"]
    assert came["row"].tolist() == [1, 1, 1, 3, 3]
    assert came["smiles"].tolist() == [SMILES[0]] * 3 + [SMILES[2]] * 2
    assert came["atom"].tolist() == [0, 1, 2, 0, 1]
    assert came["element"].tolist() == ["C", "C", "O", "Na", "Cl"]
    data = load_molecules([SMILES[0], SMILES[2]], cache=False)
    expected = atom_contributions(load_ensemble(run_folder).networks, data)
    np.testing.assert_allclose(came["Act"], expected[:, 0], rtol=1e-4, atol=1e-5)
    assert pd.read_csv(tmp_path / "out" / "rejects.csv")["row"].tolist() == [2]
    assert sorted(path.name for path in (tmp_path / "out").glob("*.svg")) == ["row-1.svg", "row-3.svg"]


def test_nothing_is_overwritten_or_mixed(
    run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(table, run_folder, tmp_path / "out") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert explain(table, run_folder, tmp_path / "out") == 1
    assert "atoms.csv is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    for name in ("atoms.csv", "row-1.svg", "row-3.svg"):
        (tmp_path / "out" / name).unlink()
    assert explain(table, run_folder, tmp_path / "out") == 1
    assert "report.html is there already" in capsys.readouterr().err
    (tmp_path / "out" / "report.html").unlink()
    assert explain(tmp_path / "out" / "rejects.csv", run_folder, tmp_path / "out") == 1
    assert "which is to be explained, would be overwritten" in capsys.readouterr().err
    # What is left of a call that failed is in nobody's way.
    assert explain(table, run_folder, tmp_path / "out") == 0
    shutil.copytree(run_folder, tmp_path / "run")
    assert explain(table, run_folder, tmp_path / "run") == 1
    assert "holds a run already" in capsys.readouterr().err
    assert explain(tmp_path, run_folder, tmp_path / "other") == 1
    assert "is a folder, expected one table" in capsys.readouterr().err


def test_rounding_is_not_painted(run_folder: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["C1CCCCC1"]}).to_csv(tmp_path / "rows.csv", index=False)
    assert explain(tmp_path / "rows.csv", run_folder, tmp_path / "out") == 0
    assert pd.read_csv(tmp_path / "out" / "atoms.csv")["Act"].abs().max() < 1e-4
    assert "#FF0000" not in (tmp_path / "out" / "row-1.svg").read_text()


def save(folder: Path, names: list[str]) -> Path:
    about = {"features": "ogb", "target_names": names, "task": "classification"}
    save_checkpoint(folder, small_network(classification_set()), about)
    return folder


def test_several_targets(table: Path, tmp_path: Path) -> None:
    model = save(tmp_path / "net", ["a/b", "aza"])
    assert explain(table, model, tmp_path / "out", "--drawings", 1) == 0
    assert pd.read_csv(tmp_path / "out" / "atoms.csv").columns.tolist()[4:] == ["a/b", "aza"]
    drawn = [path.name for path in sorted((tmp_path / "out").glob("*.svg"))]
    assert drawn == ["row-1_target-1.svg", "row-1_target-2.svg"]
    assert explain(table, model, tmp_path / "none", "--drawings", 0) == 0
    assert not list((tmp_path / "none").glob("*.svg"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on-invalid", "raise"], "1 of 3 rows give no molecule"),
        (["--drawings=-1"], "--drawings: expected at least 0, got -1"),
        (["--smiles-columns", "name"], "name"),
    ],
)
def test_refused(
    arguments: list[str],
    message: str,
    run_folder: Path,
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain(table, run_folder, tmp_path / "out", *arguments) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "atoms.csv").exists()


def test_a_target_of_the_name_of_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before the table is read."""
    assert explain(tmp_path / "nowhere.csv", save(tmp_path / "net", ["atom", "aza"]), tmp_path / "out") == 1
    assert "net: target 'atom': atoms.csv has a column of this name already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("features", "options"),
    [("ogb+ring_nodes", SMALL_RUN), ("ogb+invariants+ring_nodes+descriptors", ["--model", "gp"])],
    ids=["network", "machine"],
)
def test_runs_whose_rings_are_nodes(features: str, options: list[str], table: Path, tmp_path: Path) -> None:
    data = regression_set()[::2]
    pd.DataFrame({"smiles": data.smiles, "Act": data.y[:, 0]}).to_csv(tmp_path / "train.csv", index=False)
    command = f"train --data-path {tmp_path}/train.csv --output-dir {tmp_path}/run --features {features}"
    command += " --target-columns Act"
    assert main([*command.split(), *options]) == 0
    smiles = [*SMILES, "OC1CC1c1ccccc1"]
    pd.DataFrame({"smiles": smiles}).to_csv(table, index=False)
    assert explain(table, tmp_path / "run", tmp_path / "out") == 0
    atoms = pd.read_csv(tmp_path / "out" / "atoms.csv")
    assert atoms["row"].value_counts(sort=False).to_dict() == {1: 3, 3: 2, 4: 10}
    assert atoms["element"].tolist() == [*"CCO", "Na", "Cl", *"OCCCCCCCCC"]
    assert atoms["Act"].notna().all()
    assert (tmp_path / "out" / "row-4.svg").is_file()
    rows = f"predict --test-path {table} --model-path {tmp_path}/run --preds-path {tmp_path}/predicted.csv"
    assert main(rows.split()) == 0
    predicted = pd.read_csv(tmp_path / "predicted.csv")["Act"].dropna()
    assert len(predicted) == 3
    if "gp" in options:
        molecules = pd.read_csv(tmp_path / "out" / "molecules.csv")
        sums = atoms.groupby("row")["Act"].sum().to_numpy()
        np.testing.assert_allclose(molecules["atoms"], sums)
        np.testing.assert_allclose(molecules["prediction"], predicted, rtol=1e-6)
