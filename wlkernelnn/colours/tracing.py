"""What a network computes, recorded by torch.fx."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isfunction
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch_geometric
from torch import nn
from torch.fx import Graph, Tracer
from torch_geometric.nn import Aggregation
from torch_geometric.nn.pool import glob

from .rowwise import is_leaf_module

#: What an argument of a network can be.
ROLES = ("node", "edge", "graph", "edge_index", "batch")
_FUNCTIONS = tuple(value for value in vars(torch_geometric.utils).values() if isfunction(value))
_SEARCHED: tuple[ModuleType, ...] = (torch_geometric.utils, glob)


class CannotGoByColours(ValueError):
    """A network does what colours do not decide; the message names it and its line."""


def role_of(name: str) -> str:
    """What an argument of this name is by PyG's habits."""
    if name in ("edge_index", "batch"):
        return name
    if name.startswith(("edge", "bond")):
        return "edge"
    if name in ("ptr", "y", "u", "size", "dim_size") or name.startswith(("graph", "global", "num_", "batch")):
        return "graph"
    return "node"


class NetworkTracer(Tracer):
    """Records a network: its layers, and PyG's functions, as they are called.

    Args:
        arguments: The values of arguments: ``...`` for a tensor or number that differs from call to call.
        rowwise: Classes of modules that are not looked into.
    """

    def __init__(self, arguments: Mapping[str, Any], rowwise: tuple[type[nn.Module], ...]) -> None:
        super().__init__(autowrap_functions=_FUNCTIONS)
        self._autowrap_search.extend(_SEARCHED)
        self.record_stack_traces = True
        self.arguments, self.rowwise = arguments, rowwise

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_leaf_module(m, self.rowwise)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        def forward(root: nn.Module, *values: Any) -> Any:
            return root_fn(root, **dict(zip(self.arguments, values, strict=True)))

        return forward, [self.root, *map(self._value, self.arguments, self.arguments.values())]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):  # a batch: its attributes are arguments
            return _Record({attribute: self._value(attribute, given) for attribute, given in value.items()})
        return self.create_proxy("placeholder", name, (), {}) if value is ... else value


class _Record:
    """Stands for the ``Data`` that a network takes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def traced(net: nn.Module, arguments: Mapping[str, Any], rowwise: tuple[type[nn.Module], ...]) -> Graph:
    """The operations of a network as it is now, in training or not."""

    def call(self: Aggregation, *args: Any, **kwargs: Any) -> Any:
        return nn.Module.__call__(self, *args, **kwargs)

    # PyG's aggregations look at their arguments before they are a module's call.
    with patch.object(Aggregation, "__call__", call):
        try:
            return NetworkTracer(arguments, rowwise).trace(net)
        except Exception as error:  # values that are not there can break a forward in any way
            raise CannotGoByColours(
                f"{type(net).__name__} cannot be traced by torch.fx: {error}. Name modules that compute "
                "every row from the same row in rowwise=, or write it with wlkernelnn.colours.colour_batch"
            ) from error
