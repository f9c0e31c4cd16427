"""The linear machine: penalties, weights, explanations and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit, logit
from sklearn.linear_model import Ridge
from torch_geometric.utils import from_smiles

from tests.inputs.edited import edit
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels import WLVectorizer
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.machines import (
    LinearMachine,
    MoleculeMachine,
    explain,
    linear,
    load_machine,
    penalties,
    save_machine,
)
from wlkernelnn.machines.penalties import cross_validated, held_out, left_out, log_losses, logistic, ridge
from wlkernelnn.machines.saved import digest

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]
VALUES = np.array([len(text) + 2.0 * ("N" in text) for text in SMILES])
RANDOM = np.random.default_rng(0)


def packed(smiles: list[str], y: Any, **options: Any) -> PackedGraphs:
    return load_molecules(smiles, y=np.asarray(y), cache=False, **options)


DATA = packed(SMILES, VALUES)
NEW = np.arange(48) % 3 == 0
SEVERAL = np.stack([VALUES, np.where(VALUES > 14, np.nan, -VALUES)], axis=1)
CLASSES = np.stack([VALUES > 8, ["N" in text for text in SMILES]], axis=1).astype(float)
CLASSES[::7, 0] = np.nan


@pytest.fixture(scope="module")
def fitted() -> LinearMachine:
    return LinearMachine().fit(DATA[~NEW])


def test_leave_one_out_is_that_of_every_fit_without_a_row() -> None:
    x, y = sparse.csr_array(RANDOM.poisson(1.0, (12, 20)).astype(float)), RANDOM.normal(size=12)
    weight = RANDOM.uniform(0.5, 2, 12)
    mean = np.average(y, weights=weight)
    for penalty, found in zip((0.3, 4.0), left_out(x, y, weight, np.array([0.3, 4.0])), strict=True):
        for i in range(12):
            rest = np.arange(12) != i
            model = Ridge(penalty, fit_intercept=False)
            model.fit(x.toarray()[rest], (y - mean)[rest], weight[rest])
            assert found[i] == pytest.approx(mean + model.predict(x.toarray()[[i]])[0], rel=1e-6)


def test_a_weight_of_two_is_a_row_twice() -> None:
    x, y = sparse.csr_array(RANDOM.poisson(1.0, (12, 6)).astype(float)), RANDOM.normal(size=12)
    twice = np.arange(12).repeat(np.where(np.arange(12) < 4, 2, 1))
    weight = np.where(np.arange(12) < 4, 2.0, 1.0)
    for fit, target in ((ridge, y), (logistic, (y > 0).astype(float))):
        one = next(fit(x, target, weight, [2.0]))
        other = next(fit(x[twice], target[twice], np.ones(16), [2.0]))
        np.testing.assert_allclose(one[0], other[0], atol=1e-3)
        assert one[1] == pytest.approx(other[1], abs=1e-3)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_unit_of_weights_does_not_count(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "DEPTHS", (1,))
    data = packed(SMILES, CLASSES if task == "classification" else SEVERAL, task=task)
    for weight in (np.ones(48), np.linspace(0.5, 1.5, 48)):
        one, other = LinearMachine().fit(data, weight), LinearMachine().fit(data, 1e-4 * weight)
        np.testing.assert_allclose(other.predict(data), one.predict(data), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(other.std_, one.std_, rtol=1e-4)


@pytest.mark.parametrize(("few", "tolerance"), [(200, 1e-6), (199, 1e-3)])
def test_no_penalty_moves_the_intercept(few: int, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean probability is the share of class 1, and the least sum is so; by rows and by columns."""
    monkeypatch.setattr(penalties, "_FEW", few)
    x = sparse.csr_array(np.log1p(np.random.default_rng(0).poisson(1, (200, 5))))
    y, weight = (np.arange(200) % 10 > 0).astype(float), np.linspace(0.5, 1.5, 200)
    tried = [1e5, 10.0, 1e-2]
    for penalty, (coefficients, intercept) in zip(tried, logistic(x, y, weight, tried), strict=True):
        p = expit(x @ coefficients + intercept)
        share = np.average(y, weights=weight)
        assert np.average(p, weights=weight) == pytest.approx(share, abs=0.1 * tolerance)
        slope = x.T @ (weight * (p - y)) + penalty * coefficients
        np.testing.assert_allclose(slope, 0, atol=tolerance * np.abs(x.T @ (weight * (share - y))).max())


def test_few_rows_may_have_weights_of_many_orders() -> None:
    """Rows that hardly count are fitted as well."""
    y, weight = np.arange(40) % 2.0, 10.0 ** -(np.arange(40) // 4)
    x = sparse.csr_array(np.random.default_rng(0).poisson(0.3, (40, 30)) + np.eye(40)[:, :30])
    coefficients, intercept = next(logistic(x, y, weight, [1e-6]))
    wrong = weight * (expit(x @ coefficients + intercept) - y)
    np.testing.assert_allclose(x.T @ wrong, -1e-6 * coefficients, atol=1e-12)
    assert abs(wrong.sum()) < 1e-12


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_weight_of_0_leaves_a_molecule_out(task: str) -> None:
    data = packed(SMILES, CLASSES if task == "classification" else SEVERAL, task=task)
    weight = np.linspace(0.5, 1.5, 48) * (np.arange(48) % 5 > 0)
    one, other = LinearMachine().fit(data, weight), LinearMachine().fit(data[weight > 0], weight[weight > 0])
    np.testing.assert_array_equal(one.predict(data), other.predict(data))
    np.testing.assert_array_equal(one.leave_one_out(), other.leave_one_out())


def test_a_light_row_may_be_as_wrong_as_can_be() -> None:
    """Its log-odds are below those of the least number that is not 0."""
    x = sparse.csr_array(np.vstack([np.eye(120), np.repeat([[2.0, 0.0]], 60, axis=1)]))
    y, weight = (np.arange(121) < 60).astype(float), np.where(np.arange(121) < 120, 1.0, 1e-9)
    for coefficients, intercept in logistic(x, y, weight, [1.0, 1e-6, 1e-9]):
        log_odds = x @ coefficients + intercept
        assert np.isfinite(log_odds).all()
        slope = x.T @ (weight * (expit(log_odds) - y))
    assert log_odds[-1] > 750
    np.testing.assert_allclose(slope, -1e-9 * coefficients, atol=1e-12)


def test_cross_validation_leaves_rows_out() -> None:
    x = sparse.csr_array(np.eye(12))
    y = np.arange(12) % 2.0
    log_odds = cross_validated(x, y, np.ones(12), np.array([0.01, 1.0]), seed=0)
    # A row has a column of its own: what others say of it is the intercept, near even.
    assert np.abs(log_odds).max() < 1e-6
    np.testing.assert_allclose(
        log_losses(np.array([[0.0, 2.0]]), np.array([1.0, 0.0])), [-np.log([0.5, 1 - expit(2)])]
    )
    alone = cross_validated(x, (np.arange(12) == 0).astype(float), np.ones(12), np.ones(1), seed=0)
    np.testing.assert_allclose(alone, logit(1 / 12))


def test_it_is_ridge_regression_on_counts(fitted: LinearMachine) -> None:
    vectorizer = WLVectorizer(fitted.num_iterations_).fit(DATA[~NEW])
    y = DATA[~NEW].y[:, 0].double().numpy()
    model = Ridge(fitted.penalties_[0], fit_intercept=False, solver="cholesky")
    model.fit(vectorizer.transform(DATA[~NEW]).toarray(), y - y.mean())
    expected = y.mean() + model.predict(vectorizer.transform(DATA[NEW]).toarray())
    mean, std = fitted.predict(DATA[NEW], return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected, rtol=1e-5)
    left = fitted.leave_one_out()[:, 0]
    assert std[:, 0] == pytest.approx(np.full(16, np.sqrt(np.mean((left - y) ** 2))))
    assert fitted.errors_[fitted.num_iterations_] == min(fitted.errors_.values())
    assert np.sqrt(np.mean((left - y) ** 2)) / y.std() == pytest.approx(min(fitted.errors_.values()))
    assert np.abs(mean[:, 0] - VALUES[NEW]).mean() < 0.5


def test_targets_are_independent_but_for_the_iterations() -> None:
    both = LinearMachine().fit(packed(SMILES, SEVERAL))
    assert np.isnan(both.leave_one_out()).tolist() == np.isnan(SEVERAL).tolist()
    known = ~np.isnan(SEVERAL[:, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "DEPTHS", (both.num_iterations_,))
        for t, rows in enumerate((np.ones(48, bool), known)):
            alone = LinearMachine().fit(packed(SMILES, SEVERAL[:, t], on_invalid="skip"))
            assert len(alone.leave_one_out()) == rows.sum()
            np.testing.assert_allclose(
                alone.predict(DATA)[:, 0], both.predict(DATA)[:, t], rtol=1e-3, atol=1e-3
            )


def test_classes() -> None:
    machine = LinearMachine().fit(packed(SMILES, CLASSES, task="classification"))
    probability = machine.predict(DATA)
    known = ~np.isnan(CLASSES)
    assert ((probability > 0.5) == (CLASSES > 0.5))[known].mean() > 0.95
    left = machine.leave_one_out()
    assert np.isnan(left).tolist() == np.isnan(CLASSES).tolist()
    loss = -np.log(np.where(CLASSES > 0.5, left, 1 - left))
    assert np.nanmean(loss, axis=0).mean() == pytest.approx(min(machine.errors_.values()))
    with pytest.raises(ValueError, match="return_std: classes have probabilities"):
        machine.predict(DATA, return_std=True)
    with pytest.raises(ValueError, match="expected two classes, all training molecules have 1"):
        LinearMachine().fit(packed(SMILES, np.ones(48), task="classification"))


@pytest.mark.parametrize("many", [False, True])
def test_several_classes(many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them no training molecule has."""
    kind = np.array([["Cl" in text, "N" in text, True].index(True) for text in SMILES], dtype=float)
    kind[7] = np.nan
    data = DATA.with_targets(kind, task="multiclass", classes=("chloride", "amine", "other", "zinc"))
    monkeypatch.setattr(linear, "DEPTHS", (1, 2))
    monkeypatch.setitem(linear._MOST, "multiclass", 40 if many else 100)
    machine = LinearMachine().fit(data)
    features = machine._features(flat := flat_graphs(data), machine.table_.columns(flat), machine.table_)
    known = ~np.isnan(kind)
    each = []
    for c, penalty in enumerate(machine.penalties_[:3]):
        of_class = (kind[known] == c).astype(float)
        weights, intercept = next(logistic(features[known], of_class, np.ones(47), [penalty]))
        each.append(expit(features @ weights + intercept))
    expected = np.stack([*each, np.full(48, 0.5 / 48)], axis=1)
    probability = machine.predict(data)
    np.testing.assert_allclose(probability, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6)
    assert (probability.argmax(axis=1) == kind)[known].mean() > 0.9
    left = machine.leave_one_out()
    there = ~np.isnan(left[:, 0])
    assert there.sum() == (9 if many else 47)
    assert np.bincount(kind[there].astype(int)).min() > 0  # all classes are held out
    np.testing.assert_allclose(left[there].sum(axis=1), 1)
    np.testing.assert_allclose(expit(explain(machine, data[:1]).prediction), expected[:1], rtol=1e-6)
    save_machine(tmp_path, machine)
    np.testing.assert_array_equal(load_machine(tmp_path).predict(data), probability)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_atoms_add_up_to_the_prediction(task: str) -> None:
    y = CLASSES if task == "classification" else SEVERAL
    machine = LinearMachine().fit(packed(SMILES, y, task=task))
    new = packed(["CCCCO", "NCCc1ccccc1Br", "[Na+].[Cl-]"], np.zeros((3, 2)))
    explanation = explain(machine, new, most=3)
    value = machine.predict(new)
    np.testing.assert_allclose(explanation.prediction, logit(value) if task == "classification" else value)
    assert explanation.ptr.tolist() == [0, 5, 15, 17]
    np.testing.assert_allclose(explanation.prediction[2], machine.intercept_)  # nothing is known of salt
    table = explanation.substructures
    assert table.groupby(["graph", "target"]).size().max() == 3
    assert set(table["graph"]) == {0, 1}
    assert explanation.nearest.shape == (3, 0)
    # All substructures together are the prediction as well.
    whole = explain(machine, new, most=1000).substructures.groupby(["graph", "target"])["contribution"].sum()
    np.testing.assert_allclose(
        whole.to_numpy().reshape(2, 2) + machine.intercept_, explanation.prediction[:2]
    )


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_fifth_is_held_out_of_many_molecules(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linear._MOST, task, 40)
    monkeypatch.setattr(linear, "_AT_ONCE", 7)
    y = (VALUES > 8).astype(float) if task == "classification" else VALUES
    data = packed(SMILES, y, task=task)
    machine = LinearMachine(random_state=1).fit(data)
    held = ~np.isnan(machine.leave_one_out()[:, 0])
    assert held.sum() == 9
    # As a machine without them predicts them.
    features = machine._features(flat := flat_graphs(data), machine.table_.columns(flat), machine.table_)
    fit = logistic if task == "classification" else ridge
    weights, intercept = next(fit(features[~held], y[~held], np.ones(39), machine.penalties_[:1]))
    expected = features[held] @ weights + intercept
    expected = expit(expected) if task == "classification" else expected
    np.testing.assert_allclose(machine.leave_one_out()[held, 0], expected, rtol=0.01)
    assert machine.predict(data[:0]).shape == (0, 1)
    monkeypatch.setattr(linear, "_DRAWN", 45)
    assert (~np.isnan(LinearMachine(random_state=1).fit(data).leave_one_out())).sum() == 9
    assert ((machine.predict(data)[:, 0] > 0.5) == (y > 0.5)).mean() > 0.9


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_what_is_saved_is_loaded_again(task: str, tmp_path: Path) -> None:
    machine = LinearMachine().fit(packed(SMILES, CLASSES, task=task))
    save_machine(tmp_path, machine)
    again = load_machine(tmp_path)
    assert isinstance(again, LinearMachine)
    np.testing.assert_array_equal(again.predict(DATA), machine.predict(DATA))
    np.testing.assert_array_equal(again.fingerprint(DATA), machine.fingerprint(DATA))
    np.testing.assert_array_equal(again.scale_, machine.scale_)
    assert digest(again) == digest(machine) != digest(LinearMachine().fit(DATA))
    assert again.errors_ == machine.errors_
    assert again.num_parameters == machine.num_parameters
    assert "confidential" in (tmp_path / "README").read_text()
    assert not (tmp_path / "molecules.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_iterations": 9}, r"num_iterations must be one of \(1, 2, 3\), got 9"),
        ({"num_iterations": 1}, r"weights must be \[\d+, 1\], got \[\d+, 1\]"),
        ({"about": {}}, "KeyError: 'task'"),
    ],
)
def test_damaged_folders(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    machine = LinearMachine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "DEPTHS", (2,))
        save_machine(tmp_path, machine.fit(DATA))
    edit(tmp_path / "config.json", change)
    with pytest.raises(ValueError, match=message):
        load_machine(tmp_path)


def test_fingerprints_count_the_most_frequent_colours(fitted: LinearMachine) -> None:
    counts = fitted.fingerprint(DATA[~NEW])
    having = (counts > 0).sum(axis=0)
    assert (np.diff(having) <= 0).all()
    assert having[0] == 32 * 3 / 4 + 8  # the last carbon of a chain, or the first
    assert counts.shape[1] == len(fitted.weights_) < 1024


def test_other_data_and_weights_are_refused(fitted: LinearMachine) -> None:
    with pytest.raises(ValueError, match="fitted to features 'ogb', the data have 'duvenaud'"):
        fitted.predict(load_molecules(["CCO"], features="duvenaud", cache=False))
    with pytest.raises(ValueError, match="sample_weight: all rows have 0"):
        LinearMachine().fit(DATA, np.zeros(48))
    with pytest.raises(ValueError, match="at least 2 molecules, got 1"):
        LinearMachine().fit(DATA[:1])
    with pytest.raises(TypeError, match="data must be PackedGraphs"):
        LinearMachine().fit(SMILES)  # type: ignore[arg-type]


def test_stores_that_number_edges_otherwise_are_refused(tmp_path: Path) -> None:
    graphs = [from_smiles(text) for text in ("CC", "CCC", "CCO", "C=C", "CC=C", "CC#N", "CCC#C", "CCCC")]
    for graph in graphs:
        graph.y = torch.tensor([float(graph.num_nodes)])
    store = PackedGraphs.from_pyg(graphs)
    machine = LinearMachine().fit(store)
    save_machine(tmp_path, machine)
    loaded = load_machine(tmp_path)
    assert isinstance(loaded, LinearMachine)
    triple = graphs[5:6]  # codes 0 and 1 of a store of its own are 0 and 2 of the training's
    with pytest.raises(ValueError, match="data: codes of edges stand for other rows of edge_attr"):
        loaded.predict(PackedGraphs.from_pyg(triple))
    known = PackedGraphs.from_pyg(triple, edge_values=loaded.about["edge_values"])
    np.testing.assert_array_equal(loaded.predict(known), machine.predict(store)[5:6])
    bare = PackedGraphs.from_pyg([from_smiles("C")])
    assert np.isfinite(loaded.predict(bare)).all()  # without edges


def test_molecules_without_edges_come_back(tmp_path: Path) -> None:
    data = packed(["C", "N", "O", "F", "Cl", "S"], range(6))
    machine = LinearMachine().fit(data)
    save_machine(tmp_path, machine)
    loaded = load_machine(tmp_path)
    np.testing.assert_array_equal(loaded.predict(data), machine.predict(data))


def test_the_single_row_of_a_class_is_not_held_out() -> None:
    y = np.array([0.0] * 12 + [1.0])[:, None]
    features = sparse.csr_array(RANDOM.random((13, 2)))
    for seed in range(3):
        found = held_out(features, y[:, 0], np.ones(13), np.array([1.0]), seed, y[:, 0])
        assert np.isnan(found[0, 12])
        assert np.isfinite(found).sum() == 2


GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 6, 6, 7])


def test_groups_are_left_out_together() -> None:
    """In closed form, as a fit to the other rows with the mean of all."""
    features, y = sparse.csr_array(RANDOM.random((12, 4))), RANDOM.normal(size=12)
    weight, penalties = RANDOM.uniform(0.5, 2, 12), np.array([0.1, 1.0])
    found, mean = left_out(features, y, weight, penalties, GROUPS), np.average(y, weights=weight)
    for row, penalty in zip(found, penalties, strict=True):
        for group in np.unique(GROUPS):
            left = group == GROUPS
            model = Ridge(penalty, fit_intercept=False)
            model.fit(features.toarray()[~left], y[~left] - mean, sample_weight=weight[~left])
            np.testing.assert_allclose(row[left], model.predict(features.toarray()[left]) + mean, rtol=1e-6)


@pytest.mark.parametrize("fit", ["held out", "folds"])
def test_groups_are_in_one_part(fit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    monkeypatch.setattr(penalties, "_predicted", lambda *given: parts.extend(given[-1]))
    features, y = sparse.csr_array(RANDOM.random((24, 4))), np.arange(24) % 2
    groups, weight, tried = np.repeat(np.arange(8), 3)[::-1], np.ones(24), np.array([1.0])
    if fit == "folds":
        cross_validated(features, y, weight, tried, 0, groups)
    else:
        held_out(features, y, weight, tried, 0, None, groups)
    assert len(parts) == (3 if fit == "folds" else 1)
    for train, test in parts:
        assert len(test) >= 3
        assert not np.isin(groups[train], groups[test]).any()
        assert len(train) + len(test) == 24


@pytest.mark.parametrize("kind", [LinearMachine, MoleculeMachine])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_replicates_are_left_out_together(kind: type[LinearMachine | MoleculeMachine], task: str) -> None:
    """Noise alone tells replicates apart: what is left out is not known from them."""
    random = np.random.default_rng(3)
    y = random.normal(size=24) if task == "regression" else random.random(24) > 0.5
    smiles = [text for text in SMILES[:24] for _ in range(2)]
    options = {"features": "ogb+invariants+descriptors"} if kind is MoleculeMachine else {}
    data = packed(smiles, np.repeat(y, 2).astype(float), task=task, **options)
    left = kind().fit(data).leave_one_out()[:, 0]
    np.testing.assert_allclose(left[::2], left[1::2], atol=1e-6)
    assert np.corrcoef(left[::2], y)[0, 1] < 0.9
