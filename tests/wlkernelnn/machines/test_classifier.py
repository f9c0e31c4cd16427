from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.base import clone, is_classifier
from sklearn.ensemble import BaggingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import estimator_checks

from wlkernelnn.datasets import featurize
from wlkernelnn.kernels import DescriptorKernel, MoleculeKernel, objects
from wlkernelnn.machines import GaussianProcessClassifier
from wlkernelnn.machines.classifier import platt_scaling

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(80, 2))
Y = (X[:, 0] + 0.5 * RANDOM.normal(size=80) > 0.4).astype(int)
NEW = RANDOM.normal(size=(9, 2))
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N")]
NAMES = ["alcohol", "amine"] * 12


def regularised(positive: np.ndarray, weight: np.ndarray) -> np.ndarray:
    first, second = weight[positive].sum(), weight[~positive].sum()
    return np.where(positive, (first + 1) / (first + 2), 1 / (second + 2))


def test_scaling_is_the_least_cross_entropy_of_platts_targets() -> None:
    means, weight = RANDOM.normal(size=80), RANDOM.uniform(0.5, 2, size=80)
    positive = means + RANDOM.normal(size=80) > 0
    target = regularised(positive, weight)

    def loss(line: np.ndarray) -> float:
        odds = line[0] * means + line[1]
        return -float(weight @ (target * log_expit(odds) + (1 - target) * log_expit(-odds)))

    slope, intercept = platt_scaling(means, positive, weight)
    best = minimize(loss, [0.0, 0.0], tol=1e-12)
    np.testing.assert_allclose([slope, intercept], best.x, rtol=1e-4)
    # Where classes do not overlap, only the regularised targets keep the slope finite.
    assert 1 < platt_scaling(np.linspace(-1, 1, 10), np.arange(10) > 4, np.ones(10))[0] < 20


def test_equals_logistic_regression_on_leave_one_out_log_odds() -> None:
    machine = GaussianProcessClassifier(RBF()).fit(X, Y)
    means, _ = machine.machine_.leave_one_out()
    target = regularised(Y > 0, np.ones(80))
    line = LogisticRegression(C=np.inf, tol=1e-8).fit(
        np.concatenate([means, means])[:, None], np.repeat([1, 0], 80), np.concatenate([target, 1 - target])
    )
    odds = machine.machine_.predict(NEW)
    np.testing.assert_allclose(machine.predict_proba(NEW), line.predict_proba(odds[:, None]), rtol=1e-6)
    np.testing.assert_allclose(machine.leave_one_out(), line.predict_proba(means[:, None])[:, 1], rtol=1e-6)
    assert ((machine.leave_one_out() > 0.5) == Y).mean() > 0.8
    # The log-odds are nearly right without any scaling.
    assert 0.7 < machine.slope_[0] < 1.4


def test_few_of_a_class() -> None:
    x = RANDOM.normal(size=(400, 2))
    y = (x[:, 0] + 0.3 * RANDOM.normal(size=400) > 2).astype(int)
    assert 0 < y.mean() < 0.06
    for num_landmarks in (None, 100):
        machine = GaussianProcessClassifier(RBF(), num_landmarks=num_landmarks).fit(x, y)
        left_out = machine.leave_one_out()
        assert roc_auc_score(y, left_out) > 0.9
        assert left_out.mean() == pytest.approx(y.mean(), rel=0.2)
        assert log_loss(y, left_out) < 0.7 * log_loss(y, np.full(400, y.mean()))


def test_one_class_alone_has_its_frequency(caplog: pytest.LogCaptureFixture) -> None:
    y = np.stack([Y, np.where(np.arange(80) < 30, 1, np.nan)], axis=1)
    machine = GaussianProcessClassifier(RBF()).fit(X, y)
    assert "target 1: all rows have class 1: its frequency is predicted" in caplog.text
    assert "target 0" not in caplog.text
    alone = machine.predict_proba(NEW)[1]
    np.testing.assert_allclose(alone[:, 1], 31 / 32)


def test_a_negative_slope_is_zero() -> None:
    means, positive = np.linspace(-1, 1, 20), np.arange(20) < 5
    slope, intercept = platt_scaling(means, positive, np.ones(20))
    assert slope == 0
    np.testing.assert_allclose(expit(intercept), regularised(positive, np.ones(20)).mean())
    # A kernel that sees nothing: all that is left out is predicted from the others, on the wrong side.
    machine = GaussianProcessClassifier(ConstantKernel(1.0, "fixed")).fit(X, Y)
    np.testing.assert_allclose(machine.predict_proba(NEW)[:, 1], Y.mean(), atol=0.02)


@pytest.mark.parametrize("num_landmarks", [None, 30])
def test_several_targets_with_gaps_are_several_machines(num_landmarks: int | None) -> None:
    several = np.stack([Y, X[:, 1] > 0], axis=1).astype(float)
    several[::3, 1] = np.nan
    known = np.flatnonzero(~np.isnan(several[:, 1]))
    options: dict[str, Any] = {"num_landmarks": num_landmarks, "max_fit_rows": None}
    machine = GaussianProcessClassifier(RBF(1.0, "fixed"), **options).fit(X, several)
    first, second = machine.predict_proba(NEW)
    alone = GaussianProcessClassifier(RBF(1.0, "fixed"), **options).fit(X, Y)
    np.testing.assert_allclose(first, alone.predict_proba(NEW), rtol=1e-5)
    if num_landmarks is None:  # other rows have other landmarks
        other = GaussianProcessClassifier(RBF(1.0, "fixed"), **options).fit(X[known], several[known, 1])
        np.testing.assert_allclose(second, other.predict_proba(NEW), rtol=1e-5)
    np.testing.assert_array_equal(machine.predict(NEW), np.stack([first, second])[:, :, 1].T > 0.5)
    assert [classes.tolist() for classes in machine.classes_] == [[0, 1], [0, 1]]
    left_out = machine.leave_one_out()
    assert left_out.shape == (80, 2)
    assert (np.isnan(left_out) == np.isnan(several)).all()


KIND = np.array(["far", "left", "right"])[np.where(X[:, 1] > 0.8, 0, np.where(X[:, 0] < 0, 1, 2))]


def test_several_classes_are_machines_of_each_against_all_others() -> None:
    y = KIND.astype(object)
    y[3] = None
    known = np.arange(80) != 3
    options: dict[str, Any] = {"max_fit_rows": None}
    machine = GaussianProcessClassifier(RBF(1.0, "fixed"), **options).fit(X, y)
    each = OneVsRestClassifier(GaussianProcessClassifier(RBF(1.0, "fixed"), **options)).fit(
        X[known], KIND[known]
    )
    assert machine.classes_.tolist() == each.classes_.tolist() == ["far", "left", "right"]
    np.testing.assert_allclose(machine.predict_proba(NEW), each.predict_proba(NEW), rtol=1e-5)
    assert machine.predict(NEW).tolist() == each.predict(NEW).tolist()
    left_out = machine.leave_one_out()
    assert np.isnan(left_out[3]).all()
    np.testing.assert_allclose(left_out[known].sum(axis=1), 1)
    # Another library's, without the mean of the log-odds, and with another link: it agrees nearly.
    other = SklearnClassifier(10.0 * RBF(), optimizer=None).fit(X, KIND)
    losses = [
        log_loss(KIND[known], p)
        for p in (left_out[known], cross_val_predict(other, X[known], KIND[known], method="predict_proba"))
    ]
    assert losses[0] < losses[1] + 0.05
    assert (machine.predict(NEW) == other.predict(NEW)).mean() > 0.7
    assert is_classifier(machine)
    assert machine.score(X[known], KIND[known]) > 0.9


def test_weights_are_repeated_rows() -> None:
    weight = np.ones(80)
    weight[:10] = 2
    target = np.concatenate([Y, Y[:10]]) > 0
    means = RANDOM.normal(size=80) + Y
    np.testing.assert_allclose(
        platt_scaling(means, Y > 0, weight),
        platt_scaling(np.concatenate([means, means[:10]]), target, np.ones(90)),
        rtol=1e-6,
    )
    weighted = GaussianProcessClassifier(RBF()).fit(X, Y, weight)
    expected = platt_scaling(weighted.machine_.leave_one_out()[0], Y > 0, weight / weight.mean())
    np.testing.assert_allclose([*weighted.slope_, *weighted.intercept_], expected)


@pytest.mark.parametrize("unit", [1e-4, 1e6])
def test_the_unit_of_weights_does_not_count(unit: float) -> None:
    machine = GaussianProcessClassifier(RBF(1.0, "fixed"))
    for weight in (np.ones(80), np.linspace(0.5, 1.5, 80)):
        expected = machine.fit(X, Y, weight).predict_proba(NEW)
        np.testing.assert_allclose(machine.fit(X, Y, unit * weight).predict_proba(NEW), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (NAMES, ["alcohol", "amine"]),
        (np.array(NAMES), ["alcohol", "amine"]),
        (pd.Series([name == "amine" for name in NAMES]), [False, True]),
        ([-1 if name == "alcohol" else 1 for name in NAMES], [-1, 1]),
        ([*NAMES[:-1], None], ["alcohol", "amine"]),
        (np.ma.masked_array(["hidden", *NAMES[1:]], np.arange(len(NAMES)) == 0), ["alcohol", "amine"]),
        ([*(float(name == "amine") for name in NAMES[:-1]), np.nan], [0, 1]),
    ],
)
def test_classes_have_any_names(y: Any, classes: list[Any]) -> None:
    machine = GaussianProcessClassifier(MoleculeKernel()).fit(SMILES, y)
    assert machine.classes_.tolist() == classes
    assert machine.predict(["CCCCO", "CCCCN"]).tolist() == classes
    assert machine.predict_proba(["CCCCO"]).shape == (1, 2)


def test_scikit_learns_tools_take_it() -> None:
    machine = GaussianProcessClassifier(MoleculeKernel(), max_fit_rows=20)
    assert clone(machine).get_params() == machine.get_params()
    assert is_classifier(machine)
    graphs, _ = featurize(SMILES, features="ogb+invariants+descriptors")
    for structures in (SMILES, objects(SMILES)):
        assert cross_val_score(machine, structures, NAMES, cv=3, scoring="roc_auc").min() > 0.9
    both = clone(machine).set_params(kernel=MoleculeKernel() + DescriptorKernel()).fit(graphs, NAMES)
    assert both.score(graphs, NAMES) == 1
    assert both.machine_.max_fit_rows == 20
    for check in (
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_valid_tag_types,
    ):
        check("GaussianProcessClassifier", machine)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 24, r"y: expected two classes or more, got 1 \(\['a'\]\)"),
        (np.stack([[0, 1] * 12, [np.nan] * 24], axis=1), "y: target 1 has no value"),
        (np.arange(24) / 7, "Unknown label type: continuous"),
        (np.stack([[0, 1] * 12, [1, 2] * 12], axis=1), r"y \[n, T\] must hold 0, 1, and NaN"),
        ([0, 1], r"y must be \[24\] or \[24, T\], as long as X, got \[2\]"),
    ],
)
def test_mistakes_are_named(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianProcessClassifier(MoleculeKernel()).fit(SMILES, y)


def test_score_takes_missing_classes() -> None:
    labels = np.array(NAMES, dtype=object)
    labels[[2, 5]] = None
    machine = GaussianProcessClassifier(MoleculeKernel()).fit(SMILES, labels)
    wrong = machine.predict(SMILES)
    wrong[:3] = "neither"  # of these, one has no class
    known = np.delete(np.arange(24), [2, 5])
    assert machine.score(SMILES, wrong) == 21 / 24
    assert machine.score(SMILES, labels) == np.mean(machine.predict(SMILES)[known] == labels[known])
    both = np.array([[n % 2, n > 11] for n in range(24)], dtype=float)
    both[3:6, 0] = both[4, 1] = np.nan
    several = GaussianProcessClassifier(MoleculeKernel()).fit(SMILES, both)
    right = ((several.predict(SMILES) == both) | np.isnan(both)).all(axis=1)
    assert several.score(SMILES, both) == np.delete(right, 4).mean()
    with pytest.raises(ValueError, match=r"y must be \[24\], as predictions, got \[2\]"):
        machine.score(SMILES, labels[:2])


def test_classes_of_several_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="y: expected classes of one kind, such as numbers or strings"):
        GaussianProcessClassifier(MoleculeKernel()).fit(SMILES, ["a", 1] * 12)


def test_a_weight_of_0_leaves_a_row_out() -> None:
    """Also the only rows of a class, which then is none; so do scikit-learn's ensembles."""
    weight = np.where(np.arange(24) % 3, 1.0, 0.0)
    names = np.where(weight > 0, NAMES, "other")
    kernel = MoleculeKernel()
    machine = GaussianProcessClassifier(kernel).fit(SMILES, names, weight)
    some = [SMILES[row] for row in np.flatnonzero(weight)]
    expected = GaussianProcessClassifier(kernel).fit(some, names[weight > 0])
    assert [*machine.classes_] == [*expected.classes_]
    np.testing.assert_array_equal(machine.predict_proba(SMILES), expected.predict_proba(SMILES))
    rows = np.array(SMILES, dtype=object)[:, None]
    bag = BaggingClassifier(GaussianProcessClassifier(kernel), n_estimators=3, random_state=0).fit(
        rows, NAMES
    )
    assert bag.score(rows, NAMES) > 0.8


def test_score_reads_classes_and_weights_as_fit_does() -> None:
    kernel = MoleculeKernel()
    missing = pd.Series([None, *(name == "amine" for name in NAMES[1:])], dtype="boolean")
    assert GaussianProcessClassifier(kernel).fit(SMILES, missing).score(SMILES, missing) == 1
    machine = GaussianProcessClassifier(kernel).fit(SMILES, NAMES)
    wrong = [*NAMES[:-1], "alcohol"]
    assert machine.score(SMILES, wrong, sample_weight=[1.0] * 23 + [23.0]) == 0.5
    with pytest.raises(ValueError, match="given the classes"):
        machine.score(SMILES, [0, 1] * 12)
    assert machine.score(SMILES, wrong, sample_weight=[1.0] * 23 + [0.0]) == 1
    for weight, what in ((np.ones(3), r"must be \[24\]"), (-np.ones(24), "row 0 has -1.0")):
        with pytest.raises(ValueError, match=f"sample_weight.* {what}"):
            machine.score(SMILES, NAMES, sample_weight=weight)
