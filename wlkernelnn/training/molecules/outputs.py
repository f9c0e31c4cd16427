"""The columns that every molecule of a table gets: predictions, or learned fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.models import ColourCache

from .ensemble import Ensemble

Columns = Literal["prediction", "fingerprint"]
COLUMNS = ("prediction", "fingerprint")


def column_names(columns: Columns, ensemble: Ensemble) -> list[str]:
    """Of every target its mean and, over several networks, its standard deviation; or ``fp_0``, ``fp_1``, …
    of one network, of several ``fp_<network>_0``, ….
    """
    alone = len(ensemble.networks) == 1
    if columns == "prediction":
        ends = ("",) if alone else ("", "_std")
        return [f"{name}{end}" for name in ensemble.about["target_names"] for end in ends]
    return [
        f"fp_{channel}" if alone else f"fp_{number}_{channel}"
        for number, net in enumerate(ensemble.networks)
        for channel in range(net.embedding_channels)
    ]


def column_values(
    columns: Columns,
    ensemble: Ensemble,
    data: PackedGraphs,
    batch_size: int,
    caches: Sequence[ColourCache] | None,
) -> np.ndarray:
    """The values of :func:`column_names`, float32 ``[len(data), len(names)]``."""
    if columns == "fingerprint":
        return ensemble.embed(data, batch_size, caches)
    mean, std = ensemble.predict(data, batch_size, caches)
    if len(ensemble.networks) == 1:
        return mean
    return np.stack([mean, std], axis=2).reshape(len(mean), 2 * mean.shape[1])
