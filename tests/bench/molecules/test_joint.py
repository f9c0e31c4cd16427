"""The benchmark of joint models: weights, folds and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.molecules import joint
from wlkernelnn.cli.main import main

RANDOM = np.random.default_rng(0)


def test_weights() -> None:
    y = RANDOM.normal(size=200)
    each = y + RANDOM.normal(size=(3, 200)) * np.array([[1], [2], [4]])
    weights = {how: joint.shares_of(each, y, how) for how in ("nnls", "convex")}
    for how, weight in weights.items():
        assert (weight >= 0).all()
        assert weight[0] > weight[1] > weight[2]
        off = weight + RANDOM.normal(0, 0.02, (500, 3)).clip(-weight, 1)
        if how == "convex":
            off /= off.sum(axis=1, keepdims=True)
        # No others are better.
        assert np.square(weight @ each - y).sum() <= np.square(off @ each - y).sum(axis=1).min() + 1e-6
    assert weights["convex"].sum() == pytest.approx(1, abs=1e-6)
    assert weights["nnls"].sum() < 1  # members with noise are trusted less


def test_weights_are_those_of_the_other_folds() -> None:
    y = RANDOM.normal(size=60)
    each = np.stack([y + RANDOM.normal(size=60), y + RANDOM.normal(size=60)])
    folds = [np.arange(60)[k::3] for k in range(3)]
    before, weights = joint.joined(each, y, folds, "convex")
    assert weights is not None
    changed = y.copy()
    changed[folds[0]] += 100
    after, _ = joint.joined(each, changed, folds, "convex")
    np.testing.assert_array_equal(after[folds[0]], before[folds[0]])
    assert (after[folds[1]] != before[folds[1]]).all()
    mean, none = joint.joined(each, y, folds, "mean")
    np.testing.assert_allclose(mean, each.mean(axis=0))
    assert none is None


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(joint.SETS, "esol", ("chembl2321810", None))
    monkeypatch.setattr(joint, "FOLDS", 2)
    rows = ["gp", "trees", "wl", "gp+trees", "gp+wl-linear", "gp+wl"]
    command = (
        f"benchmark joint --sets esol --quick --seeds 3 --run-dir {tmp_path} --output-dir {tmp_path} --models"
    )
    assert main([*command.split(), *rows]) == 0
    runs = {run["model"]: run for run in json.loads((tmp_path / "joint.json").read_text())["runs"]}
    assert list(runs) == [row for row in joint.MODELS if row in rows]
    assert runs["gp"]["beside_process"] == 1
    assert runs["gp+wl"]["networks"] == 1  # a quick run has one seed
    assert runs["gp+trees"]["molecules"] == 60
    assert sum(runs["gp+trees"]["weights"]) == pytest.approx(1, abs=1e-6)
    assert runs["gp+wl"]["weights"] is None
    assert "| process | – |" in (tmp_path / "joint.md").read_text()
    assert main([*command.split(), "svm"]) == 1


def test_networks_of_other_lengths_are_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "training_part", lambda *_: regression_set(20))
    trained: list[int] = []

    def fit(network: Any, train: Any, valid: Any, recipe: joint.FitOptions, **_: Any) -> None:
        trained.append(recipe.epochs)

    monkeypatch.setattr(joint, "fit", fit)
    monkeypatch.setattr(joint, "predict", lambda network, data: np.zeros((len(data), 1)))
    monkeypatch.setattr(joint, "FOLDS", 2)
    known = {"mode": "full"}

    def record(model: str, **options: Any) -> dict[str, Any]:
        made = joint.JointOptions(run_dir=tmp_path, **options)
        problem = joint.Problem("esol", made)
        monkeypatch.setattr(problem, "process", lambda *_: problem.y + 1)
        return problem.record(model, made, known)

    for options in ({"epochs": 1}, {"epochs": 1}, {"epochs": 2}, {"epochs": 2, "matmul_precision": "medium"}):
        short = record("wl", **options)
    assert trained == [*[1] * joint.FOLDS, *[2] * joint.FOLDS, *[2] * joint.FOLDS]
    assert (short["recipe"]["epochs"], short["recipe"]["matmul_precision"]) == (2, "medium")
    assert record("gp")["recipe"] == {}
    (_, row) = joint.TABLE.rows([short])
    assert row[:2] == ("WL kernel network", "1, 2 of 40 epochs")
    (_, row) = joint.TABLE.rows([short | {"recipe": {"epochs": 40}}])
    assert row[1] == "1"
