"""Estimators on a kernel machine, their default model."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from tests.inputs.edited import edit
from tests.inputs.estimators import ACID, BOTH, SIZE, SMALL, SMILES
from wlkernelnn import MoleculeClassifier, MoleculeRegressor
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import MoleculeMachine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.training.molecules import machine

TRAIN, NEW = SMILES[::3] + SMILES[1::3], SMILES[2::3]
Y, Y_NEW = np.concatenate([SIZE[::3], SIZE[1::3]]), SIZE[2::3]
FEW, FEW_SIZE, FEW_ACID = SMILES[:24], SIZE[:24], ACID[:24]


@pytest.fixture(scope="module")
def fitted() -> MoleculeRegressor:
    return MoleculeRegressor(random_state=3).fit(TRAIN, Y)


def test_it_is_the_machine_of_all_molecules(fitted: MoleculeRegressor) -> None:
    alone = MoleculeMachine().fit(load_molecules(TRAIN, y=Y, features=FEATURES, cache=False))
    new = load_molecules(NEW, features=FEATURES, cache=False)
    mean, std = fitted.predict(NEW, return_std=True)
    for one, other in zip((mean, std), alone.predict(new, return_std=True), strict=True):
        assert_allclose(one, other[:, 0], rtol=1e-5)
    assert_allclose(fitted.predict(NEW), mean)
    assert fitted.score(NEW, Y_NEW) == pytest.approx(r2_score(Y_NEW, mean))
    assert r2_score(Y_NEW, mean) > 0.95
    left = alone.leave_one_out()[:, 0]
    assert fitted.validation_score_ == pytest.approx(np.sqrt(np.mean((left - Y) ** 2)), rel=1e-4)
    similarity, position = fitted.nearest(TRAIN[:5])
    assert_allclose(similarity, 1)
    assert position.tolist() == list(range(5))
    assert not hasattr(fitted, "ensemble_")


TARGETS: dict[str, Any] = {
    "one": (MoleculeRegressor, FEW_SIZE),
    "two": (MoleculeRegressor, np.stack([FEW_SIZE, np.where(FEW_SIZE == 3, np.nan, FEW_SIZE**2)], axis=1)),
    "names": (MoleculeClassifier, FEW_ACID),
    "labels": (MoleculeClassifier, BOTH[:24]),
    "three": (MoleculeClassifier, np.where(FEW_SIZE > 5, "large", FEW_ACID)),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, marks=[pytest.mark.slow] if (case, name) == ("labels", "gp") else [])
        for name in ("gp", "linear")
        for case in TARGETS
        if (case, name) != ("names", "gp")
    ],
)
def test_what_is_saved_is_loaded_again(case: str, name: str, tmp_path: Path) -> None:
    kind, y = TARGETS[case]
    model = kind(model=name, random_state=0).fit(FEW, y)
    score, predicted = model.score(FEW, y), model.predict(FEW)
    assert score > 0.9
    model.save(tmp_path / "run")
    loaded = kind.load(tmp_path / "run")
    for again in (loaded, pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        assert again.validation_score_ == model.validation_score_
        assert_array_equal(again.predict(FEW), predicted)
    assert loaded.score(FEW, y) == score
    if kind is MoleculeClassifier:
        assert_array_equal(loaded.predict_proba(FEW), model.predict_proba(FEW))
        other = MoleculeRegressor
    else:
        other = MoleculeClassifier
    with pytest.raises(ValueError, match="expected a model for"):
        other.load(tmp_path / "run")
    with pytest.raises(FileExistsError, match="holds a run already"):
        model.save(tmp_path / "run")


def test_arguments_of_networks_are_ignored_with_a_warning() -> None:
    message = r"epochs, fit_options: arguments of networks .*, which the machine of model='auto' ign"
    with pytest.warns(UserWarning, match=message):
        MoleculeRegressor(epochs=3, fit_options={"ema_decay": 0.0}).fit(FEW, FEW_SIZE)


def test_another_model_takes_the_place() -> None:
    model, few = MoleculeRegressor(random_state=3).fit(FEW, FEW_SIZE), SMALL | {"epochs": 1}
    model.set_params(**few).fit(FEW, FEW_SIZE)
    assert not hasattr(model, "machine_")
    assert_array_equal(model.predict(FEW), MoleculeRegressor(**few).fit(FEW, FEW_SIZE).predict(FEW))
    with pytest.raises(ValueError, match="nearest: a kernel machine compares molecules, model='wl' does not"):
        model.nearest(FEW)
    model.set_params(model="auto", **dict.fromkeys(("hidden_channels",)), epochs=100, batch_size=64)
    model.fit(FEW, FEW_SIZE)
    assert not hasattr(model, "ensemble_")


def test_cross_validation() -> None:
    order = np.random.default_rng(0).permutation(32)
    smiles = np.array(SMILES)[order]
    assert cross_val_score(MoleculeRegressor(), smiles, SIZE[order], cv=2).min() > 0.8
    assert cross_val_score(MoleculeClassifier(), smiles, ACID[order], cv=2).min() > 0.9


def test_estimators_of_earlier_versions_are_read(regressor: MoleculeRegressor, tmp_path: Path) -> None:
    regressor.save(tmp_path)
    path = tmp_path / "estimator.json"
    state = json.loads(path.read_text())
    state["arguments"]["network"] = state["arguments"].pop("model")
    edit(path, state)
    assert MoleculeRegressor.load(tmp_path).model == "wl"


@pytest.mark.parametrize(
    ("options", "smiles", "y", "message"),
    [
        ({}, SMILES[:1], SIZE[:1], "at least 2 molecules, got 1"),
        ({}, SMILES, [np.nan] * 60, "60 rows have no target"),
        ({}, SMILES, np.stack([SIZE, SIZE * np.nan], axis=1), "target y2: no training molecule has a value"),
        ({"features": "ogb"}, SMILES, SIZE, "features 'ogb' lack"),
    ],
)
def test_refused(options: dict[str, Any], smiles: list[str], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor(**options).fit(smiles, y)


def test_one_class_is_refused_alone_and_not_beside_others(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="expected two classes or more, got 1"):
        MoleculeClassifier().fit(SMILES, ["acid"] * 60)
    several = pd.DataFrame({"acid": BOTH[:, 1], "all": 1})
    model = MoleculeClassifier().fit(SMILES, several)
    assert "target all: all training molecules have 1: its frequency is predicted" in caplog.text
    np.testing.assert_allclose(model.predict_proba(SMILES[:5])[1][:, 1], 61 / 62)


SHORT = {"epochs": 1, "hidden_channels": 8, "network_options": {"num_iterations": 2}, "random_state": 3}


@pytest.mark.parametrize("case", ["two", "three"])
def test_joint_models(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FOLDS", 2)
    kind, y = TARGETS[case]
    model = kind(model="linear+wl", **SHORT).fit(FEW, y)
    data = load_molecules(FEW, cache=False)
    model.save(tmp_path / "run")
    again = kind.load(tmp_path / "run")
    assert again.validation_score_ == model.validation_score_
    assert_array_equal(again.predict(FEW), model.predict(FEW))
    if case == "two":
        mean, std = again.predict(FEW, return_std=True)
        assert_array_equal(mean, model.joint_.predict(data))
        assert (std > 0).all()
    else:
        probability = model.joint_.predict(data)
        assert_array_equal(again.predict_proba(FEW)[:, -probability.shape[1] :], probability)
    with pytest.raises(ValueError, match="nearest: a kernel machine compares molecules"):
        model.nearest(FEW)
    model.set_params(model="linear", **dict.fromkeys(["hidden_channels", "network_options"]), epochs=100)
    assert not hasattr(model.fit(FEW, y), "joint_")


def test_a_joint_model_has_no_validation_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FOLDS", 2)
    message = (
        "validation_fraction: networks train to their last epoch, which the joint model of model='linear"
    )
    with pytest.warns(UserWarning, match=message):
        MoleculeRegressor(model="linear+wl", validation_fraction=0.3, **SHORT).fit(FEW, FEW_SIZE)


def test_unknown_models_are_refused_with_all_names() -> None:
    names = "auto, gp, linear, wl, stack, gp+wl, gp+stack, linear+wl, linear+stack"
    with pytest.raises(ValueError, match=re.escape(f"model must be one of {names}, got 'svm'")):
        MoleculeRegressor(model="svm").fit(SMILES, SIZE)  # type: ignore[arg-type]
