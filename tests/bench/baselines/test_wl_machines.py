"""That machines are exact, and chosen by the validation part alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inputs.molecules import described, some_measured
from wlkernelnn.bench.baselines import wl_machines as bench
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.datasets import random_split
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel


def test_ridge_is_exact_and_chosen_on_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    molecules = some_measured()
    monkeypatch.setattr(bench, "PENALTIES", (10.0, 0.1, 0.001))
    split_idx = random_split(len(molecules), seed=0)
    record = bench.ridge_baseline(molecules, split_idx, degree=3)
    train, valid, test = (split_idx[part] for part in ("train", "valid", "test"))
    y = molecules.y.numpy()[:, 0].astype(np.float64)
    mean = y[train].mean()

    def rmse(prediction: np.ndarray, part: np.ndarray) -> float:
        return float(np.sqrt(np.mean((prediction - y[part]) ** 2)))

    best: dict[str, Any] = min(record["tried"], key=lambda tried: tried["valid"])
    assert record["chosen"] == best
    assert len(record["tried"]) == 12
    assert record["mean_rmse"] == pytest.approx(rmse(mean, test))
    for tried in record["tried"]:
        kernel = WLSubtreeKernel(3, edge_labels=tried["edge_labels"], normalize=tried["normalize"])
        gram = kernel(molecules)
        penalty = tried["penalty"] * np.diagonal(gram)[train].mean()
        dual = np.linalg.solve(gram[np.ix_(train, train)] + penalty * np.eye(len(train)), y[train] - mean)
        assert tried["valid"] == pytest.approx(
            rmse(gram[np.ix_(valid, train)] @ dual + mean, valid), rel=1e-5
        )
        if tried is best:
            prediction = gram[np.ix_(test, train)] @ dual + mean
            assert record["rmse"] == pytest.approx(rmse(prediction, test), rel=1e-5)
            assert record["mae"] == pytest.approx(np.abs(prediction - y[test]).mean(), rel=1e-5)
    assert record["rmse"] < record["mean_rmse"]
    # Neither the targets of the test part nor its errors choose.
    other = y.copy()
    other[test] = -other[test]
    again = bench.ridge_baseline(molecules.with_targets(other), split_idx, degree=3)
    assert again["chosen"] == pytest.approx(record["chosen"])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_molecules_of_the_test_part_change_nothing(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PENALTIES", (1.0, 0.01))
    molecules = some_measured()
    if task == "classification":
        y = (molecules.y > molecules.y.median()).float()
        molecules = described(molecules.with_targets(y), task=task, metric="roc_auc")
    whole = random_split(len(molecules), seed=0)
    sizes = np.diff(molecules.arrays.node_ptr.numpy())[whole["test"]]
    largest = np.argsort(sizes)[-5:]
    few = whole | {"test": whole["test"][largest]}
    index = np.concatenate(list(few.values()))
    ends = np.cumsum([len(part) for part in few.values()])
    alone = dict(zip(few, np.split(np.arange(len(index)), ends[:-1]), strict=True))
    predictions, found = bench.best_machine(molecules, whole, [1])
    of_few, found_with_few = bench.best_machine(molecules[index], alone, [1])
    assert found_with_few["tried"] == [pytest.approx(tried) for tried in found["tried"]]
    for part, of_part in (("valid", slice(None)), ("test", largest)):
        np.testing.assert_allclose(of_few[part], predictions[part][of_part], rtol=1e-5)


def test_logistic_regression_is_exact_and_chosen_on_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks: of one some labels are missing, of the other there is one class in the training part."""
    monkeypatch.setattr(bench, "PENALTIES", (1.0, 0.01))
    molecules = some_measured()
    split_idx = random_split(len(molecules), seed=0)
    train, valid, test = (split_idx[part] for part in ("train", "valid", "test"))
    y = np.stack([molecules.y.numpy()[:, 0] > molecules.y.median().item(), np.zeros(len(molecules))], axis=1)
    y = y.astype(np.float32)
    y[::5, 0] = np.nan
    y[valid[0], 1] = 1
    data = described(molecules.with_targets(y), task="classification", metric="roc_auc")
    predictions, found = bench.best_machine(data, split_idx, [2])
    assert len(found["tried"]) == 4
    assert found["chosen"] == max(found["tried"], key=lambda tried: tried["valid"])

    features = WLSubtreeKernel(2, edge_labels=found["chosen"]["edge_labels"]).features(data)
    features.data = np.log1p(features.data)
    gram = (features @ features.T).toarray() + 1  # the constant is a weight like others
    penalty = found["chosen"]["penalty"] * (np.diagonal(gram) - 1)[train].mean()
    known = train[~np.isnan(y[train, 0])]
    signs = 2 * y[known, 0] - 1
    # At the minimum, w = Σ_i α_i Φ_i with α_i = σ(-s_i f_i) s_i / penalty.
    logits = np.log(predictions["train"][:, 0]) - np.log1p(-predictions["train"][:, 0])
    logits = logits[~np.isnan(y[train, 0])]
    alpha = signs / (1 + np.exp(signs * logits)) / penalty
    np.testing.assert_allclose(gram[np.ix_(known, known)] @ alpha, logits, atol=0.02 * logits.std())
    in_test = 1 / (1 + np.exp(-gram[np.ix_(test, known)] @ alpha))
    np.testing.assert_allclose(predictions["test"][:, 0], in_test, atol=0.01)
    assert (predictions["test"][:, 1] == 0).all()
    assert found["weights"] == found["colours"] + 1
    # The test part decides nothing.
    y[test] = 1 - y[test]
    again, _ = bench.best_machine(data.with_targets(y), split_idx, [2])
    np.testing.assert_array_equal(again["test"], predictions["test"])


def test_each_target_has_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one some values are missing: it is fitted to the others."""
    monkeypatch.setattr(bench, "PENALTIES", (1.0, 0.1, 0.01))
    molecules = some_measured()
    split_idx = random_split(len(molecules), seed=0)
    y = np.repeat(molecules.y.numpy(), 2, axis=1)
    y[::4, 1] = np.nan
    both = described(molecules.with_targets(y), task="regression", metric="mae")
    predictions, found = bench.best_machine(both, split_idx, [1, 2])
    assert found["weights"] == 2 * found["colours"]
    assert {tried["num_iterations"] for tried in found["tried"]} == {1, 2}
    chosen = found["chosen"]
    train, valid = split_idx["train"], split_idx["valid"]
    kernel = WLSubtreeKernel(chosen["num_iterations"], chosen["edge_labels"], chosen["normalize"])
    gram = kernel(molecules)
    penalty = chosen["penalty"] * np.diagonal(gram)[train].mean()
    for task in (0, 1):
        rows = train[~np.isnan(y[train, task])]
        mean = y[rows, task].mean()
        dual = np.linalg.solve(gram[np.ix_(rows, rows)] + penalty * np.eye(len(rows)), y[rows, task] - mean)
        np.testing.assert_allclose(
            predictions["valid"][:, task], gram[np.ix_(valid, rows)] @ dual + mean, rtol=1e-4
        )
    assert chosen["valid"] == pytest.approx(np.nanmean(np.abs(predictions["valid"] - y[valid]), 0).mean())


def test_a_machine_of_a_split_is_that_of_its_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their order, and whatever else there is."""
    monkeypatch.setattr(bench, "PENALTIES", (0.1, 0.001))
    molecules = some_measured()
    index = {part: rows[::2] for part, rows in random_split(len(molecules), seed=0).items()}
    fitted = bench.fit_machine(Split(molecules, "random", index), [1, 2])
    expected, found = bench.best_machine(molecules, index, [1, 2])
    for part, predictions in expected.items():
        np.testing.assert_allclose(fitted.predictions[part], predictions, rtol=1e-5)
    assert fitted.parameters == found["weights"]
