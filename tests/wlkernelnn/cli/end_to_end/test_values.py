"""Measured values reach the files of a run, and its scores, as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import SMALL_RUN
from wlkernelnn import MoleculeRegressor
from wlkernelnn.cli.main import main

AWAY = -135123456.0
SMILES = ["C" * a + end + "C" * b for a in range(1, 6) for b in range(4) for end in ("O", "N")]


def table(folder: Path, away: float) -> Path:
    """Energies that differ by some kJ/mol, around another total."""
    energy = [f"{0.7 * (len(text) % 4) + 0.3 * text.count('N') + 0.001 + away:.3f}" for text in SMILES]
    pd.DataFrame({"smiles": SMILES, "E": energy}).to_csv(folder / f"{away:.0f}.csv", index=False)
    return folder / f"{away:.0f}.csv"


@pytest.mark.parametrize("model", [SMALL_RUN, ["--model", "linear"]], ids=["wl", "linear"])
def test_total_energies_are_learned_like_relative_ones(tmp_path: Path, model: list[str]) -> None:
    found = []
    for away in (0.0, AWAY):
        path, run = table(tmp_path, away), tmp_path / f"run{away:.0f}"
        data = ["--data-path", path, "--target-columns", "E", "--output-dir", run, *model]
        assert main(["train", *map(str, data)]) == 0
        preds = ["--test-path", path, "--model-path", run, "--preds-path", run / "preds.csv"]
        assert main(["predict", *map(str, preds)]) == 0
        tested = pd.read_csv(run / "test_predictions.csv", dtype={"E": str})
        given = pd.read_csv(path, dtype=str)
        assert tested["E"].astype(float).tolist() == given["E"][tested["row"] - 1].astype(float).tolist()
        all_rows = pd.read_csv(run / "preds.csv", dtype={"E": str})
        assert all_rows["E"].tolist() == given["E"].tolist()  # never replaced
        rmse = pd.read_json(run / "metrics.json", typ="series")["test"]
        error = tested["E_pred"] - tested["E"].astype(float)
        assert rmse == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
        found.append((rmse, all_rows["E_pred"].to_numpy() - away))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-3)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_kernel_machine_learns_total_energies() -> None:
    values = np.array([len(text) % 4 + 0.5 * text.count("N") for text in SMILES])
    near, far = (MoleculeRegressor().fit(SMILES, values + away).predict(SMILES) for away in (0.0, AWAY))
    np.testing.assert_allclose(far - AWAY, near, rtol=0, atol=1e-4)
