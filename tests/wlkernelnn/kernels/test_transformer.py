from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC

from tests.inputs.molecules import whole_set
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import RandomWalkKernel, objects
from wlkernelnn.kernels.graphs.wl_subtree import WLSubtreeKernel
from wlkernelnn.kernels.transformer import GramTransformer

NUMBER = 48
# How a user may have the molecules.
FORMS = {
    "packed store": lambda data: data,
    "list of Data": list,
    "object array of Data": lambda data: objects(list(data)),
    "list of SMILES": lambda data: data.smiles,
    "array of SMILES": lambda data: np.array(data.smiles),
    "object array of SMILES": lambda data: objects(data.smiles),
    "Series of SMILES": lambda data: pd.Series(data.smiles, index=range(100, 100 + len(data))),
    "column of Arrow": lambda data: pa.chunked_array([data.smiles]),
    "frame with a column": lambda data: pd.DataFrame({"smiles": data.smiles}, dtype="category"),
    "array with a column": lambda data: objects(data.smiles)[:, None],
}


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    data = whole_set()
    return data[np.random.default_rng(0).permutation(len(data))[:NUMBER]]


@pytest.fixture(scope="module")
def active(data: PackedGraphs) -> np.ndarray:
    y = data.y.numpy()[:, 0]
    return (y > np.median(y)).astype(int)


def svm(**kernel: Any) -> Pipeline:
    return make_pipeline(
        GramTransformer(RandomWalkKernel(**kernel, normalize=True)), SVC(kernel="precomputed", C=10.0)
    )


def test_values_are_the_kernels(data: PackedGraphs) -> None:
    train, test = data[:20], data[20:27]
    kernel = RandomWalkKernel(3, decay=0.5, normalize=True)
    transformer = GramTransformer(kernel)
    gram = transformer.fit_transform(train)
    np.testing.assert_allclose(gram, kernel(train), rtol=1e-12)
    values = transformer.transform(test)
    assert values.shape == (7, 20)
    assert transformer.get_feature_names_out().tolist() == [f"gramtransformer{i}" for i in range(20)]
    np.testing.assert_allclose(values, kernel(test, train), rtol=1e-12)
    # A single structure, compared by hand.
    pair = RandomWalkKernel(3, decay=0.5)(data[[3, 22]])
    assert values[2, 3] == pytest.approx(pair[0, 1] / np.sqrt(pair[0, 0] * pair[1, 1]))
    np.testing.assert_allclose(GramTransformer(kernel).fit(train).transform(train), gram, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_goes_through_cross_validation(data: PackedGraphs, active: np.ndarray, form: str) -> None:
    structures = FORMS[form](data)
    predicted = cross_val_predict(svm(walk_length=2), structures, active, cv=3)
    # The same folds by hand: cv=3 draws nothing at random.
    gram = RandomWalkKernel(2, normalize=True)(data)
    expected = cross_val_predict(SVC(kernel="precomputed", C=10.0), gram, active, cv=3)
    np.testing.assert_array_equal(predicted, expected)
    assert np.mean(predicted == active) > 0.6


def test_grid_search_over_the_kernels_arguments(data: PackedGraphs, active: np.ndarray) -> None:
    grid = {
        "gramtransformer__kernel__walk_length": [1, 3],
        "gramtransformer__kernel__decay": [0.0, 0.5],
    }
    machine = SVC(kernel="precomputed", C=10.0)
    search = GridSearchCV(svm(walk_length=1, all_lengths=True), grid, cv=3).fit(data, active)
    scores = {
        (p["gramtransformer__kernel__walk_length"], p["gramtransformer__kernel__decay"]): score
        for p, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(scores) == 4
    for (walk_length, decay), score in scores.items():
        kernel = RandomWalkKernel(walk_length, decay, all_lengths=True, normalize=True)
        assert score == pytest.approx(cross_val_score(machine, kernel(data), active, cv=3).mean())
    # Without decayed walks they are single nodes: the argument arrives.
    assert scores[3, 0.0] == scores[1, 0.0]
    assert len({round(score, 6) for score in scores.values()}) > 1
    best = search.best_estimator_.named_steps["gramtransformer"]
    assert best.kernel_.walk_length == search.best_params_["gramtransformer__kernel__walk_length"]
    assert best.kernel_.decay == search.best_params_["gramtransformer__kernel__decay"]
    assert search.predict(data[:5]).shape == (5,)


def test_depth_of_the_subtree_kernel_is_a_parameter(data: PackedGraphs, active: np.ndarray) -> None:
    model = make_pipeline(GramTransformer(WLSubtreeKernel(normalize=True)), SVC(kernel="precomputed"))
    grid = {"gramtransformer__kernel__num_iterations": [0, 2]}
    search = GridSearchCV(model, grid, cv=3).fit(data, active)
    for depth, score in zip((0, 2), search.cv_results_["mean_test_score"], strict=True):
        gram = WLSubtreeKernel(depth, normalize=True)(data)
        assert score == pytest.approx(cross_val_score(SVC(kernel="precomputed"), gram, active, cv=3).mean())


def test_kernel_ridge_predicts(data: PackedGraphs) -> None:
    y = data.y.numpy()[:, 0].astype(np.float64)
    y = y - y[:36].mean()
    kernel = RandomWalkKernel(3, normalize=True)
    model = make_pipeline(GramTransformer(kernel), KernelRidge(alpha=0.1, kernel="precomputed"))
    model.fit(data[:36], y[:36])
    gram = kernel(data)
    expected = gram[36:, :36] @ np.linalg.solve(gram[:36, :36] + 0.1 * np.eye(36), y[:36])
    np.testing.assert_allclose(model.predict(data[36:]), expected, rtol=1e-6, atol=1e-9)
    assert model.score(data[:36], y[:36]) > 0.5


def test_clone_and_parameters() -> None:
    transformer = GramTransformer(RandomWalkKernel(3, decay=0.25))
    assert transformer.get_params()["kernel__decay"] == 0.25
    copied = clone(transformer).set_params(kernel__decay=0.75, kernel__walk_length=4)
    assert (copied.kernel.decay, copied.kernel.walk_length) == (0.75, 4)
    assert (transformer.kernel.decay, transformer.kernel.walk_length) == (0.25, 3)
    assert transformer.set_params(kernel=RandomWalkKernel(5)).kernel.walk_length == 5
    with pytest.raises(ValueError, match="speed"):
        transformer.set_params(kernel__speed=2)


def test_what_was_fitted_stays(data: PackedGraphs) -> None:
    transformer = GramTransformer(RandomWalkKernel(2)).fit(data[:4])
    before = transformer.transform(data[4:6])
    transformer.set_params(kernel__walk_length=3)
    np.testing.assert_array_equal(transformer.transform(data[4:6]), before)
    assert (transformer.fit(data[:4]).transform(data[4:6]) != before).all()


def test_kernels_made_of_kernels(data: PackedGraphs, active: np.ndarray) -> None:
    parts = RandomWalkKernel(2, normalize=True), WLSubtreeKernel(1, normalize=True)
    transformer = GramTransformer(0.5 * parts[0] + parts[1] ** 2)
    train, test = data.smiles[:8], data.smiles[8:12]
    np.testing.assert_allclose(
        transformer.fit(train).transform(test), 0.5 * parts[0](test, train) + parts[1](test, train) ** 2
    )
    np.testing.assert_allclose(transformer.fit_transform(train), 0.5 * parts[0](train) + parts[1](train) ** 2)
    model = make_pipeline(GramTransformer(parts[0] + parts[1]), SVC(kernel="precomputed"))
    grid = {"gramtransformer__kernel__k1__decay": [0.2, 0.9]}
    smiles = data.smiles[:16]
    search = GridSearchCV(model, grid, cv=2).fit(objects(smiles), active[:16])
    assert search.best_estimator_.predict(smiles).shape == (16,)


def test_misuse_is_explained(data: PackedGraphs) -> None:
    with pytest.raises(NotFittedError, match="GramTransformer"):
        GramTransformer(RandomWalkKernel()).transform(data[:2])
    with pytest.raises(TypeError, match=r"kernel must be one of wlkernelnn\.kernels, or made .* got 'rbf'"):
        GramTransformer("rbf").fit(data[:2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="or made of them, got RBF"):
        GramTransformer(RBF()).fit(data[:2])
    with pytest.raises(TypeError, match="a list of graphs or of SMILES"):
        GramTransformer(RandomWalkKernel()).fit_transform("CCO")


def test_what_happens_to_the_callers_list_does_not_matter() -> None:
    smiles = ["CCO", "CCN", "CCC"]
    transformer = GramTransformer(WLSubtreeKernel(1)).fit(smiles)
    smiles[:] = ["C"]
    assert transformer.transform(["CCO"]).shape == (1, 3)
