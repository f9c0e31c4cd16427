"""Fixtures of data sets."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data set lies anywhere, and the cache is empty."""
    monkeypatch.delenv("WLKERNELNN_DATA", raising=False)
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path / "cache"))
