"""A short run of the small regression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.inputs.molecules import SMALL, quick, regression_set
from wlkernelnn.datasets import random_split
from wlkernelnn.training import Ensemble, train_run

SPLIT = random_split(60, (0.6, 0.2, 0.2))


def run(directory: Path, **kwargs: Any) -> tuple[Ensemble, dict[str, Any]]:
    options = {"options": quick(epochs=2), "network": SMALL, "progress": False, "split_idx": SPLIT, **kwargs}
    return train_run(options.pop("data", None) or regression_set(), directory=directory, **options)
