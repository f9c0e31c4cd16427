"""The first command of README, shortened."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from wlkernelnn.cli.main import main


def test_run_folder_predicts_and_all_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["benchmark", "chembl", "--epochs", "20", "--quick", "--output-dir", str(folder)]) == 0
    shown = capsys.readouterr().out
    record = json.loads((folder / "comparison.json").read_text())
    # Quick is a tenth of the epochs.
    assert (record["quick"], record["options"]["epochs"]) == (True, 2)
    rows = {row["model"]: row for row in record["results"]}
    assert len(rows) == 5
    for name, row in rows.items():
        assert f"{row['rmse']:.3f}" in shown, name
    # The mean of the training part explains nothing of the test part; fingerprints do.
    assert rows["mean of training set"]["r2"] <= 0 < rows["Morgan random forest"]["r2"]
    assert rows["mean of training set"]["rmse"] > rows["Morgan random forest"]["rmse"]
    assert (folder / "predicted_against_measured.png").stat().st_size > 0

    # Of more seeds, means; the first is as it was.
    words = ["benchmark", "chembl", "--epochs", "20", "--quick", "--seeds", "2"]
    assert main([*words, "--output-dir", str(tmp_path / "more")]) == 0
    several = json.loads((tmp_path / "more" / "comparison.json").read_text())["results"]
    ours = [row["rmse"] for row in several if row["model"] == "gated WL kernel network"]
    assert ours[0] == rows["gated WL kernel network"]["rmse"] != ours[1]
    mean, std = statistics.mean(ours), statistics.stdev(ours)
    assert f"{mean:.3f} ± {std:.3f}" in capsys.readouterr().out
    assert (tmp_path / "more_seed_1" / "metrics.json").is_file()

    table, predictions = tmp_path / "new.csv", tmp_path / "predictions.csv"
    table.write_text("smiles\nCCO\nc1ccccc1\n")
    paths = ["--model-path", str(folder), "--test-path", str(table), "--preds-path", str(predictions)]
    assert main(["predict", *paths]) == 0
    assert len(predictions.read_text().splitlines()) == 3
