"""What the operations of a network depend on when it is called."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from types import BuiltinFunctionType, FunctionType
from typing import Any

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


def settings(module: nn.Module) -> tuple[Any, ...]:
    """A module and its plain attributes, on which control flow may depend, but for modules of torch.

    Plain are numbers, words, functions, and tuples, lists and dicts of these.
    """
    if type(module).__module__.startswith("torch.nn."):
        return module, module.training
    own = ((name, _plain(value)) for name, value in vars(module).items() if not name.startswith("_"))
    return module, *((name, value) for name, value in own if value is not None)


def _plain(value: Any) -> Any:
    """A plain value as a key; ``None`` of what is none."""
    if isinstance(value, (bool, int, float, str, FunctionType, BuiltinFunctionType, type)):
        return value
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_plain, value))
    if isinstance(value, dict):
        return (dict, *((name, _plain(item)) for name, item in value.items() if isinstance(name, str)))
    return None


def watched_module(net: nn.Module) -> nn.Module | None:
    """A module that a hook or an explainer looks at: it is to see nodes."""
    for module in net.modules():
        attributes = vars(module)
        if attributes.get("explain") or any(attributes.get(name) for name in _HOOKS):
            return module
    return None
