"""The verbs on a run of the default model, a kernel machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from tests.inputs.molecules import classification_set, regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import MoleculeMachine
from wlkernelnn.training import load_ensemble, load_run


def molecules() -> PackedGraphs:
    return regression_set()[::2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder, beside its table."""
    folder = tmp_path_factory.mktemp("machine")
    table = write_table(folder / "set.csv", molecules())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_CACHE", str(folder / "cache"))
        command = f"train --data-path {table} --target-columns Act --output-dir {folder / 'run'}"
        assert main(command.split()) == 0
    return folder / "run"


def predicted(run: Path, *options: str) -> pd.DataFrame:
    out = run.parent / "out.csv"
    command = f"predict --test-path {run.parent / 'set.csv'} --model-path {run} --preds-path {out}"
    assert main([*command.split(), *options]) == 0
    return pd.read_csv(out)


def test_a_run_and_its_files(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = load_run(run)
    assert isinstance(machine, MoleculeMachine)
    assert machine.about["features"] == "ogb+invariants+descriptors"
    assert machine.about["target_names"] == ["Act"]
    report = json.loads((run / "metrics.json").read_text())
    assert report["counts"] == {"train": 24, "valid": 3, "test": 3}
    assert report["errors"] == machine.errors_
    assert 0 < report["leave_one_out"] < 2
    table = pd.read_csv(run / "test_predictions.csv")
    assert table.columns.tolist() == ["row", "smiles", "Act", "Act_pred", "Act_std"]
    error = (table["Act"] - table["Act_pred"]).abs()
    assert report["test"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    within = error < norm.ppf(0.95) * table["Act_std"]
    assert report["uncertainty"]["mean"]["coverage_90"] == pytest.approx(within.mean())
    assert ">share of targets within" in (run / "test_calibration.svg").read_text()
    assert "confidential" in (run / "README").read_text()
    # It is not begun over what is there.
    assert main(["train", "--config", f"{run / 'config.yaml'}"]) == 1
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.usefixtures("rendered")
def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(tmp_path / "set.csv", classification_set()[::2])
    command = f"train --data-path {table} --target-columns active aza --output-dir {tmp_path / 'run'}"
    assert main([*command.split(), "--model", "gp", "--metric", "accuracy", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    assert "the least leave-one-out error (kernels 0." in err
    assert "train, left out" in out
    report = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert report["metric"] == "accuracy"
    assert set(report["targets"]["test"]) == {"active", "aza"}
    assert f"{report['leave_one_out']:.4f}" in out
    columns = pd.read_csv(tmp_path / "run" / "test_predictions.csv").columns.tolist()
    assert columns == ["row", "smiles", "active", "active_pred", "aza", "aza_pred"]
    assert ">share of class 1" in (tmp_path / "run" / "test_calibration.svg").read_text()
    evaluate = f"evaluate --data-path {table} --model-path {tmp_path / 'run'}"
    assert main(evaluate.split()) == 0
    out = capsys.readouterr().out
    assert "roc_auc" in out
    assert "coverage" not in out
    predict = f"predict --test-path {table} --model-path {tmp_path / 'run'} --preds-path {tmp_path / 'o.csv'}"
    assert main([*predict.split(), "--std"]) == 1
    assert "std: classes have probabilities and no std" in capsys.readouterr().err


def test_predictions(run: Path) -> None:
    data, machine = molecules(), load_run(run)
    plain = predicted(run)
    assert plain.columns.tolist() == ["smiles", "Act", "Act_pred"]
    table = predicted(run, "--std", "--interval", "0.9", "--nearest")
    more = ["Act_pred", "Act_std", "Act_low", "Act_high", "nearest_similarity"]
    assert table.columns.tolist() == ["smiles", "Act", *more]
    np.testing.assert_allclose(plain["Act_pred"], table["Act_pred"], rtol=1e-5)
    half = norm.ppf(0.95) * table["Act_std"]
    np.testing.assert_allclose(table["Act_high"] - table["Act_pred"], half, rtol=1e-3)
    np.testing.assert_allclose(table["Act_pred"] - table["Act_low"], half, rtol=1e-3)
    assert isinstance(machine, MoleculeMachine)
    train = pd.read_json(run / "splits.json", typ="series")["train"]
    np.testing.assert_allclose(table["nearest_similarity"][train], 1)
    others = np.setdiff1d(np.arange(len(data)), train)
    assert (table["nearest_similarity"][others] < 1).all()
    assert table["Act_std"][others].mean() > table["Act_std"][train].mean()


def test_evaluation(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.json"
    command = f"evaluate --data-path {run.parent / 'set.csv'} --model-path {run} --metrics-path {path}"
    assert main(command.split()) == 0
    assert "coverage_90" in capsys.readouterr().out
    scores, table = json.loads(path.read_text()), predicted(run, "--std")
    data = molecules().y[:, 0].numpy()
    distance = np.abs(data - table["Act_pred"]) / table["Act_std"]
    for percent, bound in ((50, 0.67449), (80, 1.28155), (90, 1.64485), (95, 1.95996)):
        assert scores["mean"][f"coverage_{percent}"] == pytest.approx((distance < bound).mean())
    loss = -norm.logpdf(data, table["Act_pred"], table["Act_std"]).mean()
    assert scores["targets"]["Act"]["nll"] == pytest.approx(loss, rel=1e-3)
    few = ["--data-path", f"{run / 'test_predictions.csv'}"]
    assert main([*command.split(), *few, "--metrics", "rmse"]) == 0
    assert json.loads(path.read_text())["mean"].keys() == {"rmse"}


def test_what_there_is_not(run: Path, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = run.parent / "set.csv", run.parent / "none.csv"
    words = ["--test-path", f"{table}", "--preds-path", f"{out}"]
    assert main(["fingerprint", *words, "--model-path", f"{run}"]) == 1
    assert "a kernel machine has no fingerprints" in capsys.readouterr().err
    assert main(["predict", *words, "--model-path", f"{run_folder}", "--nearest"]) == 1
    assert "nearest: a kernel machine has these (train with model auto or gp)" in capsys.readouterr().err
    assert main(["predict", *words, "--model-path", f"{run}", "--interval", "90"]) == 1
    assert "interval must be above 0 and below 1, such as 0.9, got 90" in capsys.readouterr().err
    with pytest.raises(ValueError, match="holds a kernel machine, and this needs networks"):
        load_ensemble(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "3"], "--epochs is an option of --model wl and stack, but the model is auto"),
        (["--resume"], "--resume is an option of --model wl and stack"),
        (["--model", "gp", "--num-layers", "2"], "--num-layers is an option of --model stack, but .* gp"),
        (["--features", "ogb"], "features 'ogb' lack .*descriptors: a kernel machine needs 'ogb"),
        (["--metric", "roc_auc"], "metric must be one of rmse, .*spearman for regression, got 'roc_auc'"),
    ],
)
def test_refused_options(
    options: list[str], message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"train --data-path {run.parent / 'set.csv'} --target-columns Act --output-dir {tmp_path / 'r'}"
    assert main([*command.split(), *options]) == 1
    assert re.search(message, capsys.readouterr().err)
