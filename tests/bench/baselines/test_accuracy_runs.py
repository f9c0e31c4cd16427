from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines import accuracy_runs
from wlkernelnn.bench.baselines.accuracy_runs import BY_NODES, CONTESTANTS, Training
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.datasets import random_split
from wlkernelnn.models import GraphKernelNetwork


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(accuracy_runs, "width_for", lambda make, parameters: 8)
    monkeypatch.setattr(accuracy_runs, "DROPOUT", 0.0)
    with torch_settings(1):
        yield


def split() -> Split:
    data = regression_set()
    return Split(data, "random", random_split(len(data), seed=0))


def test_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    parts, made = split(), []
    for stops in (False, True):
        path = tmp_path / f"{stops}.pt"
        for until in (3, 5) if stops else (5,):
            training = Training(CONTESTANTS["gine"], parts, "rmse", 4, 1e-2, path)
            training.advance(lambda one, until=until: len(one.checks) >= until, 9)
        made.append(training)
    whole, resumed = made
    assert [check[0] for check in resumed.checks] == [check[0] for check in whole.checks]
    assert [check[2] for check in resumed.checks] == pytest.approx([check[2] for check in whole.checks])
    for one, other in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert resumed.seconds > 0
    assert resumed.reached(whole.checks[-1][2]) is not None
    assert resumed.reached(0.0) is None


def test_gine_by_nodes_takes_the_same_steps() -> None:
    by_colours, by_nodes = (
        Training(who, split(), "rmse", 8, 1e-3) for who in (CONTESTANTS["gine"], BY_NODES)
    )
    assert by_colours.net.quotient_depth
    assert by_nodes.net.quotient_depth is None
    for training in (by_colours, by_nodes):
        training.train(40)
    assert by_colours.error("valid") == pytest.approx(by_nodes.error("valid"), rel=1e-3)


def test_errors_are_of_the_mean_of_the_weights() -> None:
    training = Training(CONTESTANTS["wl"], split(), "rmse", 8, 1e-2)
    training.train(8)
    first = [value.clone() for value in training.net.parameters()]
    training.train(8)
    # 9 of 11 parts of the second step, 2 of the first.
    for mean, before, now in zip(
        training.mean.module.parameters(), first, training.net.parameters(), strict=True
    ):
        torch.testing.assert_close(mean, before.lerp(now, 9 / 11))


def test_speeds_are_of_training() -> None:
    trainings = [Training(CONTESTANTS["wl"], split(), "rmse", size, 1e-3) for size in (2, 16)]
    slow, fast = accuracy_runs.speeds(trainings, 2, 0.05)
    assert len(slow) == len(fast) == 2
    assert 0 < max(slow) < min(fast)


def test_a_training_on_other_molecules_is_not_gone_on_with(tmp_path: Path) -> None:
    path, parts = tmp_path / "8_0.001.pt", split()
    who = replace(CONTESTANTS["wl"], make=partial(GraphKernelNetwork.from_data, hidden_channels=4))
    training = Training(who, parts, "rmse", 8, 1e-3, path)
    training.checks.append((8, 1.0, 0.5))
    training._save()
    assert Training(who, parts, "rmse", 8, 1e-3, path).molecules == 8
    fewer = regression_set(50)
    for other, what in (
        (Split(fewer, "random", random_split(50, seed=0)), "content"),
        (Split(parts.data, "random", random_split(len(parts.data), seed=1)), "split_sha256"),
    ):
        with pytest.raises(ValueError, match=rf"8_0\.001\.pt: holds a training whose {what} is .* --run-dir"):
            Training(who, other, "rmse", 8, 1e-3, path)


def test_all_try_several_batch_sizes_and_rates() -> None:
    for who in CONTESTANTS.values():
        assert len(who.rates) > 1
        assert all(len(rates) > 1 for rates in who.rates.values())
