from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines import accuracy_runs
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.bench.speed import time_to_accuracy
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


@pytest.mark.slow
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


def test_best_row_has_the_least_error_where_none_reaches_the_level() -> None:
    worse, better = (
        Curve("GINE", 8, 1e-3, 9, [], [(end, 1.0, error)], 1.0, [1.0]) for end, error in ((5, 2.0), (9, 1.5))
    )
    assert time_to_accuracy.best("GINE", 1.0, [worse, better]) is better


def test_a_bound_is_of_the_row_that_ended_first() -> None:
    """Where no row of the other reached the level, whichever has the least error."""
    slow, early = (
        Curve("chemprop", size, 1e-3, 9, [], [(end, 1.0, error)], 1.0, [1.0])
        for size, end, error in ((64, 40, 1.1), (128, 6, 2.0))
    )
    assert time_to_accuracy.ratio(ROWS[0], "chemprop", 0.95, [*ROWS[:2], slow, early]) == "> 3, goal 8: no"
    reached = Curve("chemprop", 256, 1e-3, 9, [], [(50, 1.0, 0.9)], 1.0, [1.0])
    rows = [*ROWS[:2], slow, early, reached]
    assert time_to_accuracy.ratio(ROWS[0], "chemprop", 0.95, rows) == "25, goal 8: yes"


def test_trainings_of_other_revisions_are_not_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "full" / "cep" / "gine"
    folder.mkdir(parents=True)
    (folder / "revision.txt").write_text("abc1234\n")
    options = time_to_accuracy.Options(run_dir=tmp_path, contestants=["gine"])
    task = time_to_accuracy.TASKS["cep"]
    with pytest.raises(ValueError, match="gine: holds a run of revision abc1234, and this is"):
        list(time_to_accuracy.curves(options, task, split(), {"mode": "full"}))


def test_a_part_of_the_contestants_does_not_replace_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said before anything is trained."""
    monkeypatch.setattr(time_to_accuracy, "curves", lambda *_: iter(ROWS))
    monkeypatch.setattr(time_to_accuracy, "load", lambda *_: split())
    path = tmp_path / "time_to_accuracy_cep.json"
    path.write_text(json.dumps({"mode": "full", "rows": [asdict(row) for row in ROWS[:3]]}))
    words = ["--output-dir", str(tmp_path), "--contestants"]
    message = (
        r"cep\.json: holds rows that this call does not make: GINE by nodes, 128: name another --output-dir"
    )
    with pytest.raises(ValueError, match=message):
        time_to_accuracy.main([*words, "wl"])
    time_to_accuracy.main([*words, "wl", "gine"])
    assert len(json.loads(path.read_text())["rows"]) == len(ROWS)
