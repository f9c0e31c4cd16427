"""The benchmark of predicted intervals, quickly, on a small set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness import trained
from wlkernelnn.bench.molecules.intervals import intervals
from wlkernelnn.cli.main import main


@pytest.mark.slow
def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "moleculeace").mkdir(parents=True)
    data = regression_set(120)
    frame = pd.DataFrame({"smiles": data.smiles, "y": data.y[:, 0].double().numpy(), "cliff_mol": 0})
    frame["split"] = np.where(np.arange(120) < 10, "test", "train")
    frame.to_csv(tmp_path / "data" / "moleculeace" / "CHEMBL237_EC50.csv", index=False)
    monkeypatch.setattr(intervals, "NETWORKS", 2)
    folders = ["--root", str(tmp_path / "data"), "--run-dir", str(tmp_path / "runs")]
    command = ["benchmark", "intervals", "--quick", "--sets", "CHEMBL237_EC50", *folders]
    assert main([*command, "--output-dir", str(tmp_path)]) == 0
    runs = {run["model"]: run for run in json.loads((tmp_path / "intervals.json").read_text())["runs"]}
    assert list(runs) == list(intervals.MODELS)
    assert {tuple(run["counts"].values()) for run in runs.values()} == {(96, 12, 12)}
    assert runs["spread"]["rmse"] == runs["ensemble"]["rmse"] != runs["alone"]["rmse"]
    assert runs["spread"]["coverage_90"] < runs["ensemble"]["coverage_90"]
    assert runs["alone"]["spearman"] is None
    page = (tmp_path / "intervals.md").read_text()
    assert f"| CHEMBL237_EC50 | kernel machine | 1 of 2 | – | {runs['gp']['rmse']:.3f} |" in page


def test_rank_correlations_of_equal_deviations() -> None:
    assert intervals.ranks([{"spearman": 0.25}, {"spearman": None}]) == "0.25"
    assert intervals.ranks([{"spearman": None}, {"spearman": float("nan")}]) == "–"


class Fitted:
    """What predicts, as if it had been trained."""

    networks, about = (None,), None

    def forecast(self, data: Any) -> tuple[Any, ...]:
        return data.y.double().numpy() + 1, np.full((len(data), 1), 2.0), None


def test_shortened_runs_are_other_runs_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Any] = []

    def networks(data: Any, split: Any, folder: Path, recipe: Any, head: Any) -> Fitted:
        trained.append((recipe.epochs, recipe.matmul_precision))
        return Fitted()

    monkeypatch.setattr(intervals, "_networks", networks)
    for epochs, precision in ((1, "highest"), (None, "highest"), (None, "medium")):
        options = intervals.IntervalOptions(run_dir=tmp_path, epochs=epochs, matmul_precision=precision)
        runs = [
            intervals._run("ensemble", "esol", regression_set(30), 0, options, {"mode": "full"})
            for _ in range(2)
        ]
        cells = dict(zip(*intervals.TABLE.rows(runs[:1]), strict=True))
        assert cells["epochs"] == ("1 of 20" if epochs else "20")
    assert trained == [(1, "highest"), (20, "highest"), (20, "medium")]


def test_quick_networks_of_other_revisions_make_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = intervals.IntervalOptions(run_dir=tmp_path, quick=True)
    monkeypatch.setattr(intervals, "_networks", lambda *_: Fitted())
    for revision in "ab":
        monkeypatch.setattr(trained, "revision", lambda revision=revision: revision)
        intervals._run("ensemble", "esol", regression_set(30), 0, options, {"mode": "quick"})
    (maker,) = tmp_path.glob("quick/*/*networks_0/revision.txt")
    assert maker.read_text().startswith("b\n")
