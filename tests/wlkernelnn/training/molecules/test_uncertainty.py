from __future__ import annotations

import numpy as np
from scipy.stats import norm, spearmanr

from wlkernelnn.training import calibration, error_by_deviation, uncertainty


def test_calibration() -> None:
    random = np.random.default_rng(0)
    mean, std = random.normal(size=(2000, 2)), random.uniform(0.5, 2, size=(2000, 2))
    target = mean + std * random.normal(size=(2000, 2))
    target[::3, 1] = np.nan
    found = calibration(target, mean, std)
    for percent in (50, 80, 90, 95):
        np.testing.assert_allclose(found[f"coverage_{percent}"], percent / 100, atol=0.04)
    known = ~np.isnan(target[:, 1])
    loss = -norm.logpdf(target[known, 1], mean[known, 1], std[known, 1]).mean()
    np.testing.assert_allclose(found["nll"][1], loss)
    rank = spearmanr(np.abs(target - mean)[known, 1], std[known, 1]).statistic
    np.testing.assert_allclose(found["error_spearman"][1], rank)
    assert rank > 0.2
    assert np.isnan(calibration(target, mean, np.ones_like(std))["error_spearman"]).all()
    # Deviations that are missing do not count.
    std[5:] = np.nan
    within = np.abs(target - mean)[:5, 0] <= norm.ppf(0.75) * std[:5, 0]
    assert calibration(target, mean, std)["coverage_50"][0] == within.mean()
    assert np.isnan(calibration(np.full((3, 1), np.nan), mean[:3, :1], std[:3, :1])["coverage_50"]).all()
    assert calibration(mean, mean, 0 * std)["coverage_50"].tolist() == [1, 1]


def test_error_by_deviation() -> None:
    std = np.array([3.0, 1.0, 2.0, 1.0, 5.0, 4.0])
    error = np.array([3.0, 1.0, 0.0, 2.0, 5.0, np.nan])
    found = error_by_deviation(error, np.zeros(6), std, num_bins=2)
    assert found["count"] == [3, 2]
    np.testing.assert_allclose(found["deviation"], np.sqrt([(1 + 1 + 4) / 3, (9 + 25) / 2]))
    np.testing.assert_allclose(found["rmse"], np.sqrt([(1 + 4 + 0) / 3, (9 + 25) / 2]))
    assert error_by_deviation(error, np.zeros(6), np.ones(6))["count"] == [5]
    nothing = error_by_deviation(np.full(6, np.nan), np.zeros(6), std)
    assert nothing == {"deviation": [], "rmse": [], "count": []}


def test_report() -> None:
    random = np.random.default_rng(0)
    std = random.uniform(0.5, 2, size=(30, 2))
    target = std * random.normal(size=(30, 2))
    target[:, 1] = np.nan
    report = uncertainty(["a", "b"], target, np.zeros((30, 2)), std)
    each = calibration(target, np.zeros((30, 2)), std)
    assert report["mean"]["coverage_90"] == report["targets"]["a"]["coverage_90"] == each["coverage_90"][0]
    assert np.isnan(report["targets"]["b"]["nll"])
    assert report["targets"]["a"]["by_deviation"]["count"] == [6] * 5
