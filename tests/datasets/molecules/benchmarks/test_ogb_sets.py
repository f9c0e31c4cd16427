from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.datasets import OGB_SETS, load_ogb
from wlkernelnn.training import score


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"name must be one of ogbg-molhiv, .*, pcqm4mv2, got 'ogbg-ppa'"):
        load_ogb("ogbg-ppa")


def test_sets_are_those_of_ogb() -> None:
    package = importlib.util.find_spec("ogb.graphproppred")
    assert package is not None
    assert package.origin is not None
    master = pd.read_csv(Path(package.origin).with_name("master.csv"), index_col=0, keep_default_na=False)
    metrics = {"rocauc": "roc_auc", "ap": "average_precision", "rmse": "rmse"}
    for name, spec in OGB_SETS.items():
        if name == "pcqm4mv2":
            continue
        published = master[name]
        assert spec.url == published["url"]
        assert spec.inside == published["download_name"]
        assert spec.num_tasks == int(published["num tasks"])
        assert spec.metric == metrics[published["eval metric"]]
        assert spec.task in published["task type"]
        assert published["split"] == "scaffold"


@pytest.mark.parametrize("name", ["ogbg-molpcba", "ogbg-moltox21", "ogbg-molhiv", "ogbg-molesol"])
def test_our_metric_is_the_evaluators(name: str) -> None:
    spec = OGB_SETS[name]
    rng = np.random.default_rng(0)
    shape = (60, spec.num_tasks)
    target = (
        rng.integers(0, 2, shape).astype(float) if spec.task == "classification" else rng.normal(size=shape)
    )
    target[rng.random(shape) < 0.3] = np.nan
    if spec.num_tasks > 1:
        target[:, 3] = 0.0  # a task with one class counts for nothing
    prediction = rng.random(shape)
    (theirs,) = (
        pytest.importorskip("ogb.graphproppred")
        .Evaluator(name)
        .eval({"y_true": target, "y_pred": prediction})
        .values()
    )
    assert score(spec.metric, target, prediction) == pytest.approx(theirs, abs=1e-12)
