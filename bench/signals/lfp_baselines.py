"""What signals tell of their classes without a network: how frequent these are, and powers of bands."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wlkernelnn.datasets import Signals, SubjectSplit

# Probabilities of the classes ``[test trials, classes]``, and how many parameters there are.
Baseline = tuple[np.ndarray, int]


def fit_majority(split: SubjectSplit, signals: Signals) -> Baseline:
    """The fractions of the classes among the training trials, whatever a trial is."""
    counts = np.bincount(signals.y[split.train], minlength=len(signals.classes))
    return np.tile(counts / counts.sum(), (len(split.test), 1)), 0


def fit_bands(split: SubjectSplit, signals: Signals) -> Baseline:
    """Logistic regression on the powers of frequency bands."""
    features, known = band_powers(signals.x), np.unique(signals.y[split.train])
    # A class that only the subject has who is left out is not expected.
    probabilities = np.zeros((len(split.test), len(signals.classes)))
    if len(known) == 1:  # nothing to tell apart
        probabilities[:, known] = 1
        return probabilities, 0
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000, class_weight="balanced"))
    pipeline.fit(features[split.train], signals.y[split.train])
    regression = pipeline[-1]
    probabilities[:, regression.classes_] = pipeline.predict_proba(features[split.test])
    return probabilities, regression.coef_.size + regression.intercept_.size


def band_powers(x: np.ndarray) -> np.ndarray:
    """Logarithms of the mean powers in the octaves of frequencies, ``[trials, channels × octaves]``.

    Args:
        x: ``[trials, channels, time]``. An octave is from 2^k to below 2^(k + 1) oscillations in that time.

    Raises:
        ValueError: There is no oscillation in one sample.
    """
    if x.shape[2] < 2:
        raise ValueError(f"frequency bands: expected trials of at least 2 samples, got {x.shape[2]}")
    powers = np.square(np.abs(np.fft.rfft(x.astype(np.float64), axis=2)))
    starts = 2 ** np.arange(int(np.log2(powers.shape[2] - 1)) + 1)
    octaves = [band.mean(2) for band in np.split(powers[:, :, 1:], starts[1:] - 1, axis=2)]
    floor = np.finfo(np.float64).tiny  # a channel may be silent
    return np.log(np.concatenate(octaves, 1) + floor)
