"""What the estimators of molecules learn besides values and two classes: weights, classes, distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from tests.inputs.estimators import ACID, BOTH, SIZE, SMALL, SMILES
from wlkernelnn import MoleculeClassifier, MoleculeRegressor

QUICK = {**SMALL, "epochs": 1, "network_options": {"num_iterations": 2}}
FEW, FEW_SIZE = SMILES[:30], SIZE[:30]


def test_weights_of_classes(tmp_path: Path) -> None:
    """They are those of the options of the training, by class."""
    quick, acid = {**QUICK, "validation_fraction": 0}, ACID[:30]
    weighted = MoleculeClassifier(**quick, class_weight={"other": 0.0}).fit(FEW, acid)
    by_options = MoleculeClassifier(**quick, fit_options={"class_weight": [1.0, 0.0]}).fit(FEW, acid)
    assert_array_equal(weighted.predict_proba(FEW), by_options.predict_proba(FEW))
    plain = MoleculeClassifier(**quick).fit(FEW, acid)
    assert (weighted.predict_proba(FEW)[:, 0] > plain.predict_proba(FEW)[:, 0]).all()
    weighted.save(tmp_path)
    again = MoleculeClassifier.load(tmp_path)
    assert again.get_params() == clone(weighted).get_params() == weighted.get_params()
    numbers = MoleculeClassifier(**quick, class_weight={0: 1, np.int64(1): 3}).fit(FEW, BOTH[:30])
    numbers.save(tmp_path / "numbers")
    assert MoleculeClassifier.load(tmp_path / "numbers").class_weight == {0: 1, 1: 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"class_weight": {"base": 2}},
            r"class_weight: 'base' is not one of the classes \['acid', 'other'\]",
        ),
        (
            {"class_weight": "even"},
            r"class_weight must be None, \"balanced\" or a dict of \['acid', 'other'\]",
        ),
        ({"class_weight": {"acid": -1}}, r"class_weight must be weights of at least 0, .*, got \[-1, 1.0\]"),
        (
            {"class_weight": "balanced", "fit_options": {"class_weight": "balanced"}},
            "class_weight is set by the arg",
        ),
        (
            {"fit_options": {"class_weight": [1, 2, 3]}},
            "class_weight has 3 weights, expected one of each of 2 cl",
        ),
        (
            {"fit_options": {"class_weight": [1]}},
            r"class_weight must be balanced or a weight of each .*got \[1\]",
        ),
    ],
)
def test_weights_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculeClassifier(**SMALL, **options).fit(SMILES, ACID)


def test_machines_ignore_weights_with_a_warning() -> None:
    with pytest.warns(
        UserWarning, match="class_weight: arguments of networks .*, which the machine of model"
    ):
        MoleculeClassifier("linear", class_weight="balanced").fit(SMILES, ACID)


def test_more_than_two_classes(tmp_path: Path) -> None:
    names = np.array(["one", "three", "two"])[np.arange(60) % 3]
    model = MoleculeClassifier(**QUICK, ensemble_size=2).fit(FEW, names[:30])
    assert model.classes_.tolist() == ["one", "three", "two"]
    probability = model.predict_proba(SMILES)
    assert probability.shape == (60, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-5)
    assert model.predict(SMILES).tolist() == model.classes_[probability.argmax(axis=1)].tolist()
    assert model.score(SMILES, names) == pytest.approx((model.predict(SMILES) == names).mean())
    model.save(tmp_path)
    again = MoleculeClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(SMILES), probability)


def test_quantiles_and_deviations(tmp_path: Path) -> None:
    options = {**QUICK, "model": "wl", "validation_fraction": 0.4, "random_state": 0}
    model = MoleculeRegressor(loss="quantile", quantiles=[0.2, 0.5, 0.9], **options).fit(FEW, FEW_SIZE)
    quantiles = model.predict_quantiles(SMILES)
    assert quantiles.shape == (len(SMILES), 3)
    assert (np.diff(quantiles) >= 0).all()
    assert_array_equal(model.predict(SMILES), quantiles[:, 1])
    model.save(tmp_path / "run")
    again = MoleculeRegressor.load(tmp_path / "run")
    assert_array_equal(again.predict_quantiles(SMILES), quantiles)
    several = clone(model).fit(FEW, np.stack([FEW_SIZE, FEW_SIZE], axis=1))
    assert several.predict_quantiles(SMILES).shape == (len(SMILES), 2, 3)
    several.set_params(validation_fraction=0).fit(FEW, FEW_SIZE)
    with pytest.warns(UserWarning, match="predict_quantiles needs .* are as the networks learned them"):
        assert several.predict_quantiles(SMILES).shape == (len(SMILES), 3)
    both = MoleculeRegressor(loss="mve", **options | {"validation_fraction": 0}).fit(FEW, FEW_SIZE)
    with pytest.warns(UserWarning, match="return_std=True needs .* are as the networks learned them"):
        std = both.predict(SMILES, return_std=True)[1]
    assert len(np.unique(std)) > 1
    assert (std > 0).all()
    for refused, message in (
        (lambda: both.predict_quantiles(SMILES), "needs loss='quantile', got loss='mve'"),
        (lambda: MoleculeRegressor(loss="mve").fit(SMILES, SIZE), "loss='mve' is of networks"),
        (lambda: MoleculeRegressor("wl", loss="l1").fit(SMILES, SIZE), "loss must be one of squared"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


def test_scores_go_by_the_names_of_columns() -> None:
    values = pd.DataFrame({"size": SIZE, "half": -SIZE / 2})
    model = MoleculeRegressor("linear").fit(SMILES, values)
    expected = model.score(SMILES, values)
    assert model.score(SMILES, values[["half", "size"]]) == expected > 0.5
    assert model.score(SMILES, values.to_numpy()) == expected
    with pytest.raises(ValueError, match=r"y: expected the columns \['size', 'half'\], as \['half'\], got"):
        model.score(SMILES, values.rename(columns={"size": "x"}))
    labels = pd.DataFrame(BOTH, columns=["large", "acid"])
    kinds = MoleculeClassifier("linear").fit(SMILES, labels)
    expected = kinds.score(SMILES, labels)
    assert kinds.score(SMILES, labels[["acid", "large"]]) == expected > 0.9


def test_levels(tmp_path: Path) -> None:
    names = ["small", "large", "huge"]
    y = np.array(names)[np.digitize(SIZE, np.quantile(FEW_SIZE, [0.4, 0.7]))]
    model = MoleculeClassifier(levels=names, **QUICK).fit(FEW, y[:30])
    assert model.classes_.tolist() == names
    assert model.ensemble_.about["task"] == "ordinal"
    probability = model.predict_proba(SMILES)
    assert_allclose(probability.sum(1), 1, rtol=1e-5)
    assert_array_equal(model.predict(SMILES), np.array(names)[(probability.cumsum(1) < 0.5).sum(1)])
    assert model.score(SMILES, y) == pytest.approx((model.predict(SMILES) == y).mean())
    model.save(tmp_path / "run")
    assert_array_equal(MoleculeClassifier.load(tmp_path / "run").predict_proba(SMILES), probability)
    for levels, kind, message in (
        (names, "auto", "levels are of networks"),
        (names[:2], "wl", "'huge' of data row"),
        (["huge"] * 2, "wl", "at least two different classes"),
    ):
        with pytest.raises(ValueError, match=message):
            MoleculeClassifier(kind, levels=levels).fit(SMILES, y)
