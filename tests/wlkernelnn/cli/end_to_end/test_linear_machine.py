"""The verbs on a run of ``--model linear``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.machines import LinearMachine
from wlkernelnn.training import load_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder, beside its table."""
    folder = tmp_path_factory.mktemp("linear")
    table = write_table(folder / "set.csv", regression_set()[::2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_CACHE", str(folder / "cache"))
        command = (
            f"train --model linear --data-path {table} --target-columns Act --output-dir {folder / 'run'}"
        )
        assert main(command.split()) == 0
    return folder / "run"


def test_every_verb(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine, data = load_run(run), regression_set()[::2]
    assert isinstance(machine, LinearMachine)
    assert machine.about["features"] == "ogb"
    report = json.loads((run / "metrics.json").read_text())
    assert report["choice"] == machine.num_iterations_
    assert 0 < report["leave_one_out"] < 2
    words = f"--test-path {run.parent / 'set.csv'} --model-path {run}".split()

    out = tmp_path / "out.csv"
    assert main(["predict", *words, "--preds-path", f"{out}", "--std", "--interval", "0.9"]) == 0
    table = pd.read_csv(out)
    np.testing.assert_allclose(table["Act_pred"], machine.predict(data)[:, 0], rtol=1e-5)
    assert table["Act_std"].to_numpy() == pytest.approx(np.full(30, report["leave_one_out"]), rel=1e-4)
    assert (table["Act_high"] > table["Act_low"]).all()
    assert main(["predict", *words, "--preds-path", f"{out}", "--nearest"]) == 1
    assert "nearest: a kernel machine has these" in capsys.readouterr().err

    assert main(["fingerprint", *words, "--preds-path", f"{out}"]) == 0
    counts = pd.read_csv(out).filter(like="fp_").to_numpy()
    np.testing.assert_array_equal(counts, machine.fingerprint(data))

    words_of_data = ["--data-path", f"{run.parent / 'set.csv'}", "--model-path", f"{run}"]
    assert main(["evaluate", *words_of_data, "--metrics-path", f"{tmp_path / 'scores.json'}"]) == 0
    assert 0 < json.loads((tmp_path / "scores.json").read_text())["mean"]["coverage_90"] <= 1

    assert main(["explain", *words, "--output-dir", f"{tmp_path / 'why'}", "--drawings", "2"]) == 0
    why, atoms = (pd.read_csv(tmp_path / "why" / f"{name}.csv") for name in ("molecules", "atoms"))
    np.testing.assert_allclose(why["prediction"], table["Act_pred"], rtol=1e-5)
    np.testing.assert_allclose(why["atoms"] + why["mean"], why["prediction"])
    np.testing.assert_allclose(atoms.groupby("row")["Act"].sum(), why["atoms"], atol=1e-9)
    assert why.columns.tolist() == ["row", "smiles", "target", "prediction", "atoms", "descriptors", "mean"]
    assert (tmp_path / "why" / "row-2.svg").exists()
