from __future__ import annotations

import re

import numpy as np
import pytest

from wlkernelnn.report.page import number, page, table
from wlkernelnn.report.panels import MOST_POINTS, parity
from wlkernelnn.report.plots import Plot, span, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (-0.3, 0.3, ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"]),
        (1, 2.9, ["1", "1.5", "2", "2.5"]),
        (0, 12345, ["0", "2500", "5000", "7500", "1e+04"]),
    ],
)
def test_ticks(low: float, high: float, expected: list[str]) -> None:
    assert [text for _, text in ticks(low, high)] == expected


@pytest.mark.parametrize("value", [0.0, 3.5, -2e-9, 1e12])
def test_equal_values_have_an_axis(value: float) -> None:
    plot = Plot("", "", "", span([value, value]), span([value]))
    plot.points([value], [value])
    assert re.search(r"M[\d.]+ [\d.]+h0", plot.svg())


def test_points_stand_at_their_places() -> None:
    plot = Plot("title", "a<b", "y", (0, 10), (0, 10))
    plot.points([0, 10, np.nan], [0, 10, 1])
    plot.line([0, 5, 10], [0, np.nan, 10])
    assert 'class="points one" d="M52 248h0M348 26h0"' in plot.svg()
    assert 'd="M52 248M348 26"' in plot.svg()  # a gap where a value is missing
    assert "a&lt;b" in plot.svg()


def test_many_points_are_drawn_by_a_sample_that_is_told() -> None:
    values = np.linspace(0, 1, 100_000)
    svg = parity("y", values, values, "", "test", (0, 1))
    assert svg.count("h0") == MOST_POINTS
    assert "100,000 molecules; 2,000 of them drawn" in svg
    assert len(svg) < 100_000


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (float("nan"), "–"), (0.123456, "0.1235"), (12345.6, "12,346"), (0, "0")]
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_text_is_escaped() -> None:
    html = page("<a>", "b&c", [("<d>", table(["<e>"], [("<f>",), (1.5,)]))])
    for text in "adef":
        assert f"&lt;{text}&gt;" in html
    assert "b&amp;c" in html
    assert "1.5" in html
