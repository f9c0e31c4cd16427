"""The race of the linear machine and scikit-learn: its rows, and that both count and choose alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.bench.harness import timing
from wlkernelnn.bench.kernels import linear_machine
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import linear


def test_quick_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_calls", lambda call, min_seconds: 1)
    for module in (linear, linear_machine):
        monkeypatch.setattr(module, "DEPTHS", (1,))
        monkeypatch.setattr(module, "PENALTIES", (1.0, 0.1))
    options = ["--classes", "3", "--output-dir", str(tmp_path)]
    assert main(["benchmark", "linear-speed", "--quick", *options]) == 0
    found = json.loads((tmp_path / "linear_speed.json").read_text())
    assert [row["against"] for row in found["rows"]] == list(linear_machine.SOLVERS)
    assert all(min(row["ours"], row["theirs"], row["ratio"]) > 0 for row in found["rows"])
    sides = ("ours", *linear_machine.SOLVERS)
    assert all("test accuracy" in found[f"60 molecules, 3 classes, {side}"] for side in sides)


def test_both_find_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given one depth and one penalty."""
    monkeypatch.setattr(linear_machine, "DEPTHS", (2,))
    monkeypatch.setattr(linear_machine, "PENALTIES", (0.1,))
    monkeypatch.setattr(linear, "DEPTHS", (2,))
    monkeypatch.setattr(linear, "PENALTIES", (0.1,))
    smiles = ["C" * n + end for n in range(1, 13) for end in ("O", "N")]
    y = np.arange(24) % 2
    data = load_molecules(smiles, y=y.astype(float), task="classification", cache=False)
    ours = linear_machine.fit(data)
    [(counts, model)] = linear_machine.fit_pipeline(data, y, "scikit-learn, newton-cg")
    theirs = model.predict_proba(counts.transform(data))[:, 1:]
    np.testing.assert_allclose(ours.predict(data), theirs, atol=1e-4)
    np.testing.assert_array_equal(linear_machine.predicted([(counts, model)], data), y)
