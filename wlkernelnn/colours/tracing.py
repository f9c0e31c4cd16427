"""What a network computes, recorded by torch.fx."""

from __future__ import annotations

import operator
import random
from collections.abc import Mapping
from inspect import isfunction
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch_geometric
from torch import Tensor, nn
from torch.fx import Graph, Node, Proxy, Tracer
from torch.fx.proxy import Attribute
from torch_geometric.nn import Aggregation
from torch_geometric.nn.pool import glob

from .rowwise import is_leaf_module

#: What an argument of a network can be.
ROLES = ("node", "edge", "graph", "edge_index", "batch")
_FUNCTIONS = tuple(value for value in vars(torch_geometric.utils).values() if isfunction(value))
#: Operators that write to their first argument.
IN_PLACE = tuple(
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")
)
#: Stands for an argument that is a number.
NUMBER = float
# What attributes of ``Data`` are None where they are not given.
_OF_DATA = ("x", "edge_index", "edge_weight", "edge_attr", "y", "pos", "batch", "time", "face")
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
        arguments: The values of arguments: ``...`` for a tensor, ``NUMBER`` for a number.
        rowwise: Classes of modules that are not looked into.
    """

    # Values of buffers, as those of parameters, differ from call to call.
    proxy_buffer_attributes = True

    def __init__(self, arguments: Mapping[str, Any], rowwise: tuple[type[nn.Module], ...]) -> None:
        super().__init__(autowrap_functions=_FUNCTIONS)
        self._autowrap_search.extend(_SEARCHED)
        self.record_stack_traces = True
        self.arguments, self.rowwise = arguments, rowwise
        self.modes = torch.is_grad_enabled(), torch.is_autocast_enabled()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_leaf_module(m, self.rowwise)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        def forward(root: nn.Module, *values: Any) -> Any:
            # Its own, which root_fn, its class's, need not be: PyG's Sequential has one for each.
            return root.forward(**dict(zip(self.arguments, values, strict=True)))

        return forward, [self.root, *map(self._value, self.arguments, self.arguments.values())]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):  # a batch: its attributes are arguments
            return _Record({attribute: self._value(attribute, given) for attribute, given in value.items()})
        if value is not ... and value is not NUMBER:
            return value
        argument = self.create_proxy("placeholder", name, (), {})
        argument.node.meta["number"] = value is NUMBER
        return argument

    def proxy(self, node: Node) -> Proxy:
        if node.op != "placeholder" and (torch.is_grad_enabled(), torch.is_autocast_enabled()) != self.modes:
            raise ValueError("it switches gradients or autocast on or off: write detach(), or do it outside")
        return _Value(node, self)


class _Value(Proxy):
    """A value of the network, that can be written to."""

    def __getattr__(self, name: str) -> Attribute:
        return _Attribute(self, name)


class _Attribute(Attribute, _Value):
    """An attribute of a value, such as ``h.T``."""


def _writing(function: Any) -> Any:
    def written(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return written


for _function in IN_PLACE:
    setattr(_Value, f"__{_function.__name__}__", _writing(_function))


class _Record:
    """Stands for the ``Data`` that a network takes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(dict.fromkeys(_OF_DATA) | dict(values))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return self.__dict__.get(name) is not None


def traced(net: nn.Module, arguments: Mapping[str, Any], rowwise: tuple[type[nn.Module], ...]) -> Graph:
    """The operations of a network as it is now, in training or not."""

    def call(self: Aggregation, *args: Any, **kwargs: Any) -> Any:
        return nn.Module.__call__(self, *args, **kwargs)

    before = _state(net)
    kept = [(vars(module), dict(vars(module))) for module in net.modules()]
    drawn = torch.get_rng_state(), random.getstate()
    # PyG's aggregations look at their arguments before they are a module's call.
    with patch.object(Aggregation, "__call__", call):
        try:
            graph = NetworkTracer(arguments, rowwise).trace(net)
            if changed := [name for name, value in _state(net).items() if before.get(name) != value]:
                raise ValueError(f"its forward changes its {changed[0]}")
            if not torch.equal(drawn[0], torch.get_rng_state()) or drawn[1] != random.getstate():
                raise ValueError("it draws random numbers that do not depend on its arguments")
        except Exception as error:  # values that are not there can break a forward in any way
            raise CannotGoByColours(
                f"{type(net).__name__} cannot be traced by torch.fx: {error}. Name modules that compute "
                "every row from the same row in rowwise=, or write it with wlkernelnn.colours.colour_batch"
            ) from error
        finally:
            torch.set_rng_state(drawn[0])
            random.setstate(drawn[1])
            for attributes, values in kept:
                constants = {name: value for name, value in attributes.items() if _is_constant(name)}
                attributes.clear()
                attributes.update(values | constants)
    return graph


def _state(net: nn.Module) -> dict[str, Any]:
    """What the attributes of all modules are, and how often tensors were written to."""
    state = {}
    for path, module in net.named_modules():
        for name, value in {**vars(module), **module._parameters, **module._buffers}.items():
            if _is_constant(name):
                continue
            version = value._version if isinstance(value, Tensor) and not value.is_inference() else 0
            state[f"{path}.{name}".lstrip(".")] = (id(value), version)
    return state


def _is_constant(name: str) -> bool:
    """Whether torch.fx keeps a tensor under this name, that a forward makes of none of its arguments."""
    return name.startswith("_tensor_constant")
