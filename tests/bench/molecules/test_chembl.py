"""The first command of README, shortened."""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path

import pytest

from wlkernelnn.bench.molecules import chembl
from wlkernelnn.cli.main import main


def test_run_folder_predicts_and_all_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chembl, "random_forest", partial(chembl.random_forest, num_trees=20))
    folder = tmp_path / "run"
    assert main(["benchmark", "chembl", "--epochs", "20", "--quick", "--output-dir", str(folder)]) == 0
    shown = capsys.readouterr().out
    record = json.loads((folder / "chembl.json").read_text())
    # Quick is a tenth of the epochs.
    assert (record["mode"], record["epochs"]) == ("quick", 2)
    rows = {run["model"]: run["scores"]["test"] for run in record["runs"]}
    assert len(rows) == 5
    table = (folder / "chembl.md").read_text()
    for name, row in rows.items():
        assert f"{row['rmse']:.3f}" in shown, name
        assert f"| {name} | {row['rmse']:.3f} |" in table
    # The mean of the training part explains nothing of the test part; fingerprints do.
    assert rows["mean of training set"]["r2"] <= 0 < rows["Morgan random forest"]["r2"]
    assert rows["mean of training set"]["rmse"] > rows["Morgan random forest"]["rmse"]
    assert (folder / "predicted_against_measured.png").stat().st_size > 0

    # Of more seeds, means; the first is as it was.
    words = ["benchmark", "chembl", "--epochs", "20", "--quick", "--seeds", "2"]
    words += ["--output-dir", str(tmp_path / "more"), "--table-dir", str(tmp_path / "tables")]
    assert main(words) == 0
    several = json.loads((tmp_path / "tables" / "chembl.json").read_text())["runs"]
    ours = [run["scores"]["test"]["rmse"] for run in several if run["model"] == "gated WL kernel network"]
    assert ours[0] == rows["gated WL kernel network"]["rmse"] != ours[1]
    mean, std = statistics.mean(ours), statistics.stdev(ours)
    assert f"{mean:.3f} ± {std:.3f}" in capsys.readouterr().out
    assert (tmp_path / "more_seed_1" / "metrics.json").is_file()

    # What another revision trained is not finished by this one.
    maker = folder / "revision.txt"
    of_this = maker.read_text()
    maker.write_text(of_this.replace(of_this.split("\n")[0], "abc1234"))
    again = ["benchmark", "chembl", "--epochs", "20", "--quick", "--output-dir", str(folder)]
    assert main([*again, "--resume"]) == 1
    assert "holds a run of revision abc1234, and this is" in capsys.readouterr().err
    maker.write_text(of_this)
    assert main([*again, "--resume"]) == 0
    resumed = json.loads((folder / "chembl.json").read_text())["runs"]
    assert resumed[0]["scores"] == record["runs"][0]["scores"]

    table, predictions = tmp_path / "new.csv", tmp_path / "predictions.csv"
    table.write_text("smiles\nCCO\nc1ccccc1\n")
    paths = ["--model-path", str(folder), "--test-path", str(table), "--preds-path", str(predictions)]
    assert main(["predict", *paths]) == 0
    assert len(predictions.read_text().splitlines()) == 3
