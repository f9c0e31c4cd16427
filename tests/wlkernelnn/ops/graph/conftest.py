"""The ways in which the fused sums are computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.ways import WAYS
from wlkernelnn.ops.graph import fused


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Sums there are computed by numba's loops on one thread or on two, composed, or by Triton's loops."""
    where = "cpu"
    if request.param == "composed":
        monkeypatch.delitem(fused.LOOPS, "cpu")
    elif request.param == "triton":
        where = request.getfixturevalue("triton_device")
        assert fused.triton_loops() is not None
        monkeypatch.setitem(fused.LOOPS, where, fused.triton_loops)
        monkeypatch.setattr(fused, "ENOUGH", 0)
    else:
        pytest.importorskip("numba")
    if request.param == "two_threads":
        monkeypatch.setattr(fused.numba_loops(), "GRAIN", 1)
        torch.set_num_threads(2)
    yield where
    torch.set_num_threads(1)
