from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.inputs.molecules import quick, regression_set
from wlkernelnn.bench.baselines.chemprop import ChempropLoader, ChempropNetwork, fit_chemprop, molecules
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.datasets import random_split
from wlkernelnn.training import score

pytest.importorskip("chemprop")


@pytest.fixture(scope="module")
def split() -> Split:
    data = regression_set()
    return Split(data, "random", random_split(len(data)))


def test_learns_and_goes_on(split: Split, tmp_path: Path) -> None:
    options = quick(epochs=25, lr=3e-3, schedule="constant")
    whole = fit_chemprop(split, options, 20_000, tmp_path / "whole")
    assert abs(whole.parameters / 20_000 - 1) < 0.03
    assert whole.epochs == len(whole.more["history"]) == 25
    first, last = whole.more["history"][0]["train_loss"], whole.more["history"][-1]["train_loss"]
    assert last < 0.8 * first
    for part, prediction in whole.predictions.items():
        assert prediction.shape == (len(split.index[part]), 1)
    best = min(epoch["valid_rmse"] for epoch in whole.more["history"])
    rmse = score("rmse", split["valid"].y.numpy(), whole.predictions["valid"])
    assert rmse == pytest.approx(best, rel=1e-4)

    fit_chemprop(split, replace(options, epochs=10), 20_000, tmp_path / "parts")
    resumed = fit_chemprop(split, options, 20_000, tmp_path / "parts")
    np.testing.assert_allclose(resumed.predictions["test"], whole.predictions["test"], rtol=1e-4)


def test_draws_evenly_over_buckets(split: Split, tmp_path: Path) -> None:
    options = quick(epochs=1, bucket_width=0.5)
    drawn, plain = (
        fit_chemprop(split, replace(options, bucket_width=width), 2_000, tmp_path / str(width))
        for width in (0.5, 0.0)
    )
    assert drawn.more["history"] != plain.more["history"]


def test_loader_and_scaling(split: Split) -> None:
    data = split["test"]
    net = ChempropNetwork(8, data.y)
    batches = list(ChempropLoader(molecules(data), 4, False, False, 0, None))
    torch.testing.assert_close(torch.cat([batch.y for batch in batches]), data.y)
    torch.testing.assert_close(net.target_mean, data.y.mean(0))
    out = net(batches[0])
    torch.testing.assert_close(
        out, net.mpnn(batches[0].graphs) * data.y.std(0, correction=0) + data.y.mean(0)
    )
    assert count_parameters(net) > 0
