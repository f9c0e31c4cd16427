"""What Gaussian processes are given: tables of numbers with missing values, graphs that are not finite."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.gaussian_process.kernels import RBF
from torch_geometric.data import Data

from wlkernelnn.kernels import RandomWalkKernel
from wlkernelnn.machines import GaussianProcess, GaussianProcessClassifier

X = np.random.RandomState(0).randn(20, 2)
Y = X.sum(axis=1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_named(value: float) -> None:
    bad = X.copy()
    bad[3, 1] = value
    classes = np.where(Y > 0, "toxic", "safe")
    for machine, y in ((GaussianProcess(RBF()), Y), (GaussianProcessClassifier(RBF()), classes)):
        with pytest.raises(ValueError, match="X: row 3 holds values that are missing or not finite"):
            machine.fit(bad, y)
        machine.fit(X, y)
        with pytest.raises(ValueError, match="X: row 1 holds values that are missing or not finite"):
            machine.predict(bad[2:5])
    assert len(machine.predict(X[:0])) == 0


@pytest.mark.parametrize("dtype", ["Float64", "double[pyarrow]", "float64"])
def test_tables_of_any_dtype_of_numbers(dtype: str) -> None:
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    table = pd.DataFrame(X, columns=["a", "b"]).astype(dtype)
    machine = GaussianProcess(RBF()).fit(table, Y)
    assert np.array_equal(machine.predict(table), GaussianProcess(RBF()).fit(X, Y).predict(X))
    assert [*machine.feature_names_in_] == ["a", "b"]
    if dtype == "Float64":
        table.loc[4, "a"] = pd.NA
        with pytest.raises(ValueError, match="X: row 4 holds"):
            machine.predict(table)


@pytest.mark.parametrize("bad", [2, 6, 11])
def test_a_graph_that_is_not_finite_is_named_by_its_place(bad: int) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.ones(2, 1), edge_index=edge_index) for _ in range(12)]
    graphs[bad].x[0] = torch.nan
    with pytest.raises(ValueError, match=f"graph {bad}: x holds values that are not finite"):
        GaussianProcess(RandomWalkKernel(2)).fit(graphs, np.arange(12.0))
