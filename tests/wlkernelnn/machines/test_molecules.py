from __future__ import annotations

import logging
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from tests.inputs.edited import edit
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels import PathKernel
from wlkernelnn.machines import (
    GaussianProcess,
    GaussianProcessClassifier,
    MoleculeMachine,
    explain,
    load_machine,
    molecules,
    save_machine,
)
from wlkernelnn.machines.parts import FEATURES, drawn_rows, kernels_of, summed

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]
VALUES = np.array([len(text) + 2.0 * ("N" in text) for text in SMILES])


def packed(smiles: list[str], y: Any, **options: Any) -> PackedGraphs:
    return load_molecules(smiles, y=np.asarray(y), features=FEATURES, cache=False, **options)


DATA = packed(SMILES, VALUES)
NEW = np.arange(48) % 3 == 0
TRAIN = DATA[~NEW]


@pytest.fixture(scope="module")
def fitted() -> MoleculeMachine:
    return MoleculeMachine().fit(TRAIN)


def test_it_is_the_process_on_the_parts_of_least_error(fitted: MoleculeMachine) -> None:
    for choice, error in fitted.errors_.items():
        process = GaussianProcess(summed(kernels_of(choice)), random_state=fitted.process_.random_state).fit(
            TRAIN, TRAIN.y.numpy().astype(float)
        )
        left, _ = process.leave_one_out()
        expected = np.sqrt(np.mean((left - TRAIN.y.numpy()) ** 2)) / TRAIN.y.numpy().std()
        assert error == pytest.approx(expected, rel=1e-6)
        if choice == fitted.choice_:
            for one, other in zip(fitted.predict(DATA, True), process.predict(DATA, True), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)
    assert fitted.errors_[fitted.choice_] == min(fitted.errors_.values())
    assert len(fitted.errors_) == 3


def test_it_learns_and_names_the_nearest(fitted: MoleculeMachine) -> None:
    mean = fitted.predict(DATA[NEW])
    assert mean.shape == (16, 1)
    assert np.abs(mean - DATA[NEW].y.numpy()).mean() < 0.5
    similarity, row = fitted.nearest(DATA)
    np.testing.assert_allclose(similarity[~NEW], 1)
    assert (similarity[NEW] < 0.999).all()
    assert row[~NEW].tolist() == TRAIN.row.tolist()
    assert {*row.tolist()} <= {*TRAIN.row.tolist()}


def test_blocks_of_predictions(fitted: MoleculeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = *fitted.predict(DATA, return_std=True), *fitted.nearest(DATA)
    monkeypatch.setattr(molecules, "_AT_ONCE", 120)
    for one, other in zip(
        (*fitted.predict(DATA, return_std=True), *fitted.nearest(DATA)), whole, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert fitted.predict(DATA[:0]).shape == (0, 1)


def test_training_molecules_are_counted_once(
    fitted: MoleculeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, calls = copy(fitted), []
    machine.choice_ = "descriptors"  # as if the kernels had no part in predictions
    whole, real = machine.nearest(DATA), molecules.Known.of
    monkeypatch.setattr(molecules.Known, "of", lambda *given: calls.append(given) or real(*given))
    monkeypatch.setattr(molecules, "_AT_ONCE", 120)
    for one, other in zip(machine.nearest(DATA), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(calls) == 8


def test_classes_are_those_of_the_classifier(tmp_path: Path) -> None:
    y = np.stack([VALUES > 9, ["Cl" in text for text in SMILES]], axis=1).astype(float)
    y[::5, 1] = np.nan
    data = packed(SMILES, y, task="classification")
    machine = MoleculeMachine().fit(data[~NEW])
    classifier = GaussianProcessClassifier(
        summed(kernels_of(machine.choice_)), random_state=machine.process_.random_state
    ).fit(data[~NEW], y[~NEW])
    expected = np.stack([both[:, 1] for both in classifier.predict_proba(data)], axis=1)
    np.testing.assert_allclose(machine.predict(data), expected, rtol=1e-5)
    left = classifier.leave_one_out()
    np.testing.assert_allclose(machine.leave_one_out(), left, rtol=1e-5)
    known = ~np.isnan(y)
    assert ((machine.predict(data) > 0.5) == (y > 0.5))[known].mean() > 0.95
    of_class = np.where(y[~NEW] > 0.5, left, 1 - left)
    log_loss = np.mean([-np.log(column[~np.isnan(column)]).mean() for column in of_class.T])
    with pytest.raises(ValueError, match="return_std: classes have probabilities"):
        machine.predict(data, return_std=True)
    save_machine(tmp_path, machine)
    again = load_machine(tmp_path)
    np.testing.assert_array_equal(again.predict(data), machine.predict(data))
    np.testing.assert_allclose(again.leave_one_out(), left, rtol=1e-5)
    assert again.errors_[machine.choice_] == pytest.approx(log_loss, rel=1e-4)


def test_several_classes_are_those_of_the_classifier(tmp_path: Path) -> None:
    """One of them, zinc, no training molecule has: its probability is small."""
    kind = np.array([["Cl" in text, "N" in text, True].index(True) for text in SMILES], dtype=float)
    data = packed(SMILES, kind).with_targets(
        kind, task="multiclass", metric="log_loss", classes=("chloride", "amine", "other", "zinc")
    )
    machine = MoleculeMachine().fit(data[~NEW])
    assert machine.about["metric"] == "log_loss"
    probability = machine.predict(data)
    assert probability.shape == (48, 4)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (probability.argmax(axis=1) == kind).mean() > 0.95
    assert probability[:, 3].max() < 0.05
    classifier = GaussianProcessClassifier(
        summed(kernels_of(machine.choice_)), random_state=machine.process_.random_state
    ).fit(data[~NEW], kind[~NEW])
    share = probability[:, :3] / probability[:, :3].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(share, classifier.predict_proba(data), rtol=1e-4, atol=1e-6)
    explanation = explain(machine, data[:2])
    odds = expit(explanation.prediction)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), probability[:2], rtol=1e-6)
    save_machine(tmp_path, machine)
    again = load_machine(tmp_path)
    np.testing.assert_array_equal(again.predict(data), probability)
    np.testing.assert_allclose(again.leave_one_out(), machine.leave_one_out(), rtol=1e-5)
    assert again.about["classes"] == ["chloride", "amine", "other", "zinc"]


def test_one_class_alone(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    machine = MoleculeMachine().fit(packed(SMILES, np.zeros(48), task="classification"))
    assert "target y: all training molecules have 0: its frequency is predicted" in caplog.text
    np.testing.assert_allclose(machine.predict(DATA[:3]), 1 / 50)
    save_machine(tmp_path, machine)
    np.testing.assert_array_equal(load_machine(tmp_path).predict(DATA), machine.predict(DATA))


def several() -> PackedGraphs:
    y = np.stack([VALUES, -VALUES], axis=1)
    y[::3, 1] = np.nan
    return packed(SMILES, y)


@pytest.mark.parametrize("case", ["one target", "several targets", "landmarks"])
def test_a_saved_machine_predicts_the_same(
    case: str, fitted: MoleculeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = fitted
    if case == "several targets":
        machine = MoleculeMachine().fit(several()[5:])
    elif case == "landmarks":
        monkeypatch.setattr(molecules, "_MOST_EXACT", 20)
        monkeypatch.setattr(molecules, "_LANDMARKS", 10)
        monkeypatch.setattr(molecules, "_CHOICE_ROWS", 15)
        machine = MoleculeMachine().fit(TRAIN)
        assert machine.process_.landmarks_.shape == (10,)
    save_machine(tmp_path / "run", machine)
    again = load_machine(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(DATA), machine.predict(DATA))
    for one, other in zip(again.predict(DATA, True), machine.predict(DATA, True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_array_equal(again.predict(DATA), machine.predict(DATA))
    for one, other in zip(again.nearest(DATA), machine.nearest(DATA), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (again.choice_, again.errors_, again.about) == (machine.choice_, machine.errors_, machine.about)
    assert "confidential" in (tmp_path / "run" / "README").read_text()
    # Molecules that it was not fitted to are not given away.
    kept = PackedGraphs.load(tmp_path / "run" / "molecules.safetensors").smiles
    assert kept == list(machine.process_.X_train_.smiles)
    assert len(kept) < len(DATA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "0"}, "expected format"),
        ({"choice": "all"}, "choice must be one of kernels, descriptors, both, got 'all'"),
        (
            {"about": {"features": FEATURES, "task": "regression", "target_names": ["a", "b"]}},
            "expected 2 targets, the mol.* have 1",
        ),
        ({"about": {"task": "regression"}}, "KeyError: 'features'"),
    ],
)
def test_damaged_folders(
    change: dict[str, Any], message: str, fitted: MoleculeMachine, tmp_path: Path
) -> None:
    save_machine(tmp_path, fitted)
    edit(tmp_path / "config.json", change)
    with pytest.raises(ValueError, match=f"not as a machine is saved .*{message}"):
        load_machine(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load_machine(tmp_path)


def test_many_rows_are_compared_on_some(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(molecules, "_CHOICE_ROWS", 30)
    with caplog.at_level(logging.INFO):
        machine = MoleculeMachine().fit(DATA)
    assert "least leave-one-out error on 30 of 48 molecules, drawn (kernels 0." in caplog.text
    assert len(machine.process_.X_train_) == 48
    assert np.abs(machine.predict(DATA) - DATA.y.numpy()).mean() < 0.2


def test_each_target_has_its_share_of_the_drawn_rows() -> None:
    y = np.zeros((100, 2))
    y[:95, 1] = np.nan
    rows = drawn_rows(y, 20, 0)
    assert len({*rows.tolist()}) == 20
    assert {*range(95, 100)} <= {*rows.tolist()}
    assert drawn_rows(y, 100, 0).tolist() == list(range(100))
    # Targets that the same rows have share all of these.
    assert len(drawn_rows(np.zeros((100, 12)), 20, 0)) == 20
    apart = np.full((100, 4), np.nan)
    apart[np.arange(100), np.arange(100) // 25] = 1
    assert np.isfinite(apart[drawn_rows(apart, 20, 0)]).sum(axis=0).tolist() == [5, 5, 5, 5]


def test_more_rows_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecules, "memory", lambda: 16 * 48**2)
    MoleculeMachine("gp").fit(DATA)
    monkeypatch.setattr(molecules, "memory", lambda: 16 * 48**2 - 1)
    message = "model='gp' needs about 0 GB for 48 molecules and 1 target.* take model='auto', which has 4,096"
    with pytest.raises(ValueError, match=message):
        MoleculeMachine("gp").fit(DATA)
    monkeypatch.setattr(molecules, "memory", lambda: 64 * 10**9)
    with pytest.raises(ValueError, match="needs about 160 GB for 100,000 molecules and 1 target"):
        MoleculeMachine("gp").num_landmarks(100_000, 1)
    # auto: exact where half of the memory has room, then landmarks, then nothing.
    assert MoleculeMachine().num_landmarks(25_000, 1) is None
    assert MoleculeMachine().num_landmarks(25_001, 1) == 4096
    assert MoleculeMachine().num_landmarks(10_000, 20) is None
    assert MoleculeMachine().num_landmarks(10_000, 21) == 4096
    with pytest.raises(
        ValueError, match=r"'auto' needs about 66 GB for 10,000 .* 100 .* take model='linear'"
    ):
        MoleculeMachine().num_landmarks(10_000, 100)


def test_duplicates_with_different_targets() -> None:
    machine = MoleculeMachine().fit(packed(2 * SMILES, np.concatenate([VALUES - 1, VALUES + 1])))
    mean, std = machine.predict(DATA, return_std=True)
    assert np.abs(mean - DATA.y.numpy()).mean() < 0.5
    assert 0.8 < std.mean() < 1.5  # of a new measurement


def test_constant_targets(caplog: pytest.LogCaptureFixture) -> None:
    machine = MoleculeMachine().fit(packed(SMILES, np.full(48, 3.0)))
    assert "all training molecules have 3: nothing is learned" in caplog.text
    mean, std = machine.predict(DATA[:3], return_std=True)
    np.testing.assert_array_equal(mean, 3)
    np.testing.assert_array_equal(std, 0)


def test_atoms_alone_and_strangers(fitted: MoleculeMachine) -> None:
    mean, std = fitted.predict(packed(["[Na+]", "[Xe]", "FS(F)(F)(F)(F)F"], [0, 0, 0]), return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 2 * fitted.predict(TRAIN, return_std=True)[1].max()).all()
    assert (fitted.nearest(packed(["FS(F)(F)(F)(F)F"], [0]))[0] < 0.5).all()
    alone = MoleculeMachine().fit(packed(["C", "N", "O", "[Na+]", "[Cl-]"], range(5)))
    assert np.isfinite(alone.predict(DATA)).all()


def test_a_stranger_has_the_mean_and_deviation_of_the_prior() -> None:
    process = GaussianProcess(PathKernel(2, normalize="minmax", coding="element")).fit(SMILES, VALUES)
    mean, std = process.predict(["FF", "BrBr"], return_std=True)
    (target,) = process.targets_
    np.testing.assert_allclose(mean[1], VALUES.mean())
    np.testing.assert_allclose(std[1], VALUES.std() * np.sqrt(target.amplitudes[0] + target.noise))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DATA[:1], "at least 2 molecules, got 1"),
        (DATA.with_targets(np.full(48, np.nan)), "target y: no training molecule has a value"),
        (
            load_molecules(SMILES, y=VALUES, features="ogb+rdkit", cache=False),
            "lack mass_difference, pharmacophore: a kernel machine needs 'ogb.invariants.descriptors'",
        ),
        (load_molecules(SMILES, y=VALUES, features="ogb+invariants", cache=False), "lack descriptors"),
    ],
)
def test_refused(data: PackedGraphs, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculeMachine().fit(data)


def test_other_arguments_are_refused(fitted: MoleculeMachine) -> None:
    with pytest.raises(ValueError, match="model must be one of auto, gp, got 'wl'"):
        MoleculeMachine("wl").fit(DATA)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fitted to features 'ogb\+.*', the data have 'ogb'"):
        fitted.predict(load_molecules(SMILES, cache=False))
    with pytest.raises(TypeError, match="data must be PackedGraphs"):
        MoleculeMachine().fit(SMILES)  # type: ignore[arg-type]
