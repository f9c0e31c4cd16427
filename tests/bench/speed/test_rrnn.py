from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench.speed import rrnn as rrnn_speed
from wlkernelnn.sequence import RRNN


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHANNELS": 3, "STRINGS": 2, "HIDDEN": 4, "ROUNDS": (1, 2)}.items():
        monkeypatch.setattr(rrnn_speed, name, value)


def test_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rrnn_speed.main(["--quick", "--threads", "1"])
    result = json.loads(Path("runs/quick/rrnn_speed.json").read_text())
    assert not Path("bench").exists()
    assert result["mode"] == "quick"
    assert [(row["what"], row["against"], row["goal"][:4]) for row in result["rows"]] == [
        ("RRNN, N̄ = 1, softmax", "loop", "≥ 30"),
        ("RRNN, N̄ = 1, softmax", "loop, all strings at once", ""),
        ("RRNN, N̄ = 1, hard", "loop", "≥ 30"),
        ("RRNN, N̄ = 1, hard", "loop, all strings at once", ""),
        ("RRNNGRU", "GRU", ""),
    ]
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in result["rows"])


@pytest.mark.parametrize(
    ("loop", "choice"),
    [(rrnn_speed.Looped, "softmax"), (rrnn_speed.Looped, "hard"), (rrnn_speed.LoopedByString, "softmax")],
)
def test_the_loops_do_the_same_work(loop: type[rrnn_speed.Looped], choice: str) -> None:
    ours, theirs = (model(3, 3, 2, 3, choice=choice, norm=None) for model in (RRNN, loop))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 2, 3)
    for model in (ours, theirs):
        rrnn_speed._training_step(model, x)()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
