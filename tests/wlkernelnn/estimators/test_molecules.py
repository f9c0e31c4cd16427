from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import AdaBoostRegressor, BaggingRegressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.utils import check_random_state, estimator_checks

from tests.inputs.estimators import ACID, BOTH, SIZE, SMALL, SMILES
from wlkernelnn import GraphClassifier, GraphRegressor, MoleculeClassifier, MoleculeRegressor
from wlkernelnn.datasets import load_molecules
from wlkernelnn.kernels import objects
from wlkernelnn.models import KernelStackNetwork
from wlkernelnn.training import FitOptions, fit, predict

QUICK = {**SMALL, "epochs": 1, "network_options": {"num_iterations": 2}}
FEW, FEW_SIZE, FEW_ACID, FEW_BOTH = SMILES[:24], SIZE[:24], ACID[:24], BOTH[:24]


@pytest.fixture(scope="module")
def few() -> MoleculeRegressor:
    """Of few molecules."""
    return MoleculeRegressor(**QUICK).fit(FEW, FEW_SIZE)


@pytest.fixture(scope="module")
def few_classes() -> MoleculeClassifier:
    return MoleculeClassifier(**QUICK).fit(FEW, FEW_ACID)


def test_it_is_fit_and_predict(regressor: MoleculeRegressor) -> None:
    data = load_molecules(SMILES, y=SIZE, cache=False)
    seed = int(check_random_state(3).randint(2**31 - 1))
    train, valid = (
        data[np.sort(part)]
        for part in train_test_split(np.arange(len(data)), test_size=0.1, random_state=seed)
    )
    torch.manual_seed(seed)
    net = type(regressor.ensemble_.networks[0]).from_data(train, hidden_channels=8)
    result = fit(net, train, valid, FitOptions(epochs=2, batch_size=16, seed=seed), progress=False)
    assert_array_equal(regressor.predict(SMILES), predict(net, data)[:, 0])
    assert regressor.validation_score_ == pytest.approx(result.score, rel=1e-5)


def test_it_learns() -> None:
    more = {"hidden_channels": 16, "batch_size": 8, "lr": 0.05, "validation_fraction": 0, "random_state": 4}
    many = QUICK | more
    assert MoleculeRegressor(**many | {"epochs": 20}).fit(FEW, FEW_SIZE).score(FEW, FEW_SIZE) > 0.9
    assert MoleculeClassifier(**many | {"epochs": 8}).fit(FEW, FEW_ACID).score(FEW, FEW_ACID) > 0.95


FORMS = {
    "tuple": tuple,
    "array": np.array,
    "object array": objects,
    "Series": lambda smiles: pd.Series(smiles, index=range(100, 100 + len(smiles))),
    "DataFrame": lambda smiles: pd.DataFrame({"smiles": smiles}),
    "column": lambda smiles: np.array(smiles)[:, None],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_list(few: MoleculeRegressor, form: str) -> None:
    again = clone(few).fit(FORMS[form](FEW), pd.Series(FEW_SIZE, index=FEW))
    expected = few.predict(FEW)
    assert_array_equal(again.predict(FORMS[form](FEW)), expected)
    # Some processors round products of fewer rows otherwise.
    assert_allclose(again.predict(FORMS[form](FEW[:7])), expected[:7], rtol=1e-6)


def test_seeds(few: MoleculeRegressor) -> None:
    torch.manual_seed(0)
    here = torch.random.get_rng_state()
    other = clone(few).set_params(random_state=4).fit(FEW, FEW_SIZE)
    assert not np.array_equal(other.predict(FEW), few.predict(FEW))
    assert torch.equal(torch.random.get_rng_state(), here)
    drawn = clone(few).set_params(random_state=np.random.RandomState(3)).fit(FEW, FEW_SIZE)
    assert_array_equal(drawn.predict(FEW), few.predict(FEW))


def test_ensembles(few: MoleculeRegressor) -> None:
    model = MoleculeRegressor(**QUICK, ensemble_size=2).fit(FEW, FEW_SIZE)
    data = load_molecules(SMILES, cache=False)
    a, b = (predict(net, data)[:, 0] for net in model.ensemble_.networks)
    with pytest.warns(UserWarning, match="at least 10 validation .* over the networks, and too small"):
        mean, std = model.predict(SMILES, return_std=True)
    assert_allclose(mean, (a + b) / 2, rtol=1e-5)
    assert_allclose(std, np.abs(a - b) / 2, rtol=1e-3, atol=1e-5)
    assert std.max() > 0
    with pytest.raises(ValueError, match=r"at least 10 validation molecules .* or several networks"):
        few.predict(SMILES, return_std=True)


@pytest.mark.parametrize("ensemble_size", [1, 2])
def test_deviations_of_new_measurements(ensemble_size: int, tmp_path: Path) -> None:
    model = MoleculeRegressor(**QUICK, ensemble_size=ensemble_size, validation_fraction=0.5)
    mean, std = model.fit(FEW, FEW_SIZE).predict(SMILES, return_std=True)
    found = model.ensemble_.recalibration
    assert found is not None
    assert (found.factor[0] > 0) == (ensemble_size > 1)
    assert found.counts.tolist() == [12]
    _, spread = model.ensemble_.predict(load_molecules(SMILES, cache=False))
    assert_allclose(std, np.sqrt((found.factor * spread[:, 0]) ** 2 + found.rest**2), rtol=1e-5)
    model.save(tmp_path)
    for one, other in zip(
        MoleculeRegressor.load(tmp_path).predict(SMILES, return_std=True), (mean, std), strict=True
    ):
        assert_allclose(one, other, rtol=1e-6)


def test_several_targets_with_missing_values() -> None:
    y = pd.DataFrame({"size": FEW_SIZE, "half": FEW_SIZE / 2})
    y.loc[3, "half"] = None
    model = MoleculeRegressor(**QUICK, validation_fraction=0).fit(FEW, y)
    assert model.predict(SMILES[:5]).shape == (5, 2)
    assert model.ensemble_.about["target_names"] == ["size", "half"]
    assert model.validation_score_ is None


def test_other_networks_and_options() -> None:
    model = MoleculeRegressor(
        features="ogb+rw4",
        fit_options={"metric": "mae", "ema_decay": 0.0},
        **{**QUICK, "model": "stack", "hidden_channels": None, "network_options": {"num_layers": 2}},
    ).fit(FEW, FEW_SIZE)
    (net,) = model.ensemble_.networks
    assert isinstance(net, KernelStackNetwork)
    assert (net.config["num_layers"], net.config["num_node_values"]) == (2, 4)
    assert model.ensemble_.about["metric"] == "mae"


def test_the_metric_that_chooses_the_epoch(few_classes: MoleculeClassifier) -> None:
    assert few_classes.ensemble_.about["metric"] == "log_loss"
    model = MoleculeClassifier(**QUICK, fit_options={"metric": "roc_auc"}).fit(FEW, FEW_ACID)
    assert model.ensemble_.about["metric"] == "roc_auc"


def test_classes_of_any_name(classifier: MoleculeClassifier) -> None:
    probability = classifier.predict_proba(SMILES)
    assert classifier.classes_.tolist() == ["acid", "other"]
    assert_allclose(probability.sum(axis=1), 1, rtol=1e-6)
    assert_array_equal(classifier.predict(SMILES), np.where(probability[:, 1] > 0.5, "other", "acid"))
    # The second class is what the network sees as 1.
    data = load_molecules(SMILES, y=(ACID == "other").astype(int), cache=False)
    (net,) = classifier.ensemble_.networks
    assert_array_equal(predict(net, data)[:, 0], probability[:, 1])


LABELS: dict[str, Any] = {
    "strings": FEW_ACID.tolist(),
    "categories": pd.Series(FEW_ACID, dtype="category"),
    "booleans": [label == "other" for label in FEW_ACID],
    "signs": [2 * (label == "other") - 1 for label in FEW_ACID],
    "zeros and ones": pd.Series(FEW_ACID == "other").astype("Int64"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind(few_classes: MoleculeClassifier, kind: str) -> None:
    model = clone(few_classes).fit(FEW, LABELS[kind])
    assert_array_equal(model.predict_proba(FEW), few_classes.predict_proba(FEW))
    assert set(model.predict(FEW)) <= set(LABELS[kind])
    assert model.score(FEW, LABELS[kind]) == few_classes.score(FEW, FEW_ACID)


def test_a_column_of_labels(few_classes: MoleculeClassifier) -> None:
    with pytest.warns(DataConversionWarning):
        model = clone(few_classes).fit(FEW, pd.DataFrame({"kind": FEW_ACID}))
    assert_array_equal(model.predict(FEW), few_classes.predict(FEW))
    assert model.ensemble_.about["target_names"] == ["kind=other"]


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (MoleculeClassifier(**SMALL), [*ACID[:3], None, *ACID[4:]]),
        (MoleculeRegressor(**SMALL), pd.Series(SIZE).mask(SIZE.cumsum() == SIZE[:4].sum())),
    ],
)
def test_rows_without_any_target_are_refused(model: Any, y: Any) -> None:
    with pytest.raises(ValueError, match="y: 1 rows have no target, the first is data row 4"):
        model.fit(SMILES, y)


def test_several_labels() -> None:
    y = FEW_BOTH.astype(float)
    y[2, 0] = np.nan
    model = MoleculeClassifier(**QUICK).fit(FEW, y)
    large, acid = model.predict_proba(FEW)
    data = load_molecules(FEW, cache=False)
    mean, _ = model.ensemble_.predict(data)
    assert_array_equal(np.stack([large[:, 1], acid[:, 1]], axis=1), mean)
    assert_array_equal(model.predict(FEW), mean > 0.5)
    right = (model.predict(FEW) == FEW_BOTH).all(axis=1)
    right[2] = model.predict(FEW)[2, 1] == FEW_BOTH[2, 1]
    assert model.score(FEW, y) == pytest.approx(right.mean())
    y[5:] = np.nan  # rows of which nothing is known count neither as right nor as wrong
    assert model.score(FEW, y) == pytest.approx(right[:5].mean())
    assert np.isnan(model.score(FEW, np.full_like(y, np.nan)))
    assert [classes.tolist() for classes in model.classes_] == [[0, 1], [0, 1]]


def test_true_classes_are_read_as_by_fit() -> None:
    several = MoleculeClassifier(**QUICK).fit(FEW, FEW_BOTH.astype(str))
    assert several.score(SMILES, BOTH.astype(str)) == several.score(SMILES, BOTH) > 0
    with pytest.raises(ValueError, match="y: fit was given 2 targets, got 1"):
        several.score(SMILES, ACID)
    single = MoleculeClassifier(**QUICK).fit(FEW, FEW_BOTH[:, 1])
    right = single.predict(SMILES) == BOTH[:, 1]
    some = pd.Series([None, *BOTH[1:, 1]], dtype="boolean")
    assert single.score(SMILES, some) == pytest.approx(right[1:].mean())
    with pytest.raises(ValueError, match=r"y: fit was given the classes \[0, 1\], got '[01]'"):
        single.score(SMILES, BOTH[:, 1].astype(str))


@pytest.mark.parametrize("y", [FEW_ACID, FEW_BOTH], ids=["one", "several"])
def test_scorers(y: np.ndarray) -> None:
    scores = cross_val_score(MoleculeClassifier(**QUICK), np.array(FEW), y, scoring="roc_auc", cv=2)
    assert np.isfinite(scores).all()


def test_scores_where_targets_are_missing() -> None:
    y = np.stack([FEW_SIZE, FEW_SIZE / 2], axis=1)
    y[3, 1] = np.nan
    model = MoleculeRegressor(**QUICK).fit(FEW, y)
    came, known = model.predict(FEW), np.arange(24) != 3
    expected = (r2_score(y[:, 0], came[:, 0]) + r2_score(y[known, 1], came[known, 1])) / 2
    assert model.score(FEW, y) == pytest.approx(expected)
    assert np.isfinite(cross_val_score(model, FEW, y, cv=2)).all()


@pytest.mark.parametrize("y", [FEW_ACID, FEW_BOTH], ids=["one", "several"])
def test_probabilities_by_cross_validation(y: np.ndarray) -> None:
    came = cross_val_predict(MoleculeClassifier(**QUICK), FEW, y, method="predict_proba", cv=2)
    assert np.shape(came) == ((24, 2) if y.ndim == 1 else (2, 24, 2))
    assert_allclose(np.sum(came, axis=-1), 1, rtol=1e-6)


def test_grid_search() -> None:
    """Numbers of grids are numpy's own."""
    grids = [
        {"hidden_channels": np.array([4, 8]), "network_options": [{"num_iterations": np.int64(2)}]},
        {"lr": np.logspace(-4, -2, 1), "epochs": 2 ** np.arange(1)},
        {"dropout": np.float32([0.1]), "fit_options": [{"lr_min": np.float64(1e-6)}]},
    ]
    cv = ShuffleSplit(1, random_state=0)
    search = GridSearchCV(MoleculeRegressor(**QUICK), grids, cv=cv, error_score="raise").fit(FEW, FEW_SIZE)
    assert search.best_estimator_.predict(FEW[:2]).shape == (2,)
    assert len(set(search.cv_results_["mean_test_score"])) == 4


@pytest.mark.parametrize("kind", [BaggingRegressor, AdaBoostRegressor])
def test_ensembles_of_scikit_learn(kind: Any) -> None:
    column = pd.DataFrame({"smiles": FEW})
    model = kind(MoleculeRegressor(**QUICK), n_estimators=2, random_state=2).fit(column, FEW_SIZE)
    assert len(model.estimators_) == 2
    assert model.predict(column).shape == (24,)


# Filters of warnings are no thread's own: one takes away what another has set.
@pytest.mark.filterwarnings("ignore:Checkpoint directory:UserWarning")
def test_threads_train_what_they_would_alone() -> None:
    model = MoleculeRegressor(**QUICK | {"batch_size": 4}, dropout=0.3)  # each step draws
    alone = cross_val_score(model, FEW, FEW_SIZE, cv=2)
    with joblib.parallel_backend("threading", n_jobs=2):
        together = cross_val_score(model, FEW, FEW_SIZE, cv=2, n_jobs=2)
    assert_array_equal(together, alone)


def test_predictions_are_of_the_fitted_features(regressor: MoleculeRegressor) -> None:
    changed = pickle.loads(pickle.dumps(regressor)).set_params(features="ogb+rings")
    assert_array_equal(changed.predict(SMILES), regressor.predict(SMILES))


def test_repeated_molecules_are_nothing_special(
    regressor: MoleculeRegressor, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = regressor.predict(["CCO", "CCO"])
    assert a == b
    assert not caplog.records


def test_any_name_of_a_target_trains(tmp_path: Path) -> None:
    for name in ("smiles", "row"):
        model = MoleculeRegressor(**QUICK).fit(FEW, pd.Series(FEW_SIZE, name=name))
        assert model.ensemble_.about["target_names"] == [name]
        with pytest.raises(ValueError, match=f"{name} would be there twice"):
            model.save(tmp_path / name)


@pytest.mark.parametrize("model", ["regressor", "classifier"])
def test_pickles(model: str, request: pytest.FixtureRequest) -> None:
    fitted = request.getfixturevalue(model)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(SMILES), fitted.predict(SMILES))


REFUSED: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "molecule": (
        {},
        [*SMILES[:2], "C1CC"],
        SIZE[:3],
        r"X: 1 of 3 rows give no molecule\n  data row 3: 'C1CC': .*unclosed",
    ),
    "number": ({}, SMILES, [*SIZE[:-1], "x"], "y: data row 60, column 'y': expected a finite number"),
    "names": (
        {},
        SMILES,
        pd.DataFrame({1: SIZE, "1": SIZE}),
        "expected targets of different names, got 1, 1",
    ),
    "few": ({}, SMILES[:1], SIZE[:1], "validation_fraction=0.1 of 1 molecules leaves too few in a part"),
    "none": ({}, [], [], "validation_fraction=0.1 of 0 molecules leaves too few in a part"),
    "no fraction": ({"validation_fraction": "a"}, SMILES, SIZE, "validation_fraction must be in"),
    "length": ({}, SMILES, SIZE[:3], r"y must be \[60\]"),
    "model": (
        {"model": "gcn"},
        SMILES,
        SIZE,
        "model must be one of auto, gp, linear, wl, stack, gp.wl, gp.stack, .*got 'gcn'",
    ),
    "features": ({"features": "ecfp"}, SMILES, SIZE, "ecfp"),
    "lr": ({"lr": -1.0}, SMILES, SIZE, "lr must be above 0"),
    "members": ({"ensemble_size": 0}, SMILES, SIZE, "ensemble_size"),
    "fraction": ({"validation_fraction": 1.0}, SMILES, SIZE, r"validation_fraction must be in \[0, 1\)"),
    "twice": ({"fit_options": {"lr": 1.0}}, SMILES, SIZE, "fit_options: lr is set by the argument lr"),
    "seed": ({"fit_options": {"seed": 1}}, SMILES, SIZE, "seed is set by the argument random_state"),
    "option": ({"fit_options": {"lrr": 1.0}}, SMILES, SIZE, "unknown option lrr; known are accelerator, "),
    "before molecules": ({"dropout": 2}, ["no SMILES"], [1.0], r"dropout must be in \[0, 1\), got 2"),
    "no dict": ({"fit_options": "cosine"}, SMILES, SIZE, "fit_options must be a dict .*'cosine'"),
    "of data": ({"network_options": {"num_tasks": 2}}, SMILES, SIZE, "unknown option num_tasks"),
    "of another": ({"network_options": {"num_layers": 2}}, SMILES, SIZE, "unknown option num_layers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    options, smiles, y, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor(**SMALL | options).fit(smiles, y)


@pytest.mark.parametrize(
    ("X", "came"),
    [
        ("CCO", "got str"),
        (pd.DataFrame({"smiles": SMILES, "id": range(60)}), r"got DataFrame of shape \[60, 2\]"),
        (np.array([SMILES, SMILES]), r"got ndarray of shape \[2, 60\]"),
        (dict.fromkeys(SMILES), "got dict"),
    ],
)
def test_what_is_no_list(regressor: MoleculeRegressor, X: Any, came: str) -> None:
    with pytest.raises(TypeError, match=f"X: expected a list, array, Series or column of SMILES, {came}"):
        regressor.predict(X)


@pytest.mark.parametrize("model", [MoleculeRegressor(), MoleculeClassifier()])
def test_not_fitted(model: Any, tmp_path: Path) -> None:
    for call in (lambda: model.predict(SMILES), lambda: model.save(tmp_path / "run")):
        with pytest.raises(NotFittedError):
            call()
    assert is_regressor(model) != is_classifier(model)


# Those that need no matrix of numbers.
CHECKS = [
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.parametrize("model", [MoleculeRegressor, MoleculeClassifier, GraphRegressor, GraphClassifier])
def test_scikit_learns_own_checks(model: Any) -> None:
    for check in CHECKS:
        check(model.__name__, model())
