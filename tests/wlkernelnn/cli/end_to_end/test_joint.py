"""The verbs on a run of a joint model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from tests.checks.pages import read
from tests.inputs.edited import edit
from tests.inputs.molecules import regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.training import JointModel, load_run
from wlkernelnn.training.molecules import machine
from wlkernelnn.training.molecules.explain import atom_contributions

NETWORK = "--hidden-channels 8 --num-iterations 2 --epochs 3 --batch-size 16 --lr 0.01 --warmup-epochs 0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder, beside its table."""
    folder = tmp_path_factory.mktemp("joint")
    table = write_table(folder / "set.csv", regression_set())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_CACHE", str(folder / "cache"))
        patch.setattr(machine, "FOLDS", 2)
        command = (
            f"train --model linear+wl --data-path {table} --target-columns Act --output-dir {folder / 'run'}"
        )
        assert main([*command.split(), *NETWORK.split()]) == 0
    return folder / "run"


def test_every_verb(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = load_run(run), regression_set()
    assert isinstance(model, JointModel)
    # Networks that say something beside the machine, however they were trained.
    path = run / "joint.json"
    edit(path, {"share": [0.3]})
    model.share[:] = 0.3
    report = json.loads((run / "metrics.json").read_text())
    assert report["left_out"] <= min(report["left_out_parts"].values()) + 1e-9
    page = read(run / "report.html").text
    for text in ("weighted by how well each predicts", "weights of the last epoch", "Ridge regression"):
        assert text in page
    words = f"--test-path {run.parent / 'set.csv'} --model-path {run}".split()

    out = tmp_path / "out.csv"
    assert main(["predict", *words, "--preds-path", f"{out}", "--std", "--interval", "0.9"]) == 0
    table = pd.read_csv(out)
    mean, std = model.predict(data, return_std=True)
    np.testing.assert_allclose(table["Act_pred"], mean[:, 0], rtol=1e-5)
    np.testing.assert_allclose(table["Act_std"], std[:, 0], rtol=1e-5)
    np.testing.assert_allclose(table["Act_high"] - mean[:, 0], norm.ppf(0.95) * std[:, 0], rtol=1e-4)

    scores = tmp_path / "scores.json"
    command = f"evaluate --data-path {run.parent / 'set.csv'} --model-path {run} --metrics-path {scores}"
    assert main(command.split()) == 0
    error = np.sqrt(np.mean((mean - data.y.numpy()) ** 2))
    assert json.loads(scores.read_text())["mean"]["rmse"] == pytest.approx(error, rel=1e-4)
    assert "coverage_90" in json.loads(scores.read_text())["mean"]

    assert main(["explain", *words, "--output-dir", f"{tmp_path / 'why'}", "--drawings", "1"]) == 0
    why, atoms = (pd.read_csv(tmp_path / "why" / f"{name}.csv") for name in ("molecules", "atoms"))
    np.testing.assert_allclose(why["prediction"], mean[:, 0], rtol=1e-5)
    np.testing.assert_allclose(why["atoms"] + why["mean"] + why["networks"], why["prediction"])
    np.testing.assert_allclose(why["networks"], 0.3 * model.ensemble.predict(data)[0][:, 0], rtol=1e-5)
    of_networks = 0.3 * atom_contributions(model.ensemble.networks, data)[:, 0]
    of_machine = (atoms["Act"] - of_networks).groupby(atoms["row"]).sum()
    np.testing.assert_allclose(of_machine, why["atoms"], atol=1e-5)

    capsys.readouterr()
    assert main(["fingerprint", *words, "--preds-path", f"{out}"]) == 1
    assert (
        "a joint model has no fingerprints: its networks, in networks, have some" in capsys.readouterr().err
    )
    of_part = ["fingerprint", *words[:2], "--model-path", f"{run / 'networks'}", "--preds-path", f"{out}"]
    assert main(of_part) == 0


def test_more_than_two_classes_are_not_a_sum(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said before anything is read or written."""
    about = {**load_run(run).about, "task": "multiclass", "classes": ["A", "B", "C"]}
    monkeypatch.setattr(JointModel, "about", about)
    words = f"explain --test-path {run.parent / 'set.csv'} --model-path {run} --output-dir {tmp_path / 'why'}"
    assert main(words.split()) == 1
    assert f"{run}: a joint model of more than two classes is not a sum" in capsys.readouterr().err
    assert not (tmp_path / "why").exists()


def test_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = run.parent / "set.csv"
    command = f"train --data-path {table} --target-columns Act --output-dir".split()
    for options, message in (
        (
            f"{tmp_path} --model gp+wl --num-layers 2",
            "--num-layers is an option of --model stack, but the model is gp+wl",
        ),
        (f"{tmp_path} --model gp+wl --features ogb", "features 'ogb' lack"),
        (f"{tmp_path} --model gp+wl --patience 3", "patience 3: networks of the joint model gp+wl"),
        (f"{run} --model linear+wl", "holds a run already"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WLKERNELNN_CACHE", str(tmp_path / "cache"))
            assert main([*command, *options.split()]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, f"{tmp_path}", "--model", "wl+gp"])
    assert "expected one of auto, gp, linear, wl, stack, gp+wl, gp+stack" in capsys.readouterr().err
