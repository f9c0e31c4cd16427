"""Fixtures of packed stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    return random_packed(10)


@pytest.fixture(params=["in_memory", "mapped"])
def any_data(request: pytest.FixtureRequest, data: PackedGraphs, tmp_path: Path) -> PackedGraphs:
    if request.param == "in_memory":
        return data
    data.save(tmp_path / "data.safetensors")
    return PackedGraphs.load(tmp_path / "data.safetensors")
