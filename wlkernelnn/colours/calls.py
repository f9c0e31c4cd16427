"""What the operations of a network depend on when it is called."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import is_dataclass
from functools import partial
from inspect import Parameter, Signature, signature
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch_geometric import nn as pyg

from .tracing import NUMBER

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_propagate_forward_hooks",
    "_propagate_forward_pre_hooks",
    "_message_forward_hooks",
    "_message_forward_pre_hooks",
    "_aggregate_forward_hooks",
    "_aggregate_forward_pre_hooks",
)

_OF_ALL_MODULES = frozenset(vars(nn.Module()))


def signature_of(net: nn.Module) -> Signature:
    """The arguments of a network, and their defaults."""
    if isinstance(net, pyg.Sequential):
        names = net.signature.param_dict
        return Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return signature(net.forward)


def is_argument(value: Any) -> bool:
    """Whether a network that takes this value can go by colours."""
    return value is None or isinstance(value, (Tensor, bool, int, float, str))


def stand_in(value: Any) -> Any:
    """What a network is traced with for an argument: that it is a tensor or a number, or else the value."""
    if isinstance(value, Tensor) and value.dim():
        return ...
    return NUMBER if isinstance(value, (Tensor, int, float)) and not isinstance(value, bool) else value


def settings(net: nn.Module) -> tuple[Any, ...]:
    """The modules of a network by their places, and their attributes, on which control flow may depend.

    Of modules of torch only whether they train: they are called, not looked into.
    """
    return tuple(
        (path, module, module.training, *_attributes(module))
        for path, module in net.named_modules(remove_duplicate=False)
    )


def _attributes(module: nn.Module) -> tuple[Any, ...]:
    home = type(module).__module__
    if home.startswith("torch.nn."):
        return ()
    known = home.startswith("torch_geometric.")  # whose private attributes stay
    return tuple(
        (name, key_of(value))
        for name, value in vars(module).items()
        if name not in _OF_ALL_MODULES and not (known and name[0] == "_") and not isinstance(value, Tensor)
    )


def key_of(value: Any) -> Any:
    """A value as a key: numbers, words, functions and what holds them by value, all else by identity."""
    if value is None or isinstance(
        value, (bool, int, float, str, np.generic, FunctionType, BuiltinFunctionType, type)
    ):
        return type(value), value
    if isinstance(value, (tuple, list)):
        return (type(value), *map(key_of, value))
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(map(key_of, value))
    if isinstance(value, dict):
        return (type(value), *((key_of(name), key_of(item)) for name, item in value.items()))
    if isinstance(value, partial):
        return partial, key_of(value.func), key_of(value.args), key_of(value.keywords)
    if isinstance(value, MethodType):
        return MethodType, value.__func__, _Same(value.__self__)
    record = isinstance(value, (Namespace, SimpleNamespace)) or is_dataclass(value)
    if record and hasattr(value, "__dict__"):
        return type(value), key_of(vars(value))
    return _Same(value)


class _Same:
    """Equal to that of the same object alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def watched_module(net: nn.Module) -> nn.Module | None:
    """A module that a hook or an explainer looks at: it is to see nodes."""
    for module in net.modules():
        explained = isinstance(module, pyg.MessagePassing) and module.explain
        if explained or any(vars(module).get(name) for name in _HOOKS):
            return module
    return None
