"""That nothing is chosen by what is tested, and that numbers are what they are called; never how good."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from tests.tu_files import write_rings
from wlkernelnn.bench.kernels import nested_svm as bench
from wlkernelnn.datasets import load_tu
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel


@pytest.fixture(autouse=True)
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DEPTHS", (0, 1, 2))
    monkeypatch.setattr(bench, "CS", (0.1, 10.0, 1000.0))


@pytest.fixture
def rings(tmp_path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    write_rings(tmp_path)
    data = load_tu("RINGS", tmp_path)
    return bench.wl_grams(data), data.y.numpy()[:, 0].astype(int)


def test_grams_are_normalised_ones_of_every_depth_by_node_labels(data_root: Path) -> None:
    data = load_tu("MUTAG", data_root)[:30]
    assert data.description.num_edge_types == 4
    grams = bench.wl_grams(data)
    assert len(grams) == 3
    for depth, gram in enumerate(grams):
        plain = WLSubtreeKernel(depth, edge_labels=False)(data)
        lengths = np.sqrt(np.diagonal(plain))
        np.testing.assert_allclose(gram, plain / lengths / lengths[:, None], rtol=1e-12)
    counts = np.array([np.bincount(graph.x[:, 0], minlength=7) for graph in data], dtype=float)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    np.testing.assert_allclose(grams[0], counts @ counts.T, rtol=1e-12)


def test_choice_is_the_best_of_an_inner_cross_validation(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    train, test = next(StratifiedKFold(10, shuffle=True, random_state=3).split(y, y))
    record = bench.nested_fold(grams, y, train, test, seed=3)

    inner = StratifiedKFold(5, shuffle=True, random_state=3)
    right = np.zeros((3, 3))
    for depth, gram in enumerate(grams):
        for i, C in enumerate(bench.CS):
            machine = SVC(kernel="precomputed", C=C)
            predicted = cross_val_predict(machine, gram[np.ix_(train, train)], y[train], cv=inner)
            right[depth, i] = (predicted == y[train]).sum()
    assert len(np.unique(right)) > 3
    for kernel, depths in zip(bench.KERNELS, (3, 1), strict=True):
        # The first of the best: least depth, then least C.
        depth, i = min(zip(*np.nonzero(right[:depths] == right[:depths].max()), strict=True))
        assert (record[kernel]["depth"], record[kernel]["C"]) == (depth, bench.CS[i])
        machine = SVC(kernel="precomputed", C=bench.CS[i]).fit(grams[depth][np.ix_(train, train)], y[train])
        expected = (machine.predict(grams[depth][np.ix_(test, train)]) == y[test]).sum()
        assert record[kernel]["right"] == expected
    assert record["WL subtree"]["depth"] > 0
    assert record["given_up"] == 0


def test_the_test_part_chooses_nothing(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    rng = np.random.default_rng(0)
    for train, test in list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))[:3]:
        other_y = y.copy()
        other_y[test] = 1 - y[test]
        other_grams = [gram.copy() for gram in grams]
        for gram in other_grams:
            gram[test] = rng.normal(size=(len(test), len(y)))
        before = bench.nested_fold(grams, y, train, test, seed=0)
        after = bench.nested_fold(other_grams, other_y, train, test, seed=0)
        for kernel in bench.KERNELS:
            assert [before[kernel][k] for k in ("depth", "C")] == [after[kernel][k] for k in ("depth", "C")]
        flipped = bench.nested_fold(grams, other_y, train, test, seed=0)
        for kernel in bench.KERNELS:
            assert flipped[kernel]["right"] == len(test) - before[kernel]["right"]


def test_cross_validation_looks_at_every_graph_once(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    record = bench.cross_validate(grams, y, seed=1, n_jobs=1)
    folds = list(StratifiedKFold(10, shuffle=True, random_state=1).split(y, y))
    by_hand = [bench.nested_fold(grams, y, train, test, 1) for train, test in folds]
    for kernel in bench.KERNELS:
        assert record[kernel]["accuracy"] == sum(fold[kernel]["right"] for fold in by_hand) / 60
        assert record[kernel]["depth"] == [fold[kernel]["depth"] for fold in by_hand]
        assert record[kernel]["C"] == [fold[kernel]["C"] for fold in by_hand]
    assert record["WL subtree"]["accuracy"] > record["vertex histogram"]["accuracy"]
    two = bench.cross_validate(grams, y, seed=1, n_jobs=2)
    other = bench.cross_validate(grams, y, seed=2, n_jobs=1)
    assert two["WL subtree"] == record["WL subtree"] != other["WL subtree"]


def test_machines_that_give_up_are_counted(
    rings: tuple[list[np.ndarray], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "MAX_ITER", 1)
    # Every machine: 5 inner folds of 3 depths and 3 values of C, and two at the end; 10 folds.
    assert bench.cross_validate(*rings, seed=0, n_jobs=1)["given_up"] == 10 * (5 * 9 + 2)
