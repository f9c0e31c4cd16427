"""The graph kernel layers with their options, for the tests of what all of them do alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv

D, K, NUM_TYPES, EDGE_DIM = 3, 8, 4, 2

LAYERS: dict[str, tuple[type[KernelConv], dict[str, Any]]] = {
    "random_walk": (RandomWalkKernelConv, {"walk_length": 3, "act": "tanh"}),
    "deep": (DeepKernelConv, {"walk_length": 3, "act": "tanh"}),
    "wl": (WLKernelConv, {"num_iterations": 2, "act": "tanh"}),
}
ALL_LAYERS = pytest.mark.parametrize("layer", LAYERS)

# The ways through the layers: sums of states, sums of messages with tables, and with floats.
OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"decay": 0.7},
    "constant-types": {"decay": 0.7, "num_edge_types": NUM_TYPES},
    "gated": {"decay": "gated"},
    "gated-types": {"decay": "gated", "num_edge_types": NUM_TYPES},
    "learned-attr": {"decay": "learned", "edge_dim": EDGE_DIM},
}
ALL_OPTIONS = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def make(layer: str, options: dict[str, Any] | None = None, in_channels: Any = D) -> KernelConv:
    kind, defaults = LAYERS[layer]
    return kind(in_channels, K, **defaults | (options or {}))


def arguments_of(
    options: dict[str, Any], num_edges: int, weighted: bool = True, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Random edge arguments for a layer made with ``options``."""
    arguments = {}
    if weighted:
        arguments["edge_weight"] = torch.rand(num_edges, dtype=dtype)
    if "num_edge_types" in options:
        arguments["edge_type"] = torch.randint(NUM_TYPES, (num_edges,))
    if "edge_dim" in options:
        arguments["edge_attr"] = torch.randn(num_edges, EDGE_DIM, dtype=dtype)
    return arguments


def select(arguments: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    return {name: value[index] for name, value in arguments.items()}


def message_passings(conv: KernelConv) -> list[MessagePassing]:
    return [module for module in conv.modules() if isinstance(module, MessagePassing)]


def watch(conv: KernelConv, register: str) -> None:
    """Put hooks on a layer (and on the walks inside it) that change nothing."""
    for module in message_passings(conv):
        getattr(module, register)(lambda *_: None)
