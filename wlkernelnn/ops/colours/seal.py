"""Detect whether tensors changed since something was made of them, without reading them."""

from __future__ import annotations

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
        self._marks = [(tensor, _state(tensor)) for tensor in tensors]

    def holds(self, *tensors: Tensor | None) -> bool:
        """Whether these are the tensors, in the same order."""
        return len(tensors) == len(self._marks) and all(
            tensor is known and _state(tensor) == state
            for tensor, (known, state) in zip(tensors, self._marks, strict=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Seal, ()


def _state(tensor: Tensor | None) -> object:
    """What changes when a tensor is written to, or is given another memory or shape."""
    if tensor is None:
        return None
    return object() if tensor.is_inference() else (tensor._version, tensor.data_ptr(), tensor.shape)
