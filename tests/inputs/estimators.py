"""Molecules and arguments for tests of estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL: dict[str, Any] = {
    "model": "wl",
    "hidden_channels": 8,
    "epochs": 2,
    "batch_size": 16,
    "random_state": 3,
}
SMILES = ["C" * n + end for n in range(1, 16) for end in ("O", "N", "c1ccccc1", "(=O)O")]
SIZE = np.array([text.upper().count("C") for text in SMILES], dtype=float)
ACID = np.array(["acid" if text.endswith("(=O)O") else "other" for text in SMILES])
BOTH = np.stack([SIZE > 8, ACID == "acid"], axis=1).astype(int)
