"""Bounds in the place of measured values, from a table to predictions and scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.molecules import SMALL_RUN, regression_set
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import PackedGraphs, PackedLoader, load_molecules
from wlkernelnn.training import score

SIZES = ["--split-sizes", "0.6", "0.2", "0.2"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Values above the 80 % quantile are known as bounds alone."""
    data = regression_set()
    y = data.y[:, 0].numpy().astype(float)
    most = round(float(np.quantile(y, 0.8)), 3)
    path = tmp_path_factory.mktemp("censored") / "set.csv"
    cells = [f">{most:g}" if value > most else f"{value:.6g}" for value in y]
    pd.DataFrame({"smiles": data.smiles, "Act": cells}).to_csv(path, index=False)
    return path


def load(table: Path) -> PackedGraphs:
    return load_molecules(table, target_columns="Act", censored=True, cache=False)


def test_a_store_keeps_bounds(table: Path, tmp_path: Path) -> None:
    data = load(table)
    cells = pd.read_csv(table)["Act"]
    bounds = cells.str.startswith(">").to_numpy()
    assert 8 <= bounds.sum() <= 12
    assert (data.censored[:, 0].numpy() == bounds).all()
    assert (data.measured.isnan()[:, 0].numpy() == bounds).all()
    assert not data.y.isnan().any()
    some = data[5:25]
    for same in (some.compact(), some):
        (batch,) = PackedLoader(same, 20)
        assert torch.equal(batch.censored, data.censored[5:25])
    data.save(tmp_path / "set.safetensors")
    assert torch.equal(PackedGraphs.load(tmp_path / "set.safetensors").censored, data.censored)
    without = data.with_targets(data.y)
    assert without.censored is None
    assert without.digest() != data.digest()


def test_networks_learn_from_bounds(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, preds, scores = tmp_path / "run", tmp_path / "preds.csv", tmp_path / "scores.json"
    command = ["train", "--data-path", f"{table}", "--target-columns", "Act", "--output-dir", f"{run}"]
    assert main([*command, "--censored", *SIZES, *SMALL_RUN]) == 0
    report, data = json.loads((run / "metrics.json").read_text()), load(table)
    splits = json.loads((run / "splits.json").read_text())
    counts = {part: int((data.censored[rows] != 0).sum()) for part, rows in splits.items()}
    assert report["censored"] == counts
    test = pd.read_csv(run / "test_predictions.csv")
    assert test["Act"].isna().sum() == counts["test"]
    columns = [test[[name]].to_numpy(float) for name in ("Act", "Act_pred")]
    assert report["test"] == pytest.approx(score("rmse", *columns), rel=1e-5)
    assert (
        main(["predict", "--test-path", f"{table}", "--model-path", f"{run}", "--preds-path", f"{preds}"])
        == 0
    )
    capsys.readouterr()
    command = ["evaluate", "--data-path", f"{table}", "--model-path", f"{run}"]
    assert main([*command, "--censored", "--metrics-path", f"{scores}"]) == 0
    assert f"60 molecules; {sum(counts.values())} bounds have no score" in capsys.readouterr().out
    found, report = pd.read_csv(preds)[["Act_pred"]].to_numpy(float), json.loads(scores.read_text())
    assert report["censored"] == sum(counts.values())
    assert report["mean"]["rmse"] == pytest.approx(score("rmse", data.measured, found), rel=1e-5)


def test_what_bounds_do_not_go_with(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "--data-path", f"{table}", "--target-columns", "Act"]
    assert main([*command, "--censored", "--output-dir", f"{tmp_path / 'a'}"]) == 1
    assert "targets are bounds, from which a machine does not learn: take a" in capsys.readouterr().err
    assert main([*command, "--output-dir", f"{tmp_path / 'b'}"]) == 1
    assert "or have networks learn from bounds (censored)" in capsys.readouterr().err
    classes = ["--censored", "--task-type", "classification"]
    assert main([*command, *classes, "--output-dir", f"{tmp_path / 'c'}"]) == 1
    assert "censored targets are numbers, of task='regression'" in capsys.readouterr().err
