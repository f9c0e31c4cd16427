"""That ridge regression is exact, and chosen by the validation part alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.molecules import some_measured
from wlkernelnn.bench import wl_ridge as bench
from wlkernelnn.datasets import random_split
from wlkernelnn.kernels.wl_subtree import WLSubtreeKernel


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
        penalty = tried["penalty"] * np.diagonal(gram).mean()
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
