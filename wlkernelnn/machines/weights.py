"""How much training rows count beside each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def weights_of(sample_weight: ArrayLike | None, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the rows of each target, of mean 1: priors and penalties are of rows that count once.

    And the means that they were divided by.

    Args:
        sample_weight: Positive numbers ``[n]``; ``None``: all rows count alike.
        y: Targets ``[n, T]``, NaN where one is missing: such a row is in no mean.

    Returns:
        ``[n, T]``, ``[T]``.

    Raises:
        ValueError: They are not positive, or not as many as rows.
    """
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (len(y),) or not (np.isfinite(weight) & (weight > 0)).all():
        raise ValueError(f"sample_weight must be {len(y)} positive numbers")
    means = np.array([weight[~np.isnan(column)].mean() for column in y.T])
    return weight[:, None] / means, means
