from __future__ import annotations

import pytest

from wlkernelnn.bench.harness import timing


@pytest.fixture(autouse=True)
def one_call_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of a race is one call: rates are not looked at here."""
    monkeypatch.setattr(timing, "_calls", lambda call, min_seconds: 1)
