from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from tests.molecules import regression_set
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.bench.speed import accuracy_runs, time_to_accuracy
from wlkernelnn.bench.speed.accuracy_runs import BY_NODES, CONTESTANTS, Training
from wlkernelnn.bench.speed.time_to_accuracy import Curve
from wlkernelnn.datasets import random_split

ROWS = [
    Curve(
        "WL kernel network", 128, 1e-3, 9, [], [(100, 1.0, 2.0), (200, 2.0, 0.9)], 0.8, [90.0, 100.0, 300.0]
    ),
    Curve("WL kernel network", 1024, 1e-3, 9, [], [(100, 1.0, 2.0), (300, 2.0, 0.9)], 0.8, [100.0]),
    Curve("GINE by nodes", 128, 1e-3, 9, [], [(100, 1.0, 1.0), (200, 2.0, 0.9)], 0.8, [25.0]),
    Curve("chemprop", 64, 1e-3, 9, [], [(100, 1.0, 2.0), (140, 2.0, 1.0)], 0.8, [10.0]),
]
FOUND = {
    "metric": "rmse",
    "levels": [1.0, 0.95],
    "molecules": 50,
    "rows": [asdict(row) for row in ROWS],
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(accuracy_runs, "PARAMETERS", 2_000)
    monkeypatch.setattr(accuracy_runs, "DROPOUT", 0.0)
    with torch_settings(1):
        yield


def split() -> Split:
    data = regression_set()
    return Split(data, "random", random_split(len(data), seed=0))


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_to_accuracy, "load", lambda options, task: split())
    monkeypatch.chdir(tmp_path)
    time_to_accuracy.main(["--quick", "--contestants", "gine"])
    stem = Path("runs/quick/time_to_accuracy_cep")
    found = json.loads(stem.with_suffix(".json").read_text())
    assert [row["title"] for row in found["rows"]] == 2 * ["GINE by colours", "GINE by nodes"]
    colours, nodes, *_ = found["rows"]
    assert colours["checks"] == nodes["checks"]
    assert colours["rates"] != nodes["rates"]
    assert [lr for lr, *_ in colours["tried"]] == list(accuracy_runs.RATES[128])
    assert colours["lr"] == min(colours["tried"], key=lambda tried: tried[2])[0]
    assert stem.with_suffix(".png").stat().st_size > 1000
    assert "GINE by nodes" in stem.with_suffix(".md").read_text()


def test_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    parts, made = split(), []
    for stops in (False, True):
        path = tmp_path / f"{stops}.pt"
        for until in (3, 7) if stops else (7,):
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


def test_table_has_seconds_and_how_many_times_faster() -> None:
    header, *rows = time_to_accuracy.shown(FOUND)
    assert header[4:9] == [
        "epochs to RMSE 0.95",
        "seconds to 1.0",
        "× GINE by nodes",
        "× chemprop",
        "seconds to 0.95",
    ]
    wl, large, nodes, theirs = rows
    assert wl[4:8] == ["4.0", "2", "2, goal 4: no", "7, goal 8: no"]
    assert wl[8:11] == ["2", "4, goal 4: yes", "> 7, goal 8: no"]
    assert large[5:8] == ["3", "1.3", "4.7"]
    assert nodes[5:8] == ["4", "1", "3.5"]
    assert theirs[4:] == ["–", "14", "0.29", "1", "> 14", "–", "–", "0.800"]


def test_best_row_reaches_a_level_first() -> None:
    assert time_to_accuracy.best("WL kernel network", 1.0, ROWS) is ROWS[0]
    assert time_to_accuracy.best("GINE", 1.0, ROWS) is None
