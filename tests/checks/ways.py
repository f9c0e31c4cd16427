"""Which of the ways to compute a recurrence a test goes; see the fixture ``device`` of the recurrences."""

from __future__ import annotations

import pytest

IN_TRITON = pytest.mark.parametrize("device", ["triton"], indirect=True)
