from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.inputs.edited import edit
from tests.inputs.estimators import ACID, BOTH, SIZE, SMALL, SMILES
from wlkernelnn import MoleculeClassifier, MoleculeRegressor
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.training import load_ensemble


def test_a_saved_ensemble_is_a_run_folder(regressor: MoleculeRegressor, tmp_path: Path) -> None:
    regressor.save(tmp_path / "run")
    mean, _ = load_ensemble(tmp_path / "run").predict(load_molecules(SMILES, cache=False))
    assert_array_equal(mean[:, 0], regressor.predict(SMILES))
    pd.DataFrame({"smiles": SMILES}).to_csv(tmp_path / "in.csv", index=False)
    words = {"test": tmp_path / "in.csv", "model": tmp_path / "run", "preds": tmp_path / "out.csv"}
    assert main(["predict", *(f"--{name}-path={path}" for name, path in words.items())]) == 0
    assert_allclose(pd.read_csv(tmp_path / "out.csv")["y"], regressor.predict(SMILES), rtol=1e-5)
    with pytest.raises(FileExistsError, match="holds a run already"):
        regressor.save(tmp_path / "run")


QUICK = SMALL | {"epochs": 1, "network_options": {"num_iterations": np.int64(2)}}
FEW, FEW_SIZE = SMILES[:24], SIZE[:24]
TARGETS = {
    "one": (MoleculeRegressor, FEW_SIZE),
    "a column": (MoleculeRegressor, FEW_SIZE[:, None]),
    "two": (MoleculeRegressor, np.stack([FEW_SIZE, FEW_SIZE**2], axis=1)),
    "names": (MoleculeClassifier, ACID[:24]),
    "numbers": (MoleculeClassifier, np.where(FEW_SIZE > 5, 7, 3)),
    "booleans": (MoleculeClassifier, FEW_SIZE > 5),
    "labels": (MoleculeClassifier, BOTH[:24]),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if case in ("a column", "numbers", "booleans") else [])
        for case in TARGETS
    ],
)
def test_what_is_saved_is_loaded_again(case: str, tmp_path: Path) -> None:
    kind, y = TARGETS[case]
    size = 2 if case in ("two", "names") else 1
    model = kind(**QUICK, fit_options={"warmup_epochs": 1}, ensemble_size=size).fit(FEW, y)
    model.save(tmp_path / "run")
    again = kind.load(tmp_path / "run")
    assert again.get_params() == model.get_params()
    assert again.validation_score_ == model.validation_score_
    assert_array_equal(again.predict(FEW), model.predict(FEW))
    assert again.score(FEW, y) == model.score(FEW, y)
    if kind is MoleculeClassifier:
        assert_array_equal(again.classes_, model.classes_)
        assert_array_equal(again.predict_proba(FEW), model.predict_proba(FEW))
    if case in ("one", "labels"):
        again.fit(FEW, y)
        assert_array_equal(again.predict(FEW), model.predict(FEW))


def test_folders_that_no_estimator_wrote(regressor: MoleculeRegressor, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match=r"run/estimator\.json: no such file; .*load_string_run"):
        MoleculeRegressor.load(run)
    regressor.save(run)
    with pytest.raises(ValueError, match="run: expected a model for classification, got one for regr"):
        MoleculeClassifier.load(run)
    (run / "origin.json").write_text("{}")
    with pytest.raises(ValueError, match="run: expected a folder of an estimator alone, but a run is there"):
        MoleculeRegressor.load(run)


DAMAGED = {
    "not JSON": (None, None, "JSON"),
    "another format": ("format", "0", "format"),
    "an unknown argument": ("arguments", {"colour": "red"}, "colour"),
    "no argument": ("arguments", None, "TypeError"),
    "a network more": ("networks", 2, "expected 2 networks, found 1"),
    "no number": ("valid", "x", "valid: expected a number or null, got 'x'"),
    "one class": ("classes", ["a"], "classes: expected 2, got 1"),
    "no classes": ("classes", [], "classes: expected 2, got 0"),
    "classes of others": ("classes", [[0, 1], [0, 1]], "estimator"),
    "another order": ("classes", ["b", "a"], r"classes: expected \['a', 'b'\], got \['b', 'a'\]"),
    "no boolean": ("single", "no", "single: expected true or false, got 'no'"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files(
    case: str, regressor: MoleculeRegressor, classifier: MoleculeClassifier, tmp_path: Path
) -> None:
    key, value, message = DAMAGED[case]
    model = classifier if key == "classes" else regressor
    model.save(tmp_path)
    path = tmp_path / "estimator.json"
    state = json.loads(path.read_text())
    edit(path, {} if key is None else {key: value})
    if key is None:
        path.write_text("{")
    with pytest.raises(ValueError, match=rf"estimator\.json: not .*{message}"):
        type(model).load(tmp_path)
    del state["arguments"], state["digest"]
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"estimator\.json: not .*KeyError: 'arguments'"):
        type(model).load(tmp_path)


def test_a_network_that_is_gone(tmp_path: Path) -> None:
    MoleculeRegressor(**QUICK, ensemble_size=2).fit(FEW, FEW_SIZE).save(tmp_path)
    rmtree(tmp_path / "model_1")
    with pytest.raises(ValueError, match="expected 2 networks, found 1"):
        MoleculeRegressor.load(tmp_path)


@pytest.mark.parametrize("generator", [np.random.RandomState(0), np.random], ids=["own", "global"])
def test_a_generator_is_not_saved(generator: Any, tmp_path: Path) -> None:
    options = QUICK | {"random_state": generator, "validation_fraction": 0}
    MoleculeRegressor(**options).fit(FEW, FEW_SIZE).save(tmp_path)
    again = MoleculeRegressor.load(tmp_path)
    assert again.random_state is None
    assert again.validation_score_ is None


def test_a_file_of_another_model_is_not_overwritten(regressor: MoleculeRegressor, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"config\.json is not of a run, and would be overwritten"):
        regressor.save(tmp_path)
    (tmp_path / "config.json").rename(tmp_path / "README.md")
    regressor.save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "{}"


def test_arguments_that_cannot_be_saved(tmp_path: Path) -> None:
    model = MoleculeRegressor(**QUICK, progress=frozenset()).fit(FEW, FEW_SIZE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"an argument or a class cannot be saved: .*frozenset"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
