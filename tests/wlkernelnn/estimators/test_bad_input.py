"""Inputs with little or nothing to learn: the right value, or an error that says what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.estimators import ACID, BOTH, SIZE, SMALL, SMILES
from wlkernelnn import MoleculeClassifier, MoleculeRegressor
from wlkernelnn.estimators import base
from wlkernelnn.machines import molecules

ATOMS = ["C", "N", "O", "[Na+]", "[Cl-]", "[K+]", "F", "S", "P", "[Xe]"]
MODELS: dict[str, dict[str, Any]] = {
    "auto": {},
    "linear": {"model": "linear"},
    "wl": SMALL | {"epochs": 1, "network_options": {"num_iterations": 2}},
}


@pytest.mark.parametrize("model", ["auto", "linear"])
def test_duplicates_with_different_targets(model: str) -> None:
    """Predicted is their mean; how far they are apart is noise, which deviations have."""
    smiles, size = SMILES[:32], SIZE[:32]
    twice = np.concatenate([size - 2, size + 2])
    machine = MoleculeRegressor(model, random_state=0).fit(2 * smiles, twice)
    mean, std = machine.predict(smiles, return_std=True)
    assert np.abs(mean - size).mean() < 1
    assert 1.5 < std.mean() < 3.5


@pytest.mark.parametrize("model", MODELS)
def test_molecules_without_edges(model: str) -> None:
    estimator = MoleculeRegressor(**MODELS[model]).fit(ATOMS, np.arange(10.0))
    for values in (estimator.predict(ATOMS), estimator.predict(SMILES)):
        assert np.isfinite(values).all()
    # And new to a model of molecules with edges.
    assert np.isfinite(MoleculeRegressor(**MODELS[model]).fit(SMILES[:24], SIZE[:24]).predict(ATOMS)).all()


@pytest.mark.parametrize("model", ["auto", "linear"])
def test_constant_targets(model: str, caplog: pytest.LogCaptureFixture) -> None:
    machine = MoleculeRegressor(model).fit(SMILES[:24], np.full(24, 3.5))
    assert "target y: all training molecules have 3.5: nothing is learned" in caplog.text
    mean, std = machine.predict(SMILES, return_std=True)
    assert mean.tolist() == [3.5] * 60
    assert std.tolist() == [0] * 60


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("auto", "needs at least 2 molecules, got 1"),
        ("linear", "needs at least 2 molecules, got 1"),
        ("gp+wl", "needs at least 2 molecules that differ, got 1"),
        ("wl", "validation_fraction=0.1 of 1 molecules leaves too few in a part; 0 trains on all"),
    ],
)
def test_one_molecule(model: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor(**MODELS.get(model, {"model": model})).fit(["CCO"], [1.0])


def test_one_molecule_is_enough_for_a_network() -> None:
    network = MoleculeRegressor(**SMALL, validation_fraction=0).fit(["CCO"], [1.0])
    assert np.isfinite(network.predict(["CCO", "CCN"])).all()


@pytest.mark.parametrize("model", MODELS)
def test_targets_that_are_all_missing(model: str) -> None:
    with pytest.raises(ValueError, match="y: 60 rows have no target, the first is data row 1"):
        MoleculeRegressor(**MODELS[model]).fit(SMILES, np.full(60, np.nan))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 60, "expected two classes or more, got 1"),
        (["a"] + ["b"] * 59, r"0.1 of 60 molecules \(1 / 59 of each class\) leaves too few"),
        ([1] * 30 + ["x"] * 30, "some classes are strings and some are not"),
        (pd.DataFrame({"a": ACID, "b": ACID}), "y: data row 1, column 'a': expected"),
        (SIZE / 7, "continuous"),
        (BOTH * 2, "expected 0 or 1"),
        (1, r"y must be \[60\] or \[60, T\], got shape \[\]"),
    ],
)
def test_refused_classes(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculeClassifier(**SMALL).fit(SMILES, y)


def test_more_molecules_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before molecules are read, which takes minutes."""
    monkeypatch.setattr(molecules, "memory", lambda: 64 * 10**9)
    monkeypatch.setattr(base, "molecules_of", lambda *_: pytest.fail("molecules are read"))
    message = (
        "needs about 160 GB for 100,000 molecules and 1 target.*machine has 64 GB: take model='auto', whi"
    )
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor("gp").fit(["C"] * 100_000, np.zeros(100_000))
