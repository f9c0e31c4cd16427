"""How a layer prints: its widths, and what it was made with."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch

from .activation import activation


def shown(layer: torch.nn.Module, *always: str, **values: Any) -> str:
    """``Name(in_channels, out_channels, …)`` with the arguments of the constructor in their order, those that
    are not in ``always`` only where they are not the default.

    Values are the attributes of the same name, but for those that are given.
    """
    # A class that somebody derives from a layer may take other arguments.
    ours = next(cls for cls in type(layer).__mro__ if cls.__module__.startswith("wlkernelnn."))
    texts = [str(layer.in_channels), str(layer.out_channels)]
    for name, parameter in list(signature(ours).parameters.items())[2:]:
        value = values[name] if name in values else getattr(layer, name)
        default = parameter.default
        as_default = repr(value) == repr(activation(default)) if name == "act" else value == default
        if name in always or not (as_default or value is default):
            texts.append(f"{name}={value!r}")
    return f"{type(layer).__name__}({', '.join(texts)})"
