from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlkernelnn.bench.speed import rkm as rkm_speed
from wlkernelnn.sequence.layers.rkm import VARIANTS


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rkm_speed, "SHAPES", ((5, 3),))
    monkeypatch.setattr(rkm_speed, "CHANNELS", 4)
    monkeypatch.setattr(rkm_speed, "SIGNALS", (2, 9, 3, 4, 5))
    monkeypatch.chdir(tmp_path)
    rkm_speed.main(["--quick", "--threads", "1"])
    result = json.loads(Path("runs/quick/rkm_speed.json").read_text())
    assert not Path("bench").exists()
    assert result["mode"] == "quick"
    rows = [row for row in result["rows"] if row["against"] == "LSTM"]
    goals = {row["what"].removesuffix(", T = 5, B = 3"): row["goal"].split(":")[0] for row in rows}
    extra = ("rkm_lstm, layer norm", "lstm, n = 3", "rkm_lstm, n = 3")
    with_feedback = {*VARIANTS, *extra} - {"cnn", "gated_cnn"}
    at_once = {f"{name}, at once" for name in (*VARIANTS, *extra, "gated_cnn, n = 3")}
    assert goals == dict.fromkeys(with_feedback, "≥ 0.8") | dict.fromkeys(at_once, "≥ 1.5")
    assert [row["what"] for row in result["rows"] if row["against"] == "free filters"] == [
        f"{variant}, Sync filters, n = 5" for variant in rkm_speed.SIGNAL_VARIANTS
    ]
    assert all(row["ours"] > 0 < row["theirs"] for row in result["rows"])
