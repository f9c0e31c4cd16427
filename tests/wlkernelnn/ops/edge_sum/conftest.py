"""The ways in which the fused sums are computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from wlkernelnn.ops.edge_sum import fused


@pytest.fixture(params=["one_thread", "two_threads", "composed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """By compiled loops on one thread or on two, or composed as where there is no numba."""
    if request.param == "composed":
        monkeypatch.setattr(fused, "kernels", lambda: None)
    else:
        pytest.importorskip("numba")
    if request.param == "two_threads":
        monkeypatch.setattr(fused, "GRAIN", 1)
        torch.set_num_threads(2)
    yield request.param
    torch.set_num_threads(1)
