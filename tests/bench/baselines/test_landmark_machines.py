from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from tests.inputs.molecules import described, some_measured
from wlkernelnn.bench.baselines import landmark_machines as bench
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.datasets import PackedGraphs, featurize, random_split
from wlkernelnn.kernels import MoleculeKernel
from wlkernelnn.training import score


def active() -> PackedGraphs:
    """Molecules; a quarter of them are active."""
    molecules = some_measured()
    y = (molecules.y > molecules.y.quantile(0.75)).float()
    return described(molecules.with_targets(y), task="classification", metric="roc_auc")


@pytest.mark.parametrize(("rare", "number", "few"), [(10, 40, 10), (30, 40, 20), (30, 90, 20), (70, 40, 20)])
def test_landmarks_are_of_both_classes(rare: int, number: int, few: int) -> None:
    y = np.zeros(100)
    y[np.random.default_rng(1).permutation(100)[:rare]] = 1
    found = bench.draw_landmarks(y, number)
    assert len(np.unique(found)) == number
    assert (np.diff(found) > 0).all()
    assert min(y[found].sum(), (1 - y[found]).sum()) == few if number < 90 else y[found].sum() >= few
    assert bench.draw_landmarks(y, number).tolist() == found.tolist()
    assert bench.draw_landmarks(y, number, seed=1).tolist() != found.tolist()


def test_all_rows_are_landmarks_if_there_are_few() -> None:
    assert bench.draw_landmarks(np.array([0, 1, 0, 0]), 10).tolist() == [0, 1, 2, 3]


def test_features_have_the_kernel_as_inner_products() -> None:
    data, _ = featurize(some_measured().smiles[::2], features="ogb+invariants+ring_nodes")
    gram = np.mean([part(data) for part in MoleculeKernel().parts[:4]], axis=0)
    np.testing.assert_allclose(bench._cross(data, data), gram, atol=1e-6)
    marks = np.arange(0, len(data), 3)
    z = bench.landmark_features(gram[:, marks].astype(np.float32), marks)
    # Nyström's approximation, which is exact between landmarks.
    expected = gram[:, marks] @ np.linalg.solve(gram[np.ix_(marks, marks)], gram[marks])
    np.testing.assert_allclose(z @ z.T, expected, atol=2e-3)
    np.testing.assert_allclose(z[marks] @ z[marks].T, gram[np.ix_(marks, marks)], atol=1e-4)


PENALTIES = {"ridge": (1.0,), "logistic": (0.1,), "balanced": (1.0,)}


@pytest.mark.parametrize("machine", [None, *PENALTIES], ids=str)
def test_the_machine_is_chosen_on_valid_and_is_scikit_learns(
    machine: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {machine: PENALTIES[machine]} if machine else PENALTIES
    monkeypatch.setattr(bench, "PENALTIES", chosen)
    data = active()
    index = random_split(len(data), seed=0)
    y = data.y[:, 0].numpy()
    fitted = bench.fit_landmarks(30, Split(data, "random", index), Path())
    assert len(fitted.more["tried"]) == 2 * len(chosen)
    best = max(fitted.more["tried"], key=lambda tried: tried["valid"])
    assert fitted.more["chosen"] == best
    assert score("roc_auc", data.y[index["valid"]].numpy(), fitted.predictions["valid"]) == best["valid"]
    assert fitted.parameters == 31

    graphs, _ = featurize(data.smiles, features="ogb+invariants" + "+ring_nodes" * best["ring_nodes"])
    marks = index["train"][bench.draw_landmarks(y[index["train"]], 30)]
    z = bench.landmark_features(bench._cross(graphs, graphs[marks]), marks)
    model: Any = {
        "ridge": Ridge(best["penalty"]),
        "logistic": LogisticRegression(C=1 / best["penalty"], tol=1e-8),
        "balanced": LogisticRegression(C=1 / best["penalty"], class_weight="balanced", tol=1e-8),
    }[best["machine"]].fit(z[index["train"]], y[index["train"]])
    new = z[index["test"]]
    expected = model.predict(new) if best["machine"] == "ridge" else model.predict_proba(new)[:, 1]
    np.testing.assert_allclose(fitted.predictions["test"][:, 0], expected, atol=0.01)


def test_the_test_part_chooses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its targets nor its molecules."""
    monkeypatch.setattr(bench, "PENALTIES", PENALTIES)
    data = active()
    index = random_split(len(data), (0.6, 0.2, 0.2), seed=0)
    fitted = bench.fit_landmarks(30, Split(data, "random", index), Path())
    other = data.y[:, 0].numpy().copy()
    other[index["test"]] = 1 - other[index["test"]]
    again = bench.fit_landmarks(30, Split(data.with_targets(other[:, None]), "random", index), Path())
    np.testing.assert_array_equal(again.predictions["test"], fitted.predictions["test"])
    less = index | {"test": index["test"][:3]}
    fewer = bench.fit_landmarks(30, Split(data, "random", less), Path())
    np.testing.assert_allclose(fewer.predictions["test"], fitted.predictions["test"][:3], atol=1e-5)
