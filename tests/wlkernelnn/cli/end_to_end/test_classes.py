"""Classes by name, from a table to predictions, scores and pages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from tests.checks.pages import read
from tests.inputs.molecules import SMALL_RUN, regression_set
from wlkernelnn.cli.main import main
from wlkernelnn.training import score

NAMES = ["high", "low", "middle"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = regression_set()
    act = data.y[:, 0].numpy()
    kind = np.array(["low", "middle", "high"])[np.digitize(act, np.quantile(act, (0.3, 0.7)))]
    path = tmp_path_factory.mktemp("classes") / "set.csv"
    frame = pd.DataFrame({"smiles": data.smiles, "kind": kind, "two": np.where(kind == "low", "off", "on")})
    frame.to_csv(path, index=False)
    return path


def train(table: Path, column: str, run: Path, *options: str) -> int:
    command = ["train", "--data-path", f"{table}", "--target-columns", column, "--output-dir", f"{run}"]
    sizes = ["--split-sizes", "0.6", "0.2", "0.2"]
    return main([*command, "--task-type", "classification", *sizes, *options])


def predicted(table: Path, run: Path) -> pd.DataFrame:
    path = run.with_suffix(".csv")
    assert (
        main(["predict", "--test-path", f"{table}", "--model-path", f"{run}", "--preds-path", f"{path}"]) == 0
    )
    return pd.read_csv(path)


@pytest.mark.usefixtures("rendered")
def test_three_classes(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, scores, page = tmp_path / "run", tmp_path / "scores.json", tmp_path / "page.html"
    assert train(table, "kind", run, *SMALL_RUN) == 0
    out = capsys.readouterr().out
    assert "log_loss" in out
    assert "accuracy" in out
    found = predicted(table, run)
    probability = found[[f"kind_p_{name}" for name in NAMES]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    assert found["kind_pred"].tolist() == [NAMES[place] for place in probability.argmax(axis=1)]
    capsys.readouterr()
    command = ["evaluate", "--data-path", f"{table}", "--model-path", f"{run}", "--report-path", f"{page}"]
    plot = ["--plot-path", f"{tmp_path / 'plot.svg'}"]
    assert main([*command, *plot, "--metrics-path", f"{scores}"]) == 0
    assert (tmp_path / "plot.svg").is_file()
    out, report = capsys.readouterr().out, json.loads(scores.read_text())
    y = np.array([[NAMES.index(name)] for name in found["kind"]], dtype=float)
    for name in ("accuracy", "balanced_accuracy", "f1", "mcc", "log_loss", "roc_auc"):
        assert report["mean"][name] == pytest.approx(score(name, y, probability), rel=1e-5)
        assert name in out
    assert max(map(len, out.splitlines())) <= 80
    assert [each["count"] for each in report["classes"].values()] == np.bincount(y[:, 0].astype(int)).tolist()
    assert np.diagonal(report["confusion"]).sum() == (found["kind"] == found["kind_pred"]).sum()
    of_run = json.loads((run / "metrics.json").read_text())
    for text in (read(run / "report.html").text, read(page).text):
        for part in ("Confusion", "ROC: kind=middle", "of the largest log loss"):
            assert part in text
    assert "the frequencies of the training classes" in read(run / "report.html").text
    test = pd.read_csv(run / "test_predictions.csv")
    right = (test["kind"] == test["kind_pred"]).mean()
    assert of_run["scores"]["test"]["mean"]["accuracy"] == pytest.approx(right)
    about = json.loads((run / "model_0" / "config.json").read_text())["about"]
    assert (about["task"], about["classes"]) == ("multiclass", NAMES)
    explained = tmp_path / "explained"
    few = tmp_path / "few.csv"
    found[["smiles"]].head(2).to_csv(few, index=False)
    command = ["explain", "--test-path", f"{few}", "--model-path", f"{run}", "--output-dir", f"{explained}"]
    assert main(command) == 0
    assert [*pd.read_csv(explained / "atoms.csv")][-3:] == [f"kind={name}" for name in NAMES]
    # A class that the run does not know.
    other = table.with_name("other.csv")
    other.write_text(table.read_text().replace("middle", "medium"))
    capsys.readouterr()
    assert main(["evaluate", "--data-path", f"{other}", "--model-path", f"{run}"]) == 1
    assert "'medium' is none of the classes high, low, middle (and" in capsys.readouterr().err


def test_two_classes_keep_their_names(table: Path, tmp_path: Path) -> None:
    """In a run of a machine, whose probability is of the second class."""
    run = tmp_path / "run"
    assert train(table, "two", run, "--model", "linear") == 0
    found = predicted(table, run)
    on = found["two_p_on"].to_numpy()
    np.testing.assert_allclose(found["two_p_off"], 1 - on, rtol=1e-4, atol=1e-6)
    assert found["two_pred"].tolist() == np.where(on > 0.5, "on", "off").tolist()
    assert score("roc_auc", (found["two"] == "on").to_numpy(float)[:, None], on[:, None]) > 0.6
    page = read(run / "report.html").text
    assert "ROC: two=on" in page
    assert "Confusion" in page
    assert (run / "test_calibration.svg").is_file()


def test_three_classes_of_a_machine(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, scores = tmp_path / "run", tmp_path / "scores.json"
    assert train(table, "kind", run, "--model", "linear") == 0
    found = predicted(table, run)
    probability = found[[f"kind_p_{name}" for name in NAMES]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    assert found["kind_pred"].tolist() == [NAMES[place] for place in probability.argmax(axis=1)]
    command = ["evaluate", "--data-path", f"{table}", "--model-path", f"{run}", "--metrics-path", f"{scores}"]
    assert main(command) == 0
    report = json.loads(scores.read_text())
    y = np.array([[NAMES.index(name)] for name in found["kind"]], dtype=float)
    for name in ("accuracy", "f1", "mcc", "log_loss"):
        assert report["mean"][name] == pytest.approx(score(name, y, probability), rel=1e-4)
    of_run = json.loads((run / "metrics.json").read_text())
    left = pd.read_csv(run / "train_predictions.csv")
    assert of_run["train_predictions"] == "left out"
    right = (left["kind"] == left["kind_pred"]).mean()
    assert of_run["scores"]["train"]["mean"]["accuracy"] == pytest.approx(right)
    assert right > 0.4
    for part in ("Confusion", "ROC: kind=middle", "of the largest log loss", "each against all others"):
        assert part in read(run / "report.html").text
    few, explained = tmp_path / "few.csv", tmp_path / "explained"
    found[["smiles"]].head(2).to_csv(few, index=False)
    command = ["explain", "--test-path", f"{few}", "--model-path", f"{run}", "--output-dir", f"{explained}"]
    assert main(command) == 0
    assert [*pd.read_csv(explained / "atoms.csv")][-3:] == [f"kind={name}" for name in NAMES]
    sums = pd.read_csv(explained / "molecules.csv")
    assert sums["target"].tolist()[:3] == [f"kind={name}" for name in NAMES]
    odds = expit(sums["prediction"].to_numpy().reshape(2, 3))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), probability[:2], rtol=1e-4)


def test_names_of_classes_need_the_task(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data-path", f"{table}", "--target-columns", "kind", "--output-dir", f"{tmp_path / 'other'}"]
    assert main(["train", *words]) == 1
    assert "(task classification takes names of classes)" in capsys.readouterr().err
