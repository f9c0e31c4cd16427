from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from torch_geometric.data import Data

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import some_measured
from wlkernelnn.kernels import WLSubtreeKernel, WLVectorizer, objects


@pytest.mark.parametrize(("num_iterations", "edge_labels"), [(0, True), (1, False), (3, True)])
def test_inner_products_are_the_kernel(num_iterations: int, edge_labels: bool) -> None:
    """Among training graphs, and with others: a colour that one of two does not have adds nothing."""
    train, test = random_packed(30, seed=1), random_packed(12, seed=2)
    kernel = WLSubtreeKernel(num_iterations, edge_labels=edge_labels)
    vectorizer = WLVectorizer(num_iterations, edge_labels)
    features = vectorizer.fit_transform(train)
    np.testing.assert_array_equal((features @ features.T).toarray(), kernel(train))
    assert features.shape == (30, vectorizer.num_columns_)
    assert (features.sum(axis=0) > 0).all()
    others = vectorizer.transform(test)
    np.testing.assert_array_equal((others @ features.T).toarray(), kernel(test, train))
    np.testing.assert_array_equal(vectorizer.transform(train).toarray(), features.toarray())


def test_graphs_of_any_kind_and_colours_that_are_new() -> None:
    vectorizer = WLVectorizer(1).fit(["CCO", "CCN"])
    assert vectorizer.transform([]).shape == (0, vectorizer.num_columns_)
    (row,) = vectorizer.transform(["CCS"]).toarray()
    # CH3 and CH2 beside carbon have been seen, before an iteration too; sulphur and what is beside it not.
    assert row.sum() == 3
    with pytest.raises(TypeError, match="expected a list of graphs or of SMILES"):
        vectorizer.transform("CCO")
    with pytest.raises(ValueError, match="x"):
        vectorizer.transform([Data(x=np.ones(3), edge_index=np.zeros((2, 0)))])


def test_other_arguments_wait_for_the_next_fit() -> None:
    data = some_measured(20)
    vectorizer = WLVectorizer(1, edge_labels=False)
    expected = vectorizer.fit_transform(data).toarray()
    vectorizer.set_params(num_iterations=2, edge_labels=True)
    np.testing.assert_array_equal(vectorizer.transform(data).toarray(), expected)
    assert vectorizer.fit(data).transform(data).shape[1] > expected.shape[1]


def test_log_counts() -> None:
    data = some_measured(20)
    counts, logs = WLVectorizer(2).fit_transform(data), WLVectorizer(2, log=True).fit_transform(data)
    np.testing.assert_allclose(logs.toarray(), np.log1p(counts.toarray()))


def test_protocol() -> None:
    data = some_measured(20)
    y = data.y.numpy()[:, 0] > np.median(data.y)
    model = make_pipeline(WLVectorizer(log=True), LogisticRegression(max_iter=500))
    grid = {"wlvectorizer__num_iterations": [0, 1], "wlvectorizer__edge_labels": [True, False]}
    search = GridSearchCV(model, grid, cv=3).fit(objects(data.smiles), y)
    best = search.best_estimator_
    names = best[:-1].get_feature_names_out()
    assert names[0] == "wlvectorizer0"
    assert len(names) == best[-1].coef_.shape[1]
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(data), best.predict_proba(data.smiles))
    copy = clone(best[0])
    assert copy.get_params() == best[0].get_params()
    with pytest.raises(NotFittedError):
        copy.transform(data)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="num_iterations must be an integer of at least 0, got -1"):
        WLVectorizer(-1).fit(["C"])
    for switch in ("edge_labels", "log"):
        with pytest.raises(ValueError, match=f"{switch} must be True or False, got 'no'"):
            WLVectorizer().set_params(**{switch: "no"}).fit(["C"])
