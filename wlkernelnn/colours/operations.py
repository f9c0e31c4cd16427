"""Single operations of a network: what their values are, what they ask for, and where they stand."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.fx import Node
from torch_geometric import nn as pyg

from .tracing import IN_PLACE

POOLS = {
    pyg.SumAggregation: "sum",
    pyg.MeanAggregation: "mean",
    pyg.MaxAggregation: "max",
    pyg.MinAggregation: "min",
}
# Functions, methods and attributes that may give what lies in the memory of their first argument.
_VIEWS = frozenset(
    """
    getitem view view_as reshape reshape_as t T mT H mH data transpose permute movedim moveaxis swapaxes
    swapdims adjoint flatten unflatten squeeze unsqueeze expand expand_as broadcast_to select narrow chunk
    split tensor_split hsplit vsplit dsplit unbind diagonal unfold as_strided detach contiguous to type
    type_as float double half bfloat16 real positive pos atleast_2d atleast_3d values indices dropout ravel
    alpha_dropout feature_alpha_dropout cpu cuda int long bool resolve_conj
    """.split()  # noqa: SIM905
)
# Frames of these files are how a network is traced, not where it calls something.
_NOT_OWN = (str(Path(torch.__file__).parent), str(Path(__file__).with_name("tracing.py")))


@dataclass(frozen=True)
class Kind:
    """What a value in the network is: rows of colours, of kinds of edges, or as it is by nodes.

    Attributes:
        rows: "node", "edge" or "plain".
        level: Of nodes: how many iterations of colours decide a row.
        several: Whether it is a tuple of such values.
        role: The role of an argument, or "count of node" or "count of edge": their number.
        reason: Of plain values with a row per node: why they are not of colours.
    """

    rows: str = "plain"
    level: int = 0
    several: bool = False
    role: str = ""
    reason: str = ""


PLAIN = Kind()


def named(function: Any, node: Node) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return dict(signature(function).bind(*node.args, **node.kwargs).arguments)


def is_shape(node: Node) -> bool:
    """Whether a call is ``x.shape`` or ``x.size()``."""
    return (node.target is getattr and node.args[1] == "shape") or (
        node.target == "size" and len(node.args) == 1 and not node.kwargs
    )


def takes_one(node: Node) -> bool:
    """Whether a call takes one of several values: ``pair[0]`` or ``pair.values``."""
    return (node.target is operator.getitem and isinstance(node.args[1], int)) or (
        node.target is getattr and node.args[1] in ("values", "indices")
    )


def asks_for_rows(node: Node, kind: Kind) -> bool:
    """Whether a call on a value of this kind is ``x.size(0)`` of rows, or the first entry of a shape."""
    of_rows = kind.rows != "plain" and node.target == "size"
    of_shape = kind.role.startswith("shape of ") and node.target is operator.getitem
    return (of_rows or of_shape) and tuple(node.args[1:]) == (0,)


def first_of(node: Node) -> Node | None:
    """The first argument of a call, which torch's functions and modules call ``input``."""
    first = node.args[0] if node.args else node.kwargs.get("input")
    return first if isinstance(first, Node) else None


def writes(net: nn.Module, node: Node) -> bool:
    """Whether a call changes its first argument: ``h.relu_()``, ``h += h``, ``relu(h, inplace=True)``."""
    if node.op == "call_module":
        return getattr(net.get_submodule(str(node.target)), "inplace", False) is True
    name = _name(node)
    named_so = name.endswith("_") and not name.endswith("__")
    return node.target in IN_PLACE or named_so or node.kwargs.get("inplace") is True


def shares(net: nn.Module, node: Node) -> bool:
    """Whether what a call gives may lie in the memory of its first argument: a view, or that itself."""
    if node.op == "call_module":
        module = net.get_submodule(str(node.target))
        views = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd)
        return isinstance(module, views) or writes(net, node)
    name = str(node.args[1]) if node.target is getattr else _name(node)
    return name in _VIEWS or writes(net, node)


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def place_of(net: nn.Module, node: Node) -> str:
    """An operation, and the line of the network that calls it."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.name)
    if node.op == "call_module":
        name = f"{type(net.get_submodule(name)).__name__} {name}"
    frames = [frame for frame in (node.stack_trace or "").split("  File ") if frame.strip()]
    own = [frame for frame in frames if not any(part in frame.split(",")[0] for part in _NOT_OWN)]
    place = " ".join(own[-1].split()) if own else "unknown line"
    return f"{name} (in {place})"
