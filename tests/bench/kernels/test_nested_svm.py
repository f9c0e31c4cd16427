"""That nothing is chosen by what is tested, and that numbers are what they are called; never how good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from tests.inputs.tu_files import write_rings
from wlkernelnn.bench.kernels import nested_svm as bench
from wlkernelnn.datasets import load_tu
from wlkernelnn.kernels import PathKernel, ShortestPathKernel, WLSubtreeKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.wl_subtree import graph_colours

ROWS: dict[str, tuple[int | None, ...]] = {"WL subtree": (0, 1, 2), "vertex histogram": (0,)}
Grams = dict[int | None, np.ndarray]


@pytest.fixture(autouse=True)
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "CS", (0.1, 10.0, 1000.0))


@pytest.fixture
def rings(tmp_path: Path) -> tuple[Grams, np.ndarray]:
    write_rings(tmp_path)
    data = load_tu("RINGS", tmp_path)
    grams = replace(bench.FAMILIES["wl"], rows=ROWS).grams(data)
    return grams, data.y.numpy()[:, 0].astype(int)


def test_grams_are_normalised_ones_of_every_depth_by_node_labels(data_root: Path) -> None:
    data = load_tu("MUTAG", data_root)[:30]
    assert data.description.num_edge_types == 4
    grams = bench.FAMILIES["wl"].grams(data)
    assert list(grams) == list(range(7))
    for depth, gram in grams.items():
        plain = WLSubtreeKernel(depth, edge_labels=False)(data)
        lengths = np.sqrt(np.diagonal(plain))
        np.testing.assert_allclose(gram, plain / lengths / lengths[:, None], rtol=1e-12)
    counts = np.array([np.bincount(graph.x[:, 0], minlength=7) for graph in data], dtype=float)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    np.testing.assert_allclose(grams[0], counts @ counts.T, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("wl-minmax", WLSubtreeKernel(3, edge_labels=False, normalize="minmax")),
        ("shortest-paths", ShortestPathKernel(3, normalize="minmax")),
        ("paths", PathKernel(3, edge_labels=False, normalize="minmax")),
    ],
)
def test_min_max_grams_are_of_node_labels(data_root: Path, name: str, kernel: bench.CountKernel) -> None:
    data = load_tu("MUTAG", data_root)[:30]
    np.testing.assert_array_equal(bench.FAMILIES[name].grams(data)[3], kernel(data))


def test_every_distance_is_a_setting(data_root: Path) -> None:
    data = load_tu("MUTAG", data_root)[:30]
    grams = bench.FAMILIES["shortest-paths"].grams(data)
    np.testing.assert_array_equal(grams[None], ShortestPathKernel(100, normalize="minmax")(data))
    assert not np.array_equal(grams[None], grams[6])


def test_min_max_of_colours_is_made_of_the_optimal_assignment(tmp_path: Path) -> None:
    """As the legend has it, beside the best bijection of nodes itself: Kriege, Giscard and Wilson 2016."""
    write_rings(tmp_path)
    data = load_tu("RINGS", tmp_path)[:12]
    flat = flat_graphs(data)
    for depth, gram in bench.FAMILIES["wl-minmax"].grams(data).items():
        colours = np.stack(graph_colours(flat, depth or 0, use_edge_labels=False), axis=1)
        nodes = np.split(colours, flat.node_ptr[1:-1])
        best = np.zeros((len(nodes), len(nodes)))
        for i, first in enumerate(nodes):
            for j, second in enumerate(nodes):
                shared = (first[:, None] == second).sum(axis=2)
                best[i, j] = shared[linear_sum_assignment(shared, maximize=True)].sum()
        itself = np.diagonal(best)
        np.testing.assert_array_equal(itself, [(colours.shape[1]) * len(one) for one in nodes])
        np.testing.assert_allclose(gram, best / (itself[:, None] + itself - best), rtol=1e-12)


def test_a_machine_below_its_bound_is_that_of_every_greater_c(
    rings: tuple[Grams, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, y = rings
    fitted = []
    fit = SVC.fit

    def noted(machine: SVC, *arguments: np.ndarray) -> SVC:
        fitted.append(machine.C)
        return fit(machine, *arguments)

    monkeypatch.setattr(SVC, "fit", noted)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(y), 100))
    train, test = np.arange(40), np.arange(40, 60)
    Cs = (0.001, 0.1, 10.0, 100.0, 1000.0)
    right, _ = bench.count_right(x @ x.T / 100, y, train, test, Cs)
    assert fitted == [0.001, 0.1, 10.0]
    monkeypatch.setattr(SVC, "fit", fit)
    alone = [bench.count_right(x @ x.T / 100, y, train, test, [C])[0][0] for C in Cs]
    assert right.tolist() == alone
    assert len(set(alone)) > 1


def test_choice_is_the_best_of_an_inner_cross_validation(rings: tuple[Grams, np.ndarray]) -> None:
    grams, y = rings
    train, test = next(StratifiedKFold(10, shuffle=True, random_state=3).split(y, y))
    record = bench.nested_fold(grams, ROWS, y, train, test, seed=3)

    inner = StratifiedKFold(5, shuffle=True, random_state=3)
    right = np.zeros((3, 3))
    for depth, gram in enumerate(grams.values()):
        for i, C in enumerate(bench.CS):
            machine = SVC(kernel="precomputed", C=C)
            predicted = cross_val_predict(machine, gram[np.ix_(train, train)], y[train], cv=inner)
            right[depth, i] = (predicted == y[train]).sum()
    assert len(np.unique(right)) > 3
    for kernel, depths in zip(ROWS, (3, 1), strict=True):
        # The first of the best: least depth, then least C.
        depth, i = min(zip(*np.nonzero(right[:depths] == right[:depths].max()), strict=True))
        assert (record[kernel]["setting"], record[kernel]["C"]) == (depth, bench.CS[i])
        machine = SVC(kernel="precomputed", C=bench.CS[i]).fit(grams[depth][np.ix_(train, train)], y[train])
        expected = (machine.predict(grams[depth][np.ix_(test, train)]) == y[test]).sum()
        assert record[kernel]["right"] == expected
    assert record["WL subtree"]["setting"] > 0
    assert record["given_up"] == 0


def test_the_test_part_chooses_nothing(rings: tuple[Grams, np.ndarray]) -> None:
    grams, y = rings
    rng = np.random.default_rng(0)
    for train, test in list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))[:3]:
        other_y = y.copy()
        other_y[test] = 1 - y[test]
        other_grams = {depth: gram.copy() for depth, gram in grams.items()}
        for gram in other_grams.values():
            gram[test] = rng.normal(size=(len(test), len(y)))
        before = bench.nested_fold(grams, ROWS, y, train, test, seed=0)
        after = bench.nested_fold(other_grams, ROWS, other_y, train, test, seed=0)
        for kernel in ROWS:
            assert [before[kernel][k] for k in ("setting", "C")] == [
                after[kernel][k] for k in ("setting", "C")
            ]
        flipped = bench.nested_fold(grams, ROWS, other_y, train, test, seed=0)
        for kernel in ROWS:
            assert flipped[kernel]["right"] == len(test) - before[kernel]["right"]


def test_cross_validation_looks_at_every_graph_once(
    rings: tuple[Grams, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "INNER_FOLDS", 2)
    grams, y = rings
    record = bench.cross_validate(grams, ROWS, y, seed=1, n_jobs=1)
    folds = list(StratifiedKFold(10, shuffle=True, random_state=1).split(y, y))
    by_hand = [bench.nested_fold(grams, ROWS, y, train, test, 1) for train, test in folds]
    for kernel in ROWS:
        assert record[kernel]["accuracy"] == sum(fold[kernel]["right"] for fold in by_hand) / 60
        assert record[kernel]["setting"] == [fold[kernel]["setting"] for fold in by_hand]
        assert record[kernel]["C"] == [fold[kernel]["C"] for fold in by_hand]
    assert record["WL subtree"]["accuracy"] > record["vertex histogram"]["accuracy"]
    two = bench.cross_validate(grams, ROWS, y, seed=1, n_jobs=2)
    other = bench.cross_validate(grams, ROWS, y, seed=2, n_jobs=1)
    assert two["WL subtree"] == record["WL subtree"] != other["WL subtree"]


def test_machines_that_give_up_are_counted(
    rings: tuple[Grams, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "MAX_ITER", 1)
    monkeypatch.setattr(bench, "INNER_FOLDS", 2)
    # Every machine: 2 inner folds of 3 depths and 3 values of C, and two at the end; 10 folds.
    grams, y = rings
    assert bench.cross_validate(grams, ROWS, y, seed=0, n_jobs=1)["given_up"] == 10 * (2 * 9 + 2)
