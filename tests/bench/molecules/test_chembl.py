"""The first command of README, shortened."""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path

import pytest

from wlkernelnn.bench.molecules import chembl
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import PackedGraphs, load_molecules


@pytest.fixture(autouse=True)
def few_molecules_and_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(name: str, features: str = "ogb") -> PackedGraphs:
        whole = load_molecules(name, split=None)
        some = {"y": whole.y[::7].numpy(), "features": features, "split": "random", "name": name}
        return load_molecules(whole.smiles[::7], **some)

    monkeypatch.setattr(chembl, "load_molecules", few)
    monkeypatch.setattr(chembl, "random_forest", partial(chembl.random_forest, num_trees=20))


@pytest.mark.slow
def test_run_folder_predicts_and_all_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    words = ["benchmark", "chembl", "--epochs", "2", "--seeds", "2"]
    words += ["--output-dir", str(folder), "--table-dir", str(tmp_path / "tables")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    record = json.loads((tmp_path / "tables" / "chembl.json").read_text())
    assert (record["mode"], record["epochs"]) == ("full", 2)
    rows: dict[str, list[dict[str, float]]] = {}
    for run in record["runs"]:
        rows.setdefault(run["model"], []).append(run["scores"]["test"])
    assert [len(scores) for scores in rows.values()] == [1, 2, 2, 2, 1, 1]
    table = (tmp_path / "tables" / "chembl.md").read_text()
    for name, scores in rows.items():
        rmse = [score["rmse"] for score in scores]
        cell = f"{statistics.mean(rmse):.3f}"
        cell += f" ± {statistics.stdev(rmse):.3f}" if len(rmse) > 1 else ""
        assert cell in shown, name
        assert f"| {name} | {cell} |" in table
    ours = rows["gated WL kernel network"]
    assert ours[0] != ours[1]
    # The mean of the training part explains nothing of the test part; fingerprints do.
    # So do exact kernels.
    (machine,) = rows["kernel machine"]
    assert machine["r2"] > 0.2
    (mean,), (forest, _) = rows["mean of training set"], rows["Morgan random forest"]
    assert mean["r2"] <= 0 < forest["r2"]
    assert mean["rmse"] > forest["rmse"]
    assert (folder / "predicted_against_measured.png").stat().st_size > 0
    assert (tmp_path / "run_seed_1" / "metrics.json").is_file()

    # What another revision trained is not finished by this one.
    maker = folder / "revision.txt"
    of_this = maker.read_text()
    maker.write_text(of_this.replace(of_this.split("\n")[0], "abc1234"))
    again = ["benchmark", "chembl", "--epochs", "2", "--output-dir", str(folder)]
    assert main([*again, "--resume"]) == 1
    assert "holds a run of revision abc1234, and this is" in capsys.readouterr().err
    maker.write_text(of_this)
    assert main([*again, "--resume"]) == 0
    (first, *_) = json.loads((folder / "chembl.json").read_text())["runs"]
    assert first["scores"] == record["runs"][0]["scores"]

    table, predictions = tmp_path / "new.csv", tmp_path / "predictions.csv"
    table.write_text("smiles\nCCO\nc1ccccc1\n")
    paths = ["--model-path", str(folder), "--test-path", str(table), "--preds-path", str(predictions)]
    assert main(["predict", *paths]) == 0
    assert len(predictions.read_text().splitlines()) == 3


@pytest.mark.slow  # .ci/first_run.sh starts the command
def test_quick_shows_what_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No network, which a few epochs leave worse than the mean: every other row beats it."""
    folder = tmp_path / "run"
    command = ["benchmark", "chembl", "--quick", "--output-dir", str(folder)]
    assert main(command) == 0
    record = json.loads((folder / "chembl.json").read_text())
    assert (record["mode"], record["epochs"]) == ("quick", 0)
    scores = {run["model"]: run["scores"]["test"] for run in record["runs"]}
    mean = scores.pop("mean of training set")
    assert list(scores) == ["kernel machine", "Morgan random forest", "Morgan ridge"]
    assert all(each["rmse"] < mean["rmse"] for each in scores.values())
    assert "kernel machine" in capsys.readouterr().out
    report = json.loads((folder / "metrics.json").read_text())
    assert report["test"] == pytest.approx(scores["kernel machine"]["rmse"], rel=1e-5)
    assert main([*command, "--resume"]) == 0
    (first, *_) = json.loads((folder / "chembl.json").read_text())["runs"]
    assert first["scores"]["test"]["rmse"] == pytest.approx(scores["kernel machine"]["rmse"], rel=1e-5)
