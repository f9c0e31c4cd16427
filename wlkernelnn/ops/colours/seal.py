"""Detect whether tensors changed since something was made of them, without reading them."""

from __future__ import annotations

from operator import is_
from typing import Any

from torch import Tensor


class Seal:
    """The tensors that something was made of, to know them again: the same objects, unwritten since.

    What PyTorch does not count is not seen: writes through ``.data`` or ``.numpy()``. Tensors made in
    ``torch.inference_mode`` count nothing and are never known again. A copy of a seal holds nothing, as the
    tensors beside it are others.

    Args:
        *tensors: As many as there are, ``None`` for one that is not there.
    """

    def __init__(self, *tensors: Tensor | None) -> None:
        self._tensors = tensors
        # What changes when a tensor is written to, or is given another memory or shape.
        self._states = [
            None if t is None else object() if t.is_inference() else (t._version, t.data_ptr(), t.shape)
            for t in tensors
        ]

    def holds(self, *tensors: Tensor | None) -> bool:
        """Whether these are the tensors, in the same order."""
        same = len(tensors) == len(self._tensors) and all(map(is_, tensors, self._tensors))
        return same and Seal(*tensors)._states == self._states

    def __reduce__(self) -> tuple[Any, ...]:
        return Seal, ()
