"""Which of the ways to compute a sum a test goes; see the fixture ``device`` of the sums over edges."""

from __future__ import annotations

import pytest

WAYS = ("one_thread", "two_threads", "composed", "triton")

# For exhaustive tests: the interpreter of Triton's kernels takes a hundred times as long.
NOT_IN_TRITON = pytest.mark.parametrize("device", [way for way in WAYS if way != "triton"], indirect=True)
IN_TRITON = pytest.mark.parametrize("device", ["triton"], indirect=True)
