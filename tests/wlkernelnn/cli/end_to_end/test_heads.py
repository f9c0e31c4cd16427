"""Deviations, quantiles and ordered classes, from a table to predictions, scores and pages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.checks.pages import read
from tests.inputs.molecules import SMALL_RUN, regression_set
from wlkernelnn.cli.main import main
from wlkernelnn.training import load_run, quantile_scores

SIZES = ["--split-sizes", "0.6", "0.2", "0.2"]
LEVELS = ["low", "middle", "high"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = regression_set()
    act = data.y[:, 0].numpy()
    level = np.digitize(act, np.quantile(act, (0.3, 0.7)))
    path = tmp_path_factory.mktemp("heads") / "set.csv"
    columns = {"act": act, "bound": [f">{act[0]:g}", *act[1:]], "level": level}
    frame = pd.DataFrame({"smiles": data.smiles, **columns, "name": np.array(LEVELS)[level]})
    frame.to_csv(path, index=False)
    return path


def train(table: Path, column: str, run: Path, *options: str) -> int:
    command = ["train", "--data-path", f"{table}", "--target-columns", column, "--output-dir", f"{run}"]
    return main([*command, *SIZES, *options])


def results(table: Path, run: Path, *options: str) -> tuple[pd.DataFrame, dict[str, object]]:
    """Predictions, and what ``evaluate`` says of them."""
    path, scores, page = (run.with_suffix(end) for end in (".csv", ".json", ".html"))
    of_run = ["--model-path", f"{run}", "--num-workers", "0"]
    assert main(["predict", "--test-path", f"{table}", *of_run, "--preds-path", f"{path}", *options]) == 0
    pages = ["--metrics-path", f"{scores}", "--report-path", f"{page}"]
    assert main(["evaluate", "--data-path", f"{table}", *of_run, *pages]) == 0
    read(page)
    return pd.read_csv(path), json.loads(scores.read_text())


def test_deviations(table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(table, "act", run, "--loss-function", "mve", *SMALL_RUN) == 0
    found, report = results(table, run)
    assert list(found.columns[-2:]) == ["act_pred", "act_std"]
    model = load_run(run)
    error = np.abs(found["act_pred"] - found["act"])
    assert report["mean"]["coverage_50"] == pytest.approx((error <= 0.67449 * found["act_std"]).mean())
    assert model.networks[0].config["loss"] == "mve"
    test = pd.read_csv(run / "test_predictions.csv")
    assert {"act_pred", "act_std"} <= {*test.columns}


def test_quantiles(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    levels = ["--quantiles", "0.1", "0.5", "0.9"]
    assert train(table, "act", run, "--loss", "quantile", *levels, *SMALL_RUN) == 0
    capsys.readouterr()
    found, report = results(table, run, "--interval", "0.8")
    assert "0.8 expected" in capsys.readouterr().out
    names = ["act_q0.1", "act_q0.5", "act_q0.9"]
    assert list(found.columns[-6:]) == ["act_pred", "act_low", "act_high", *names]
    quantiles = found[names].to_numpy()
    assert (np.diff(quantiles) >= 0).all()
    np.testing.assert_array_equal(found[["act_low", "act_pred", "act_high"]], quantiles)
    expected = quantile_scores(["act"], found[["act"]], quantiles[:, None], [0.1, 0.5, 0.9])
    assert report["quantiles"]["expected"] == pytest.approx(0.8)
    for name in ("pinball", "coverage", "width"):
        assert report["quantiles"]["mean"][name] == pytest.approx(expected["mean"][name], rel=1e-5)
    metrics = json.loads((run / "metrics.json").read_text())
    test = pd.read_csv(run / "test_predictions.csv")
    inside = (test["act_q0.1"] <= test["act"]) & (test["act"] <= test["act_q0.9"])
    assert metrics["quantiles"]["mean"]["coverage"] == pytest.approx(inside.mean())
    assert "pinball loss" in (run / "report.html").read_text()
    command = ["predict", "--test-path", f"{table}", "--model-path", f"{run}", "--preds-path", "x.csv"]
    assert main([*command, "--interval", "0.9"]) == 1
    assert "the quantiles 0.1, 0.5, 0.9, and the interval needs 0.05 and 0.95" in capsys.readouterr().err


def test_ordered_classes(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, ordinal = tmp_path / "run", ["--task-type", "ordinal"]
    assert train(table, "name", run, *ordinal, "--levels", *LEVELS, *SMALL_RUN) == 0
    assert f"name: {', '.join(LEVELS)} (ordinal)" in (run / "report.html").read_text()
    assert "quadratic_kappa" in capsys.readouterr().out
    found, report = results(table, run)
    probability = found[[f"name_p_{name}" for name in LEVELS]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    level = (probability.cumsum(axis=1) < 0.5).sum(axis=1)
    assert found["name_pred"].tolist() == [LEVELS[place] for place in level]
    assert report["mean"]["mae"] == pytest.approx(np.abs(level - found["level"]).mean())
    assert report["mean"]["accuracy"] == pytest.approx((level == found["level"]).mean())
    assert np.diagonal(report["confusion"]).sum() == (level == found["level"]).sum()
    explained = ["explain", "--test-path", f"{table}", "--model-path", f"{run}", "--drawings", "1"]
    assert main([*explained, "--output-dir", f"{tmp_path / 'why'}"]) == 0
    assert pd.read_csv(tmp_path / "why" / "atoms.csv").columns[-1] == "name"


def test_refused(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ordinal = ("--task-type", "ordinal")
    for number, (column, options, message) in enumerate(
        [
            ("act", ["--loss", "mve"], "--loss is an option of --model wl and stack, but the model is auto"),
            (
                "act",
                ["--loss", "mve", "--model", "gp+wl"],
                "in the joint model gp+wl deviations are",
            ),
            ("act", ["--loss", "quantile", "--quantiles", "0.1", "1.5", "--model", "wl"], "got 0.1 1.5"),
            ("bound", ["--censored", "--loss", "quantile", *SMALL_RUN], "1 targets are bounds (censored)"),
            ("level", ["--task-type", "classification", "--loss", "mve", *SMALL_RUN], "is of numbers"),
            ("name", ordinal, "the order of high, low, middle is not known"),
            ("name", [*ordinal, "--levels", "low", "high"], "'middle' is none of the classes low, high"),
            ("name", ["--levels", "low", "high"], "--levels is an option of --task-type ordinal, got None"),
            ("name", [*ordinal, "--levels", "low", "low"], "two different names, got low low"),
            ("level", ordinal, "has 3 ordered classes, and a machine does not learn"),
            ("level", [*ordinal, "--model", "gp+wl"], "error: target level: has 3 ordered classes"),
        ]
    ):
        assert train(table, column, tmp_path / str(number), *options) == 1
        assert message in capsys.readouterr().err
