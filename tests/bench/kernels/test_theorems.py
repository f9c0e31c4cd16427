"""That every theorem is checked and written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlkernelnn.bench.kernels import theorems


@pytest.mark.slow
def test_the_quick_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(theorems, "K", 3)  # channels, each with a kernel of its own
    theorems.main(["--quick", "--graphs", "4"])
    folder = Path("runs/quick")
    record = json.loads((folder / "theorems.json").read_text())
    assert not Path("bench").exists()
    assert record["mode"] == "quick"
    assert len(record["checks"]) == 39
    table = (folder / "theorems.md").read_text()
    for check in record["checks"]:
        assert f"| {check['theorem']} | `{check['line']}` |" in table
        sign, _, limit = check["allowed"].partition(" ")
        if sign == "≤":
            assert check["number"] <= float(limit) + 1e-12
        elif sign == ">":
            assert check["number"] > float(limit)
