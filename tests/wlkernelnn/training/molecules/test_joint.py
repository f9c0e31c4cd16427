"""Joint models: weights, sums, folds and files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from tests.inputs.edited import edit
from tests.inputs.molecules import SMALL, quick, regression_set
from wlkernelnn.datasets import PackedGraphs, load_molecules, molecules_from
from wlkernelnn.machines import LinearMachine, MoleculeMachine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.training import Columns, JointModel, check_free, load_run, mean_and_std, train_joint
from wlkernelnn.training.molecules import machine as training
from wlkernelnn.training.molecules.columns import digests
from wlkernelnn.training.molecules.joint import best_share, joined

RANDOM = np.random.default_rng(0)
SPLIT = {"train": np.arange(40), "valid": np.arange(40, 50), "test": np.arange(50, 60)}


def classes() -> PackedGraphs:
    """Two questions, with gaps."""
    data = regression_set()
    y = np.stack([data.y[:, 0] > 6.5, data.num_nodes_per_graph > 32], axis=1).astype(float)
    y[RANDOM.random(y.shape) < 0.2] = np.nan
    y[np.isnan(y).all(axis=1), 0] = 0
    about = {"task": "classification", "metric": "roc_auc", "target_names": ("active", "large")}
    return data.with_targets(y, **about)


LINEAR: dict[str, Any] = {"model": "linear+wl", "network": SMALL, "progress": False}
DATA: dict[str, PackedGraphs] = {"regression": regression_set(), "classification": classes()}


def train(task: str, folder: Path, **options: Any) -> tuple[JointModel, dict[str, Any]]:
    data = DATA[task]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "FOLDS", 2)
        return train_joint(
            data,
            SPLIT,
            folder,
            quick(epochs=1),
            **LINEAR | options,
        )


@pytest.fixture(scope="module", params=DATA)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    return DATA[request.param], folder, *train(request.param, folder)


def test_the_share_of_least_error() -> None:
    """Beside every share on a grid; of a perfect member it is all, of one that adds noise nothing."""
    y = RANDOM.normal(size=(50, 3))
    y[::7, 1] = np.nan
    machine = y + RANDOM.normal(size=y.shape)
    networks = y + RANDOM.normal(size=y.shape)
    networks[:, 2] = y[:, 2]
    share = best_share(y, machine, networks, "regression")
    assert share[2] == 1
    for t in range(2):
        grid = np.linspace(0, 1, 201)
        errors = [np.nanmean((joined(machine, networks, w, "regression") - y)[:, t] ** 2) for w in grid]
        assert share[t] == pytest.approx(grid[np.argmin(errors)], abs=0.01)
    assert best_share(y[:, :1], y[:, :1], machine[:, :1], "regression")[0] == 0
    assert best_share(y[:, :1], y[:, :1], y[:, :1], "regression")[0] == 0  # both are alike
    classes = (y[:, :1] > 0).astype(float)
    one, other = expit(2 * machine[:, :1]), expit(2 * networks[:, :1])
    share = best_share(classes, one, other, "classification")
    grid = np.linspace(0, 1, 201)
    both = [joined(one, other, w, "classification") for w in grid]
    losses = [-np.log(np.where(classes > 0.5, p, 1 - p)).mean() for p in both]
    assert share[0] == pytest.approx(grid[np.argmin(losses)], abs=0.01)
    assert 0 < share[0] < 1
    right = expit(y[:, :1])
    assert best_share(classes, right, 1 - right, "classification")[0] == 0
    assert best_share(classes, 1 - right, right, "classification")[0] == 1


def test_the_share_of_several_classes() -> None:
    y = RANDOM.integers(3, size=(90, 1)).astype(float)
    odds = np.eye(3)[y[:, 0].astype(int)] + RANDOM.normal(size=(2, 90, 3))
    y[4] = np.nan
    one, other = softmax(odds, axis=2)
    share = best_share(y, one, other, "multiclass")
    known, grid = np.arange(90) != 4, np.linspace(0, 1, 201)
    label = y[known, 0].astype(int)
    both = [joined(one, other, w, "multiclass") for w in grid]
    losses = [-np.log(p[known, label]).mean() for p in both]
    assert share[0] == pytest.approx(grid[np.argmin(losses)], abs=0.01)
    assert 0 < share[0] < 1
    powers = one**0.75 * other**0.25
    np.testing.assert_allclose(both[50], powers / powers.sum(axis=1, keepdims=True))
    # Two classes are the same either way.
    two = joined(
        one[:, :2] / one[:, :2].sum(1, keepdims=True),
        other[:, :2] / other[:, :2].sum(1, keepdims=True),
        0.3,
        "multiclass",
    )
    alone = joined(
        (one[:, 1] / one[:, :2].sum(1))[:, None],
        (other[:, 1] / other[:, :2].sum(1))[:, None],
        0.3,
        "classification",
    )
    np.testing.assert_allclose(two[:, 1:], alone)


def test_probabilities_of_0_and_1_are_finite() -> None:
    one, other = np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]])
    both = joined(one, other, np.array([0.5]), "classification")
    np.testing.assert_allclose(both[:, 0], [0.5, 1.0], atol=1e-5)
    assert np.isfinite(best_share(np.array([[1.0], [1.0]]), one, other, "classification")).all()


def test_predictions_are_the_weighted_sum(trained: Any) -> None:
    data, _, model, report = trained
    assert ((model.share >= 0) & (model.share <= 1)).all()
    assert report["share"] == model.share.tolist()
    machine, networks = model.machine.predict(data), model.ensemble.predict(data)[0].astype(float)
    sums = model.task == "classification"
    to, back = (logit, expit) if sums else (np.asarray, np.asarray)
    expected = (1 - model.share) * to(machine) + model.share * to(networks)
    np.testing.assert_allclose(model.predict(data), back(expected), rtol=1e-4)
    np.testing.assert_allclose(model.of_networks(data), model.share * to(networks), rtol=1e-4, atol=1e-6)
    if sums:
        assert mean_and_std(model, data)[1] is None
        with pytest.raises(ValueError, match="classes have probabilities"):
            model.predict(data, return_std=True)
    else:
        mean, std = model.predict(data, return_std=True)
        np.testing.assert_array_equal(mean, model.predict(data))
        np.testing.assert_allclose(std, model.inflation * model.machine.predict(data, return_std=True)[1])
        # One deviation of the linear machine for all: inflated, it is about the error of molecules left out.
        assert std[0, 0] == pytest.approx(report["left_out"], rel=0.3)


def test_the_share_is_that_of_molecules_left_out(trained: Any) -> None:
    _, _, model, report = trained
    of_parts = report["left_out_parts"]
    assert set(of_parts) == {"machine", "networks"}
    if model.task == "regression":
        assert report["left_out"] <= min(of_parts.values()) + 1e-9
    assert report["counts"]["train"] == 40


def test_what_is_saved_is_loaded_again(trained: Any) -> None:
    data, folder, model, _ = trained
    again = load_run(folder)
    assert isinstance(again, JointModel)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert digests(again) == digests(model)
    assert again.num_parameters == model.num_parameters
    assert not (folder / "folds").exists()
    assert {path.name for path in folder.iterdir()} >= {
        *("joint.json", "machine", "networks", "splits.json", "metrics.json", "test_predictions.csv")
    }
    model.share += 0.01
    assert digests(again) != digests(model)
    model.share -= 0.01
    for part, kind in (("machine", LinearMachine), ("networks", type(model.ensemble))):
        assert isinstance(load_run(folder / part), kind)


def test_folders(trained: Any, tmp_path: Path) -> None:
    data, folder, _, _ = trained
    task = data.task
    with pytest.raises(FileExistsError, match="holds a run already"):
        train(task, folder)
    with pytest.raises(FileExistsError, match="holds a run already"):
        train(task, folder, resume=True)
    begun = tmp_path / "begun"
    shutil.copytree(folder / "networks", begun / "networks")
    with pytest.raises(FileExistsError, match="begun holds a run already: resume it"):
        check_free(begun)
    with pytest.raises(
        ValueError, match=r"model must be one of gp\+wl, gp\+stack, linear\+wl, linear\+stack"
    ):
        train(task, tmp_path, model="wl+gp")
    path = folder / "joint.json"
    text = path.read_text()
    try:
        for change in ({"format": "x"}, {"share": [0.5] * 7}, {"share": "x"}):
            edit(path, change)
            with pytest.raises(ValueError, match="not as a joint model is saved"):
                load_run(folder)
    finally:
        path.write_text(text)


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of the first fold are not trained again."""
    folder, real = tmp_path / "run", training.train_run
    calls: list[Path] = []

    def interrupted(data: Any, split_idx: Any, place: Path, *args: Any, **kwargs: Any) -> Any:
        calls.append(place)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(data, split_idx, place, *args, **kwargs)

    monkeypatch.setattr(training, "train_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train("regression", folder)
    first = folder / "folds" / "0" / "model_0" / "model.safetensors"
    before = first.stat().st_mtime_ns
    with pytest.raises(FileExistsError, match="resume it"):
        train("regression", folder)

    def seen(data: Any, split_idx: Any, place: Path, *args: Any, **kwargs: Any) -> Any:
        found = real(data, split_idx, place, *args, **kwargs)
        if place.name == "0":
            assert first.stat().st_mtime_ns == before
        return found

    monkeypatch.setattr(training, "train_run", seen)
    resumed, _ = train("regression", folder, resume=True)
    monkeypatch.undo()
    whole, _ = train("regression", tmp_path / "whole")
    np.testing.assert_array_equal(resumed.predict(DATA["regression"]), whole.predict(DATA["regression"]))


def test_columns_with_a_kernel_machine(tmp_path: Path) -> None:
    plain = regression_set()[:26]
    data = load_molecules(plain.smiles, y=plain.y.numpy(), features=FEATURES, cache=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "FOLDS", 2)
        split, network = {"train": np.arange(20)}, {"hidden_channels": 8, "num_layers": 2}
        options = LINEAR | {"model": "gp+stack", "network": network}
        model, _ = train_joint(data, split, tmp_path / "run", quick(epochs=1), **options)
    assert isinstance(model.machine, MoleculeMachine)
    columns = Columns("prediction", std=True, interval=0.9, nearest=True)
    assert columns.names(model) == ["y", "y_std", "y_low", "y_high", "nearest_similarity"]
    values = columns.values(model, data)
    np.testing.assert_allclose(values[:, 0], model.predict(data)[:, 0], rtol=1e-5)
    np.testing.assert_allclose(values[:, 4], model.machine.nearest(data)[0], rtol=1e-5)
    with pytest.raises(
        ValueError, match="a joint model has no fingerprints: its networks, in networks, have"
    ):
        Columns("fingerprint").names(model)


def test_replicates_are_on_one_side_of_a_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = [name for name in regression_set()[:10].smiles for _ in range(3)]
    y = RANDOM.normal(size=30)
    data = molecules_from(smiles, y, cache=False)
    seen, train_run = [], training.train_run

    def watched(data: Any, split_idx: Any, *given: Any, **more: Any) -> Any:
        seen.append({smiles[i] for i in split_idx["train"]})
        return train_run(data, split_idx, *given, **more)

    monkeypatch.setattr(training, "train_run", watched)
    train_joint(data, {"train": np.arange(30)}, tmp_path, quick(epochs=1), **LINEAR)
    *folds, every = seen
    assert len(every) == len({*smiles})
    left = [every - fold for fold in folds]
    assert sorted(name for some in left for name in some) == sorted(every)
    assert {len(some) for some in left} == {2}


def test_scoring_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is trained by then, and nothing is trained again."""
    scored = training.scored

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "scored", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train("regression", tmp_path)
    monkeypatch.setattr(training, "scored", scored)
    before = (tmp_path / "networks" / "model_0" / "model.safetensors").stat().st_mtime_ns
    _, report = train("regression", tmp_path, resume=True)
    assert (tmp_path / "networks" / "model_0" / "model.safetensors").stat().st_mtime_ns == before
    assert report["counts"] == {"train": 40, "valid": 10, "test": 10}
    assert not (tmp_path / "folds").exists()
    with pytest.raises(FileExistsError, match="holds a run already"):
        train("regression", tmp_path, resume=True)


def test_a_class_that_one_molecule_has(tmp_path: Path) -> None:
    data = regression_set()
    single = data.with_targets((np.arange(60) == 3).astype(float), task="classification", metric="roc_auc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATA, "single", single)
        with pytest.raises(ValueError, match=r"without fold \d of \d: target \w+: expected two classes"):
            train("single", tmp_path)


def test_a_value_that_one_molecule_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its fold, it is refused before networks are trained."""
    monkeypatch.setattr(training, "train_run", None)
    folds = set()
    for row in range(6):
        y = np.stack([np.arange(60), np.where(np.arange(60) == row, 1, np.nan)], axis=1)
        monkeypatch.setitem(DATA, "single", regression_set().with_targets(y, target_names=("a", "b")))
        with pytest.raises(ValueError, match=r"target b: no training molecule has a value of it") as refused:
            train("single", tmp_path)
        folds.add(str(refused.value).partition(":")[0])
    assert folds == {"without fold 1 of 2", "without fold 2 of 2"}
