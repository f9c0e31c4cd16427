from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.speed import any_network


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_network, "CHANNELS", 8)
    monkeypatch.setattr(any_network, "LAYERS", 2)
    monkeypatch.setattr(any_network, "sample", lambda name, molecules: regression_set()[: molecules // 3])
    monkeypatch.setattr(any_network, "peak", lambda name, by_colours, size: 10 if by_colours else 40)
    monkeypatch.chdir(tmp_path)
    any_network.main(["--quick"])
    rows = json.loads(Path("runs/quick/colour_speed.json").read_text())["rows"]
    whats = [row["what"] for row in rows]
    assert len(whats) == len(set(whats)) == 4 * 3 + 3 + 1
    assert all(f"{layer}, step, cep, best batches, 1 thread" in whats for layer in any_network._MAKE)
    assert rows[-1]["ratio"] == 4
    assert all(row["ours"] > 0 < row["theirs"] for row in rows)


def test_goals_are_of_whole_batches() -> None:
    assert any_network.GOALS["cep", 1024] == 2 * any_network.GOALS["hiv", 1024]
