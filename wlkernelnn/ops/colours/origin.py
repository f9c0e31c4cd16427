"""Knowing tensors again without reading them."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor


class Origin:
    """The tensors that something was made of, to know them again: the same objects, unwritten since.

    What PyTorch does not count is not seen: writes through ``.data`` or ``.numpy()``. Tensors made in
    ``torch.inference_mode`` count nothing and are never known again. A copy knows no tensors, as those
    beside it are others.

    Args:
        *tensors: As many as there are, ``None`` for one that is not there.
    """

    def __init__(self, *tensors: Tensor | None) -> None:
        self._marks = [None if tensor is None else _Mark(tensor) for tensor in tensors]

    def is_of(self, *tensors: Tensor | None) -> bool:
        """Whether these are the tensors, in the same order."""
        return len(tensors) == len(self._marks) and all(
            tensor is mark if tensor is None or mark is None else mark.is_of(tensor)
            for tensor, mark in zip(tensors, self._marks, strict=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Origin, ()


class _Mark:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.state = _state(tensor)

    def is_of(self, tensor: Tensor) -> bool:
        return not tensor.is_inference() and self.tensor() is tensor and self.state == _state(tensor)


def _state(tensor: Tensor) -> tuple[int, int, torch.Size]:
    """A tensor can be given another memory and shape, too."""
    return 0 if tensor.is_inference() else tensor._version, tensor.data_ptr(), tensor.shape
