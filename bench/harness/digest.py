"""Names of what a run reads, by its content: files of one name may differ."""

from __future__ import annotations

import hashlib
from typing import Protocol

import numpy as np
from torch import Tensor

from wlkernelnn.datasets import PackedStrings


class _Parts(Protocol):
    """Labelled strings in three parts."""

    @property
    def train(self) -> PackedStrings: ...
    @property
    def valid(self) -> PackedStrings: ...
    @property
    def test(self) -> PackedStrings: ...


def digest(*values: np.ndarray | Tensor) -> str:
    """Eight letters and digits that differ where a value, a shape or a type does."""
    content = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()[:8]


def digest_of_strings(data: _Parts, *more: np.ndarray | Tensor) -> str:
    """The :func:`digest` of all parts, and of more values."""
    parts = (data.train, data.valid, data.test)
    return digest(*more, *(value for part in parts for value in (part.tokens, part.ptr, part.y)))
