"""Names of what a run reads, by its content: files of one name may differ."""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor


def digest(*values: np.ndarray | Tensor) -> str:
    """Eight letters and digits that differ where a value, a shape or a type does."""
    content = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()[:8]
