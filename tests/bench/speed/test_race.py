from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.speed import race as speed_race
from wlkernelnn.bench.speed.contestants import contestant, names
from wlkernelnn.bench.speed.tables import Table


def table(part: str = "step", mode: str = "full", **setting: Any) -> Table:
    rates = {
        ("plain PyG", 20): [300.0, 310.0],
        ("plain PyG", 128): [500.0, 500.0],
        ("GINE×4", 20): [2000.0, 2000.0],
        ("chemprop", 20): [1000.0, 1000.0],
        ("chemprop", 64): [700.0, 700.0],
        ("colours, fused", 20): [4000.0, 4000.0],
        ("colours, fused", 128): [7000.0, 8000.0],
    }
    records = [{"contestant": name, "size": size, "rates": own} for (name, size), own in rates.items()]
    whole = {"dataset": "cep", "readout": "sum", "precision": "highest", "threads": 2} | setting
    return Table(part, whole, records, {"mode": mode})


def test_best_against_best_round_by_round() -> None:
    header, *rows = speed_race.table_cells(table())
    assert header == (
        "molecules/s",
        *("20", "64", "128"),
        *("× plain PyG", "× GINE×4", "× chemprop", "× chemprop, 64"),
    )
    assert rows[0][:4] == ("plain PyG", "305 ±2 %", "–", "500 ±0 %")
    assert rows[-1] == (
        "colours, fused",
        *("4,000 ±0 %", "–", "7,500 ±7 %"),
        *("15 ±7 %, goal 14: yes", "3.75 ±7 %, goal 2.5: yes", "7.5 ±7 %", "10.7 ±7 %"),
    )


def test_goals_hold_for_their_setting() -> None:
    goal = ("chemprop", 64)
    assert speed_race._goals(table("epoch"), "colours, fused") == {goal: 9.0}
    assert speed_race._goals(table("epoch", dataset="hiv"), "colours, fused") == {goal: 4.5}
    assert speed_race._goals(table("epoch", rounds=3), "colours, fused") == {goal: 9.0}
    for other in ({"threads": 1}, {"precision": "medium"}, {"readout": "last"}, {"molecules": 1000}):
        assert speed_race._goals(table("epoch", **other), "colours, fused") == {}
    assert speed_race._goals(table("epoch", "quick"), "colours, fused") == {}


@pytest.mark.parametrize("kind", speed_race.KINDS)
def test_everybody_takes_part(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def race(calls: Any, molecules: list[int], **_: Any) -> np.ndarray:
        for call in calls:
            call()
        counted.extend(molecules)
        return np.ones((len(molecules), 1))

    monkeypatch.setattr(speed_race, "race", race)
    monkeypatch.setattr(contestant, "__kwdefaults__", {"channels": 8, "iterations": 4})
    records = speed_race.race_of(kind, regression_set()[:50], "last", (16, 64), rounds=1, min_seconds=0.0)
    assert {record["contestant"] for record in records} == set(names())
    by_size = {(record["size"], count) for record, count in zip(records, counted, strict=True)}
    # Whole batches, but never more molecules than there are.
    assert by_size == {(16, 48 if kind == "step" else 50), (64, 50)}


def test_batch_sizes_are_measured_once() -> None:
    for kind in speed_race.KINDS.values():
        assert sorted(set(kind.sizes)) == list(kind.sizes)
