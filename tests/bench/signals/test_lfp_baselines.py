from __future__ import annotations

import numpy as np
import pytest

from wlkernelnn.bench.signals.lfp_baselines import band_powers, fit_bands
from wlkernelnn.datasets import Signals


def test_bands_are_balanced_and_know_all_classes() -> None:
    """Three trials of one class count as much as 30 of the other; a class unseen in training has 0."""
    x = np.ones((36, 1, 8), dtype=np.float32)  # which says nothing
    y = np.array([0] * 30 + [1] * 3 + [2] * 3)
    signals = Signals(x, y, np.array(["a"] * 33 + ["b"] * 3), ("0", "1", "2"))
    _, split = signals.leave_one_subject_out()
    found, _ = fit_bands(split, signals)
    np.testing.assert_allclose(found, [[0.5, 0.5, 0]] * 3, atol=1e-3)


@pytest.mark.parametrize("length", [16, 40, 41])
def test_band_powers(length: int) -> None:
    """Seven oscillations lie in the octave from 4 to 8; no frequency is in two octaves or in none."""
    octaves = int(np.log2(length // 2)) + 1
    wave = np.sin(2 * np.pi * 7 * np.arange(length) / length)
    powers = band_powers(np.stack([wave, np.zeros(length)])[None])
    assert powers.shape == (1, 2 * octaves)
    assert np.isfinite(powers).all()
    assert powers[0, ::2].argmax() == 2
    noise = np.random.default_rng(0).normal(size=(1, 1, length))
    total = np.square(np.abs(np.fft.rfft(noise)[0, 0, 1:])).sum()
    widths = [min(2 ** (k + 1), length // 2 + 1) - 2**k for k in range(octaves)]
    assert np.exp(band_powers(noise)[0]) @ widths == pytest.approx(total)


def test_one_class_is_nothing_to_tell_apart() -> None:
    x = np.random.default_rng(0).normal(size=(6, 1, 8)).astype(np.float32)
    signals = Signals(x, np.array([0, 0, 0, 1, 1, 1]), np.array(["a"] * 3 + ["b"] * 3), ("0", "1"))
    split, _ = signals.leave_one_subject_out()
    assert fit_bands(split, signals)[0].tolist() == [[0, 1]] * 3


def test_one_sample_has_no_bands() -> None:
    with pytest.raises(ValueError, match="expected trials of at least 2 samples, got 1"):
        band_powers(np.ones((3, 2, 1)))
