from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench.speed import strings as string_speed


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_speed, "SHAPES", ((5, 3),))
    monkeypatch.setattr(string_speed, "CHANNELS", 4)
    monkeypatch.setattr(string_speed, "GROUPED", 4)
    monkeypatch.chdir(tmp_path)
    string_speed.main(["--quick", "--threads", "1"])
    result = json.loads(Path("runs/quick/string_speed.json").read_text())
    assert not Path("bench").exists()
    assert result["mode"] == "quick"
    against = [row["against"] for row in result["rows"]]
    layers = ["LSTM", "GRU"] * 8
    ragged = ["equal lengths", "padded LSTM"]
    assert against == ["every token", "addcmul loop", *layers, *ragged, "shuffled", "shuffled"]
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in result["rows"])


def test_steps_of_a_language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call trains and goes on with the state; it does the same without Triton."""
    monkeypatch.setattr(string_speed, "VOCABULARY", 7)
    monkeypatch.setattr(string_speed, "WIDTH", 4)
    models = []
    made = string_speed.LanguageModel
    monkeypatch.setattr(
        string_speed, "LanguageModel", lambda *options: models.append(made(*options)) or models[-1]
    )
    for wrap in (lambda call: call, string_speed.loops_in_python()):
        torch.manual_seed(0)
        call = string_speed.language_steps(5, 3, False)
        before = [value.clone() for value in models[-1].parameters()]
        torch.manual_seed(0)
        for _ in range(2):
            wrap(call)()
        assert all(map(torch.any, (a != b for a, b in zip(before, models[-1].parameters(), strict=True))))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other)
