"""The ways in which the n-gram recurrence is computed."""

from __future__ import annotations

import pytest

from wlkernelnn.ops.string import ngram


@pytest.fixture(params=["sweeps", "triton"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Scans there are computed by stock operations, or by Triton's kernels."""
    if request.param == "sweeps":
        return "cpu"
    where = request.getfixturevalue("triton_device")
    assert ngram.triton_scan() is not None
    monkeypatch.setitem(ngram.SCANS, where, ngram.triton_scan)
    return where
