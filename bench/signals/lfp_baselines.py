"""What signals tell of their classes without a network: how frequent these are, and powers of bands."""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.datasets import Signals, SubjectSplit


def scores_of(probabilities: np.ndarray, y: np.ndarray) -> Record:
    """Of trials: which class is most probable, how often it is theirs, and how probable all are."""
    right = probabilities.argmax(1) == y
    return {"test_accuracy": float(right.mean()), "probabilities": probabilities.tolist()}


def fit_majority(split: SubjectSplit, signals: Signals) -> Record:
    """The fractions of the classes among the training trials, whatever a trial is."""
    counts = np.bincount(signals.y[split.train], minlength=len(signals.classes))
    same = np.tile(counts / counts.sum(), (len(split.test), 1))
    return _untrained(0, scores_of(same, signals.y[split.test]), 0.0)


def _untrained(parameters: int, scores: Record, seconds: float) -> Record:
    """What the record of a model without epochs says."""
    return {
        "parameters": parameters,
        "recipe": {"epochs": 0},
        "epochs": 0,
        "stopped": True,
        **scores,
        "seconds": seconds,
    }


def fit_bands(split: SubjectSplit, signals: Signals) -> Record:
    """Logistic regression on the powers of frequency bands."""
    features, start = band_powers(signals.x), time.perf_counter()
    known = np.unique(signals.y[split.train])
    if len(known) == 1:  # nothing to tell apart
        probabilities = np.eye(len(signals.classes))[np.repeat(known, len(split.test))]
        scores = scores_of(probabilities, signals.y[split.test])
        return _untrained(0, scores, time.perf_counter() - start)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000, class_weight="balanced"))
    pipeline.fit(features[split.train], signals.y[split.train])
    regression = pipeline[-1]
    # A class that only the subject has who is left out is not expected.
    probabilities = np.zeros((len(split.test), len(signals.classes)))
    probabilities[:, regression.classes_] = pipeline.predict_proba(features[split.test])
    parameters = regression.coef_.size + regression.intercept_.size
    return _untrained(
        parameters, scores_of(probabilities, signals.y[split.test]), time.perf_counter() - start
    )


def band_powers(x: np.ndarray) -> np.ndarray:
    """Logarithms of the mean powers in the octaves of frequencies, ``[trials, channels × octaves]``.

    Args:
        x: ``[trials, channels, time]``. An octave is from 2^k to below 2^(k + 1) oscillations in that time.

    Raises:
        ValueError: There is no oscillation in one sample.
    """
    if x.shape[2] < 2:
        raise ValueError(
            f"powers of frequency bands: expected trials of at least 2 samples, got {x.shape[2]}"
        )
    powers = np.square(np.abs(np.fft.rfft(x.astype(np.float64), axis=2)))
    starts = 2 ** np.arange(int(np.log2(powers.shape[2] - 1)) + 1)
    octaves = [band.mean(2) for band in np.split(powers[:, :, 1:], starts[1:] - 1, axis=2)]
    floor = np.finfo(np.float64).tiny  # a channel may be silent
    return np.log(np.concatenate(octaves, 1) + floor)
