"""The scan along strings, in each of its ways, is the sum that it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checks.pairwise import pairwise
from wlkernelnn.kernels.strings.sides import string_sides
from wlkernelnn.kernels.strings.subsequences import Paired, Pairs, PrefixSums, scan


@pairwise(shape=[([6, 6], 3), ([6, 6], 40), ([4, 0, 7, 1, 4], 3), ([0], 2)], decay=[0.6, 1.0])
def test_scan(shape: tuple[list[int], int], decay: float) -> None:
    lengths, width = shape
    rng = np.random.default_rng(0)
    part = string_sides([np.arange(length) for length in lengths], None)[0].part(0, len(lengths))
    values = rng.normal(size=(len(part.tokens), width))
    out = scan(values, part, decay, np.full_like(values, np.nan))
    for string in range(len(part)):
        own = values[part.string == string]
        for s, found in enumerate(out[part.string == string]):
            expected = sum((decay ** (s - 1 - i) * own[i] for i in range(s)), np.zeros(width))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decay", [0.6, 1.0])
def test_prefix_sums(decay: float) -> None:
    rng = np.random.default_rng(0)
    part = string_sides([np.arange(5)], None)[0].part(0, 1)
    # The second half of the columns belongs to strings that have ended.
    rows = [rng.normal(size=(5, width)) for width in (4, 4, 2, 2)]
    slopes = [rng.normal(size=row.shape) for row in rows]
    sums = PrefixSums(part, 4, decay, gradient=True)
    for t, row in enumerate(rows):
        width = row.shape[1]
        before, before_slope = sums.before(width)
        expected, expected_slope = np.zeros((2, 5, width))
        for i in range(t):
            for s in range(5):
                for k in range(s):
                    gap = (t - 1 - i) + (s - 1 - k)
                    weight = decay**gap
                    expected[s] += weight * rows[i][k, :width]
                    expected_slope[s] += weight * (slopes[i][k, :width] + gap * rows[i][k, :width])
        np.testing.assert_allclose(before, expected, atol=1e-12)
        np.testing.assert_allclose(before_slope, expected_slope, atol=1e-12)
        sums.add(row, slopes[t])
        last, last_slope = sums.last(width)
        expected, expected_slope = np.zeros((2, 5, width))
        for i in range(t + 1):
            for s in range(5):
                for k in range(s + 1):
                    gap = (t - i) + (s - k)
                    weight = decay**gap
                    expected[s] += weight * rows[i][k, :width]
                    expected_slope[s] += weight * (slopes[i][k, :width] + gap * rows[i][k, :width])
        np.testing.assert_allclose(last, expected, atol=1e-12)
        np.testing.assert_allclose(last_slope, expected_slope, atol=1e-12)


@pytest.mark.parametrize("width", [None, 3])
def test_paired_is_the_diagonal_of_crossed(width: int | None) -> None:
    rng = np.random.default_rng(0)
    lengths = [2, 0, 4, 4]
    sizes = lengths if width is None else [(length, width) for length in lengths]
    draw = rng.normal if width else lambda size: rng.integers(3, size=size)
    part = string_sides([draw(size=size) for size in sizes], None)[0].part(0, len(lengths))
    crossed, paired = Pairs(part, part), Paired(part)
    values = rng.normal(size=len(part.tokens))
    for t, count in enumerate(part.counts):
        there = np.flatnonzero(part.string < count)
        similarity, spread = paired.similarity(t)[:, 0], paired.spread(values, t)[:, 0]
        np.testing.assert_allclose(similarity[there], crossed.similarity(t)[there, part.string[there]])
        np.testing.assert_array_equal(spread[there], crossed.spread(values, t)[0, part.string[there]])
        row = np.ones((len(part.tokens), 1))
        for gone in (similarity, spread, paired.inside(row, t)[:, 0]):
            assert not np.delete(gone, there).any()
        assert paired.inside(row, t)[there].all()
        assert crossed.inside(row, t) is row
