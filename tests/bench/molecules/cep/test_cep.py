from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines import chemprop, wl_machines
from wlkernelnn.bench.harness import molecule_runs
from wlkernelnn.bench.molecules.cep import cep
from wlkernelnn.bench.molecules.cep import models as cep_models
from wlkernelnn.bench.molecules.cep.models import MODELS, OWN
from wlkernelnn.bench.molecules.cep.table import MIXED
from wlkernelnn.cli.main import main
from wlkernelnn.training import score


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Molecules with columns in other cases and orders, small networks, and no chemprop."""
    monkeypatch.setattr(cep_models, "PARAMETERS", 3_000)
    monkeypatch.setattr(wl_machines, "PENALTIES", (1.0, 0.01))
    monkeypatch.setattr(chemprop, "installed", lambda: False)
    data = regression_set()
    labels = np.repeat(["train", "valid", "test"], [40, 10, 10])
    path = tmp_path / "molecules.csv"
    frame = pd.DataFrame({"PCE": data.y[:, 0], "SMILES": data.smiles, "part": labels})
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def of_one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are no wider or narrower than others of their kind, whatever their number of parameters."""
    monkeypatch.setattr(cep_models, "width_for", lambda make, parameters: 6)


def run(table: Path, *more: str, name: str = "cep_molecules") -> dict[str, Any]:
    arguments = f"--run-dir {table.parent / 'runs'} --output-dir {table.parent / 'out'}"
    if "--data" not in more:
        arguments += f" --data {table}"
    assert main(["benchmark", "cep", *arguments.split(), *more]) == 0
    return json.loads((table.parent / "out" / f"{name}.json").read_text())


def test_all_rows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(table, "--epochs", "1", "--seeds", "1")
    runs = {record["model"]: record for record in result["runs"]}
    assert list(runs) == [name for name in MODELS if name != "chemprop"]
    for name in (name for name, model in MODELS.items() if model.network is not None):
        record = runs[name]
        assert abs(record["parameters"] / 3_000 - 1) < 0.25, name  # widths are whole numbers
        assert record["epochs"] == 1
        assert record["network"] == MODELS[name].network.__name__
        assert record["scores"]["test"]["rmse"] > 0
    assert {record["split_sha256"] for record in runs.values()} == {runs["mean"]["split_sha256"]}
    (split_file,) = {record["split_file"] for record in runs.values()}
    rows = (table.parent / "out" / split_file).read_bytes()
    assert hashlib.sha256(rows).hexdigest() == runs["mean"]["split_sha256"]
    text = (table.parent / "out" / "cep_molecules.md").read_text()
    assert "| WL kernel network, gated λ | " in text
    (gine,) = (line for line in text.splitlines() if line.startswith("| GINE "))
    assert gine.split(" | ")[2] == "1 of 3"
    (mean,) = (line for line in text.splitlines() if line.startswith("| mean predictor "))
    assert mean.split(" | ")[2] == "–"  # it has none
    assert "2.3 million" in text
    assert "chemprop is not installed" in text
    assert "full" in capsys.readouterr().out


@pytest.mark.usefixtures("of_one_width")
def test_seeds_and_ensembles(table: Path) -> None:
    result = run(table, "--epochs", "1", "--seeds", "2", "--models", "mean", "wl-constant", "gine")
    seeds = [(record["model"], record["seed"]) for record in result["runs"] if "members" not in record]
    assert seeds == [("mean", 0), *((name, seed) for name in ("wl-constant", "gine") for seed in range(2))]
    together = [record for record in result["runs"] if "members" in record]
    assert [record["model"] for record in together] == ["wl-constant", "gine"]
    assert together[0]["parameters"] == 2 * result["runs"][1]["parameters"]
    row = next(
        line
        for line in (table.parent / "out" / "cep_molecules.md").read_text().splitlines()
        if "GINE" in line
    )
    valid, test = (f"{together[1]['scores'][part]['rmse']:.3f}" for part in ("valid", "test"))
    assert f"| {valid} | {test} |" in row
    assert f"| 1 of {math.ceil(5_100_000 / 48):,} |" in row


@pytest.mark.slow
@pytest.mark.usefixtures("of_one_width")
def test_our_recipe(table: Path) -> None:
    """Another table, of the same molecules in the same parts, whatever is seen of them."""
    run(table, "--models", "mean")
    result = run(table, "--recipe", "ours", "--epochs", "1", "--seeds", "2", name="cep_ours_molecules")
    runs = [record for record in result["runs"] if "members" not in record]
    assert [record["model"] for record in runs] == [*(name for name in OWN for _ in range(2))][:-1]
    assert runs[-1]["model"] == "gp"  # a machine has no seeds
    batch_size = {record["model"]: record["recipe"]["batch_size"] for record in runs[:-1]}
    assert batch_size == {name: 20 if name == "wl-paper" else 64 for name in OWN if name != "gp"}
    theirs = json.loads((table.parent / "out" / "cep_molecules.json").read_text())["runs"][0]
    assert {record["split_sha256"] for record in runs} == {theirs["split_sha256"]}
    text = (table.parent / "out" / "cep_ours_molecules.md").read_text()
    assert text.startswith("# Harvard Clean Energy Project, our recipe, molecules of molecules.csv (full)\n")
    assert text.count("| 1 of 40 |") == 4
    *_, together = result["runs"]
    assert {member["model"] for member in together["members"]} == {"wl-gated", "wl-paper"}
    assert together["parameters"] == sum(r["parameters"] for r in runs if r["model"] in MIXED["ours"])
    assert (
        "| WL kernel network, gated λ and WL kernel network, gated λ, the paper's recipe, together | " in text
    )
    valid, test = (f"{together['scores'][part]['rmse']:.3f}" for part in ("valid", "test"))
    assert f"| 4 networks | – | – | – | – | {valid} | {test} | " in text


@pytest.mark.usefixtures("of_one_width")
def test_runs_of_the_paper_are_not_trained_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(table, "--models", "wl-gated", "--epochs", "1", "--seeds", "1")
    monkeypatch.setattr(molecule_runs, "fit", lambda *_, **__: pytest.fail("trained again"))
    same = ("--recipe", "ours", "--epochs", "1", "--seeds", "1")
    own = run(table, *same, "--models", "wl-paper", name="cep_ours_molecules")
    (theirs,), (ours,) = result["runs"], own["runs"]
    assert ours["model"] == "wl-paper"
    assert ours["scores"] == theirs["scores"]
    assert ours["published_epochs"] == theirs["published_epochs"] > 40


@pytest.mark.usefixtures("of_one_width")
def test_a_call_with_fewer_seeds_keeps_the_ensemble(table: Path) -> None:
    more = ("--models", "wl-constant", "--epochs", "1")
    before = run(table, *more, "--seeds", "2")["runs"]
    after = run(table, *more, "--seeds", "1")["runs"]
    assert [(record["model"], len(record.get("members", ()))) for record in after] == [
        *[("wl-constant", 0)] * 2,
        ("wl-constant", 2),
    ]
    assert after[-1]["scores"] == before[-1]["scores"]


@pytest.mark.usefixtures("of_one_width")
def test_two_calls_fill_what_is_together(table: Path) -> None:
    same = ("--recipe", "ours", "--epochs", "1")
    run(table, *same, "--models", "wl-gated", "--seeds", "2", name="cep_ours_molecules")
    runs = run(table, *same, "--models", "wl-paper", "--seeds", "1", name="cep_ours_molecules")["runs"]
    names = [(record["model"], len(record.get("members", [1]))) for record in runs]
    assert names == [("wl-gated", 1), ("wl-gated", 1), ("wl-gated", 2), ("wl-paper", 1), ("together", 3)]


def test_parts_of_the_release(table: Path) -> None:
    frame, folder = pd.read_csv(table), table.parent
    for part, rows in frame.groupby("part"):
        lines = [f"{smiles} {pce}" for smiles, pce in zip(rows["SMILES"], rows["PCE"], strict=True)]
        (folder / f"{part}.txt").write_text("\n".join(["smiles pce", *lines]))
    files = [str(folder / f"{part}.txt") for part in ("train", "valid", "test")]
    result = run(table, "--models", "mean", "--data", *files, name="cep_train")
    (record,) = result["runs"]
    assert (record["split"], record["counts"]) == ("published", {"train": 40, "valid": 10, "test": 10})
    mean = frame["PCE"][:40].mean()
    error = math.sqrt(((frame["PCE"][50:] - mean) ** 2).mean())
    assert record["scores"]["test"]["rmse"] == pytest.approx(error)


def test_split_column(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--models", "mean", "wl-3")
    result = run(table, *arguments, "--split-column", "part")
    frame = pd.read_csv(table)
    train, test = frame[frame["part"] == "train"]["PCE"], frame[frame["part"] == "test"][["PCE"]].to_numpy()
    mean, kernel = result["runs"]
    assert mean["counts"] == {"train": 40, "valid": 10, "test": 10}
    assert mean["split"] == "published"
    expected = score("rmse", test, np.full_like(test, train.mean()))
    assert mean["scores"]["test"]["rmse"] == pytest.approx(expected, rel=1e-5)
    assert kernel["scores"]["train"]["rmse"] < 0.5 * mean["scores"]["train"]["rmse"]
    assert 0 < kernel["parameters"] == kernel["colours"]
    # Another split is refused, which would take the place of all rows.
    with pytest.raises(AssertionError):
        run(table, *arguments)
    assert "holds rows of other data (mean, wl-3)" in capsys.readouterr().err
    (table.parent / "out" / "cep_molecules.json").unlink()
    assert run(table, *arguments)["runs"][0]["split"] == "random"


@pytest.mark.usefixtures("of_one_width")
def test_quick(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cep, "QUICK_MOLECULES", 30)
    result = run(table, "--quick", "--models", "mean", "wl-gated")
    assert result["mode"] == "quick"
    assert result["runs"][0]["counts"] == {"train": 24, "valid": 3, "test": 3}
    assert result["runs"][1]["epochs"] == 1


def test_errors(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "cep", "--models", "unknown"]) != 0
    assert "--models: expected any of mean, wl-3" in capsys.readouterr().err
    assert main(["benchmark", "cep", "--models", "chemprop"]) != 0
    assert "chemprop is not installed" in capsys.readouterr().err
    assert main(["benchmark", "cep", "--split-column", "part"]) != 0
    assert "--split-column goes with --data and a single table" in capsys.readouterr().err
    frame = pd.read_csv(table)
    frame[frame["part"] != "valid"].to_csv(table, index=False)
    assert main(["benchmark", "cep", "--data", str(table), "--split-column", "part"]) != 0
    assert "column 'part' has no valid" in capsys.readouterr().err


def written(folder: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def test_three_files_are_a_table(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a="smiles\tpce\nC#N 1.5\r\n[Na+].[Cl-]\t-2\n",
        b='smiles pce\nc1cc"c1 0\n',
        c="x\nNA 3e-1\n",
    )
    table = cep.read_parts(paths)
    assert table.columns.tolist() == ["smiles", "PCE", "split"]
    assert table.to_numpy().tolist() == [
        ["C#N", 1.5, "train"],
        ["[Na+].[Cl-]", -2.0, "train"],
        ['c1cc"c1', 0.0, "valid"],
        ["NA", 0.3, "test"],
    ]


def test_other_lines_are_told(tmp_path: Path) -> None:
    for text, message in (
        ("", "expected a header and lines of a SMILES and its PCE, got nothing"),
        ("x\nC 1\nCC\n", "line 3: expected a SMILES and its PCE, got 'CC'"),
        ("x\nC one\n", "line 2: expected a SMILES and its PCE, got 'C one'"),
        ("x\nC 1\nC inf\n", "line 3: expected a SMILES and its PCE, got 'C inf'"),
        ("x\nC 1 2\n", "line 2: expected a SMILES and its PCE, got 'C 1 2'"),
        ("x\nC 1\nC 1 2 3\n", "expected lines of a SMILES and its PCE .*line 3, saw 4"),
        ("x\nC 1\n\nC 2\n", "line 3: expected a SMILES and its PCE, got ''"),
    ):
        paths = written(tmp_path, train="x\nC 1\n", valid=text, test="x\nC 1\n")
        with pytest.raises(ValueError, match=f"valid: {message}"):
            cep.read_parts(paths)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cep.read_parts([tmp_path / "nowhere"] * 3)
    with pytest.raises(ValueError, match="expected a file for each of train, valid, test, got 2"):
        cep.read_parts([tmp_path] * 2)
