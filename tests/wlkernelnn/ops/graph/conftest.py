"""The ways in which the fused sums are computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from wlkernelnn.ops.graph import fused


@pytest.fixture(params=["one_thread", "two_threads", "composed"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Sums there are computed by numba's loops on one thread or on two, or composed."""
    if request.param == "composed":
        monkeypatch.delitem(fused.LOOPS, "cpu")
    else:
        pytest.importorskip("numba")
    if request.param == "two_threads":
        monkeypatch.setattr(fused.numba_loops(), "GRAIN", 1)
        torch.set_num_threads(2)
    yield "cpu"
    torch.set_num_threads(1)
