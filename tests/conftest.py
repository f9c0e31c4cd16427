"""Fixtures of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder with the published data sets; tests that need it are skipped where there is none."""
    candidates = [os.environ.get("WLKERNELNN_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for candidate in candidates:
        if candidate and Path(candidate, "moleculenet").is_dir():
            return Path(candidate)
    pytest.skip("set WLKERNELNN_DATA to a folder with the published data sets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of a test go to a folder of the session, never to the user's."""
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random inputs of a test are the same in every run."""
    torch.manual_seed(0)
