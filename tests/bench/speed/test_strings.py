from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlkernelnn.bench.speed import strings as string_speed


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_speed, "SHAPES", ((5, 3),))
    monkeypatch.setattr(string_speed, "CHANNELS", 4)
    monkeypatch.chdir(tmp_path)
    string_speed.main(["--quick", "--threads", "1"])
    result = json.loads(Path("runs/quick/string_speed.json").read_text())
    assert not Path("bench").exists()
    assert result["mode"] == "quick"
    against = [row["against"] for row in result["rows"]]
    layers = ["LSTM", "GRU"] * 8
    ragged = ["equal lengths", "padded LSTM"]
    assert against == ["every token", "addcmul loop", *layers, *ragged]
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in result["rows"])
