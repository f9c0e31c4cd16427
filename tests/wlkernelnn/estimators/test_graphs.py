from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from torch_geometric.data import Batch, Data

from tests.inputs.edited import edit
from tests.inputs.molecules import regression_set
from wlkernelnn import GraphClassifier, GraphRegressor
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.training import load_run

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
KIND = np.arange(30) % 3
NAMES = np.array(["end", "middle", "none"])[KIND]
GRAPHS = [Data(x=torch.tensor([[int(kind == 0)], [int(kind == 1)], [0]]), edge_index=EDGES) for kind in KIND]
SMALL = {"hidden_channels": 8, "epochs": 6, "batch_size": 8, "lr": 3e-2, "random_state": 0}


def test_graphs_of_three_classes(tmp_path: Path) -> None:
    model = GraphClassifier(**SMALL, class_weight="balanced").fit(GRAPHS, NAMES)
    assert model.classes_.tolist() == ["end", "middle", "none"]
    assert model.score(GRAPHS, NAMES) == 1.0
    probability = model.predict_proba(GRAPHS[:4])
    assert probability.shape == (4, 3)
    assert model.predict_proba([]).shape == (0, 3)
    assert model.predict([]).shape == (0,)
    model.save(tmp_path)
    np.testing.assert_array_equal(GraphClassifier.load(tmp_path).predict_proba(GRAPHS[:4]), probability)


def test_two_classes_of_packed_graphs() -> None:
    data = regression_set()
    active = np.arange(60) % 2 == 0
    quick = clone(GraphClassifier(**SMALL)).set_params(epochs=1, model="stack")
    model = quick.fit(data[:40], active[:40])
    assert model.predict_proba(data[40:]).shape == (20, 2)
    assert model.predict_proba([]).shape == (0, 2)
    assert set(model.predict(data[40:])) <= {False, True}


def test_numbers(tmp_path: Path) -> None:
    y = KIND * 100.0 + 7
    more = {"epochs": 10, "lr": 0.06, "random_state": 1}
    model = GraphRegressor(**SMALL | more, validation_fraction=0.4).fit(GRAPHS, y)
    assert model.score(GRAPHS, y) > 0.5
    mean, std = model.predict(PackedGraphs.from_pyg(GRAPHS), return_std=True)
    np.testing.assert_array_equal(model.predict(GRAPHS), mean)
    assert (std > 0).all()
    model.save(tmp_path)
    np.testing.assert_array_equal(GraphRegressor.load(tmp_path).predict(GRAPHS), mean)
    (tmp_path / "recalibration.json").unlink()
    for load in (GraphRegressor.load, load_run):
        with pytest.raises(
            FileNotFoundError, match=r"recalibration\.json: no such file; estimator\.json says"
        ):
            load(tmp_path)
    edit(tmp_path / "estimator.json", {"recalibrated": False})  # earlier versions say nothing
    np.testing.assert_array_equal(GraphRegressor.load(tmp_path).predict(GRAPHS), mean)
    several = np.stack([y, np.where(KIND == 0, np.nan, -y)], axis=1)
    both = clone(model).set_params(epochs=1).fit(GRAPHS, several)
    assert (both.predict(GRAPHS[:2]).shape, both.predict([]).shape) == ((2, 2), (0, 2))
    assert model.predict([]).shape == (0,)
    for one in (GRAPHS[0], Batch.from_data_list(GRAPHS)):
        with pytest.raises(TypeError, match=r"X must be .* a list or data set of PyG's Data \(of one graph"):
            model.predict(one)
    with pytest.raises(ValueError, match="expected a model for classification, got one for regression"):
        GraphClassifier.load(tmp_path)
    with pytest.raises(ValueError, match="model must be one of wl, stack, got 'gp'"):
        GraphRegressor("gp").fit(GRAPHS, y)


def test_cross_validation() -> None:
    scores = cross_val_score(
        GraphClassifier(**{**SMALL, "epochs": 1, "validation_fraction": 0}), GRAPHS, KIND, cv=2
    )
    assert ((scores >= 0) & (scores <= 1)).all()


def test_refused() -> None:
    with pytest.raises(ValueError, match="model must be one of wl, stack, got 'gp'"):
        GraphClassifier("gp").fit(GRAPHS, KIND > 0)
    with pytest.raises(TypeError, match="X must be PackedGraphs, as of load_molecules, load_tu or"):
        GraphClassifier(**SMALL).fit(["CCO"] * 30, NAMES)
    with pytest.raises(ValueError, match=r"y must be \[30\] or \[30, T\], got shape \[29\]"):
        GraphClassifier(**SMALL).fit(GRAPHS, NAMES[:29])
    for nothing in ([], PackedGraphs.from_pyg([])):
        with pytest.raises(ValueError, match="X has no graphs, expected some to learn from"):
            GraphRegressor(**SMALL).fit(nothing, [])


@pytest.mark.parametrize("drawn", ["permuted", "with replacement"])
def test_views_keep_their_targets(drawn: str) -> None:
    """Of as many graphs as the store: PyG's shuffle, or a bootstrap."""
    store, random = PackedGraphs.from_pyg(GRAPHS), np.random.default_rng(0)
    index = random.permutation(30) if drawn == "permuted" else random.integers(30, size=30)
    model = GraphClassifier(**{**SMALL, "epochs": 1, "batch_size": 32}, validation_fraction=0)
    expected = model.fit([GRAPHS[i] for i in index], NAMES[index]).predict_proba(GRAPHS)
    found = model.fit(store[index], NAMES[index]).predict_proba(GRAPHS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"this is a view of one: call compact\(\) before"):
        store[index].with_targets(KIND.astype(float))


def test_edges_are_read_as_those_of_the_training(tmp_path: Path) -> None:
    def orders(graph: Data, *values: float) -> Data:
        return Data(x=graph.x, edge_index=EDGES, edge_attr=torch.tensor(values))

    graphs = [orders(graph, *([1.0] * 4 if i % 2 else [1.5, 1.5, 2, 2])) for i, graph in enumerate(GRAPHS)]
    model = GraphRegressor(**SMALL | {"epochs": 1}).fit(graphs, KIND.astype(float))
    model.save(tmp_path)
    expected = model.predict(graphs)
    for one in (model, GraphRegressor.load(tmp_path)):
        np.testing.assert_allclose(one.predict(graphs[1:2]), expected[1:2], rtol=1e-5)  # single bonds alone
    with pytest.raises(ValueError, match=r"graph 0: edge_attr\[0\] is \[3.0\], expected one of the 3 rows"):
        model.predict([orders(GRAPHS[0], 3.0, 3.0, 1.0, 1.0)])
