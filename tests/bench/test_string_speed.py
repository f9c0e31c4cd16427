from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlkernelnn.bench import string_speed
from wlkernelnn.sequence.rkm import VARIANTS


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_speed, "SHAPES", ((5, 3),))
    monkeypatch.setattr(string_speed, "CHANNELS", 4)
    string_speed.main(["--quick", "--threads", "1", "--output-dir", str(tmp_path)])
    result = json.loads((tmp_path / "string_speed.json").read_text())
    assert result["mode"] == "quick"
    against = [row["against"] for row in result["rows"]]
    machines = ["LSTM"] * 2 * (8 + 10)  # in two precisions, with feedback and without
    layers = ["LSTM", "GRU"] * 8
    ragged = ["equal lengths", "padded LSTM"]
    assert against == ["every token", "addcmul loop", *layers, *machines, *ragged]
    named = {row["what"].split(",")[0]: row["goal"].split(":")[0] for row in result["rows"]}
    assert {f"RKM {variant}" for variant in VARIANTS} <= named.keys()
    assert named["RKM cnn"] == "≥ 1.5"
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in result["rows"])
