"""Which implementation runs, and gradients that can be differentiated again for those computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

# The dispatch key of tensors whose class sees every operation on them.
_PYTHON = torch._C.DispatchKey.Python


def traced(*tensors: Tensor | None) -> bool:
    """Whether PyTorch records or transforms what runs: then only its own operations may be used.

    True under ``torch.compile`` and ``torch.export``, ``torch.jit.trace`` and both ONNX exporters, transforms
    of ``torch.func``, forward-mode differentiation, and modes that see single operations (``make_fx``,
    ``FakeTensorMode``, counters of operations); and for tensors with a dispatch of their own (``FakeTensor``,
    ``DTensor``, gradients of ``is_grads_batched``). None of them looks into an ``autograd.Function`` or a
    compiled loop. An operation with a fast version asks before it runs it, forwards and backwards.

    Args:
        *tensors: Values that are computed with, ``None`` for one that is not given.
    """
    # Torch has no public names for most of these. A compiler folds the first one and sees no other.
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack() > 0
        or any(
            # Gradients of torch.autograd.grad(…, is_grads_batched=True) are a kind of their own.
            torch._C._functorch.is_legacy_batchedtensor(t) or torch._C._dispatch_keys(t).has(_PYTHON)
            for t in tensors
            if t is not None
        )
    )


def to_numpy(tensor: Tensor) -> np.ndarray:
    """The int64 or float64 numbers of a tensor, also under ``torch.func``, whose tensors share no memory."""
    if torch._C._are_functorch_transforms_active():
        kind = np.float64 if tensor.is_floating_point() else np.int64
        return np.array(tensor.tolist(), kind).reshape(tuple(tensor.shape))
    return tensor.detach().cpu().numpy()


def differentiable_gradients(
    function: Callable[..., Sequence[Tensor]],
    values: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of a composition of differentiable operations, themselves made of such.

    One per argument, ``None`` where it is not needed; ``grads`` are those of what the function returns,
    ``None`` for 0.
    """
    # Each value under a name of its own: one tensor may stand in two places.
    values = [value.view_as(value) if need else value for value, need in zip(values, needed, strict=True)]
    leaves = [value for value, need in zip(values, needed, strict=True) if need]
    # What no leaf changes, such as the state of a memory that nothing learns, has no gradient to give.
    outs = function(*values)
    pairs = [(o, g) for o, g in zip(outs, grads, strict=True) if g is not None and o.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(v) if need else None for v, need in zip(values, needed, strict=True))
    reached, arrived = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(reached, leaves, arrived, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)


def savable(tensor: Tensor) -> Tensor:
    """The same values, as PyTorch can save them for gradients: not those of inference."""
    needless = traced(tensor) or torch.is_inference_mode_enabled() or not tensor.is_inference()
    return tensor if needless else tensor.clone()


@cache
def optional_module(name: str) -> Any:
    """The module of this full name, imported by the first call; ``None`` where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None


def module_for(modules: Mapping[str, Callable[[], Any]], *values: Tensor | None) -> Any:
    """The module for values of one device and type, or ``None``, of those for types of devices."""
    kinds = {(value.device, value.dtype) for value in values if value is not None}
    if len(kinds) != 1:
        return None
    ((device, dtype),) = kinds
    module = modules.get(device.type, lambda: None)()
    return module if module is not None and dtype in module.DTYPES else None
