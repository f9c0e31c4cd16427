"""What every molecule of a table gets: predictions, or the vectors that networks learned of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.models import ColourCache

from .ensemble import Ensemble


class Output(NamedTuple):
    """Columns of numbers.

    Attributes:
        names: Of the columns that an ensemble gives.
        values: Their values, float32 ``[len(data), len(names)]``, of graphs, a batch size and caches.
        replaced: Columns of an input that they may take the place of.
    """

    names: Callable[[Ensemble], list[str]]
    values: Callable[[Ensemble, PackedGraphs, int, Sequence[ColourCache] | None], np.ndarray]
    replaced: Callable[[Ensemble], list[str]]


def _targets(ensemble: Ensemble) -> list[str]:
    return ensemble.about["target_names"]


def _prediction_names(ensemble: Ensemble) -> list[str]:
    """Of every target its mean and, over several networks, its standard deviation."""
    ends = ("", "_std") if len(ensemble.networks) > 1 else ("",)
    return [f"{name}{end}" for name in _targets(ensemble) for end in ends]


def _predictions(
    ensemble: Ensemble, data: PackedGraphs, batch_size: int, caches: Sequence[ColourCache] | None
) -> np.ndarray:
    mean, std = ensemble.predict(data, batch_size, caches)
    if len(ensemble.networks) == 1:
        return mean
    return np.stack([mean, std], axis=2).reshape(len(mean), 2 * mean.shape[1])


def _fingerprint_names(ensemble: Ensemble) -> list[str]:
    """``fp_0``, ``fp_1``, … of one network, of several ``fp_<network>_0``, …."""
    alone = len(ensemble.networks) == 1
    return [
        f"fp_{channel}" if alone else f"fp_{number}_{channel}"
        for number, net in enumerate(ensemble.networks)
        for channel in range(net.embedding_channels)
    ]


OUTPUTS = {
    "prediction": Output(_prediction_names, _predictions, _targets),
    "fingerprint": Output(_fingerprint_names, Ensemble.embed, lambda ensemble: []),
}
