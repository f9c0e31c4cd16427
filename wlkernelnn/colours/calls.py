"""What the operations of a network depend on when it is called."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

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


def is_argument(value: Any) -> bool:
    """Whether a network that takes this value can go by colours."""
    return value is None or isinstance(value, (Tensor, bool, int, float, str))


def stand_in(value: Any) -> Any:
    """What a network is traced with for an argument: that it is a tensor or a number, or else the value."""
    if isinstance(value, Tensor) and value.dim():
        return ...
    return NUMBER if isinstance(value, (Tensor, int, float)) and not isinstance(value, bool) else value


def settings(module: nn.Module) -> tuple[Any, ...]:
    """A module and its plain attributes, on which control flow may depend, but for modules of torch."""
    if type(module).__module__.startswith("torch.nn."):
        return module, module.training
    plain = (bool, int, float, str)
    return module, *((name, value) for name, value in vars(module).items() if isinstance(value, plain))


def watched_module(net: nn.Module) -> nn.Module | None:
    """A module that a hook or an explainer looks at: it is to see nodes."""
    for module in net.modules():
        attributes = vars(module)
        if attributes.get("explain") or any(attributes.get(name) for name in _HOOKS):
            return module
    return None
