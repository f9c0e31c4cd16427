from __future__ import annotations

import math

import pytest

from wlkernelnn.cli.scores import score_text


@pytest.mark.parametrize(
    ("score", "text"),
    [(0.55296, "0.5530"), (12.0, "12.0000"), (0.0, "0.0000"), (2.34567e-6, "2.346e-06"), (-4e-4, "-0.0004")],
)
def test_digits(score: float, text: str) -> None:
    assert score_text(score) == text


def test_none() -> None:
    assert score_text(math.nan) == "nan"
