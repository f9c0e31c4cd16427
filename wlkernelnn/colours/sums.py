"""Sums over neighbours without a row per edge, for layers of PyG whose messages are known."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import (
    GINConv,
    GINEConv,
    GraphConv,
    MeanAggregation,
    MessagePassing,
    SAGEConv,
    SumAggregation,
)

from wlkernelnn.conv.kernel_conv import writes_propagate
from wlkernelnn.ops.graph import SortedEdges, neighbor_sum, relabel_sum

_RELU = torch.nn.ReLU()


def has_own_methods(conv: MessagePassing) -> bool:
    """Whether methods were set on the layer itself, not on its class."""
    methods = (
        "forward",
        "propagate",
        "message",
        "message_and_aggregate",
        "aggregate",
        "update",
        "edge_update",
    )
    return any(name in vars(conv) for name in methods)


def with_fast_sums(
    conv: MessagePassing, edges: SortedEdges, kind: Tensor, of_kinds: Mapping[str, Tensor]
) -> MessagePassing | None:
    """A layer that sums its messages at once, if there is a way; with the parameters of the layer.

    What is known of edges it takes as rows of their kinds, ``[K, …]``.

    Args:
        conv: The layer.
        edges: The edges of a step, sorted by target.
        kind: int64 ``[E]``: their kinds.
        of_kinds: What is known of the kinds, by the names of the layer's arguments.
    """
    cls = type(conv)
    of_library = cls.aggregate is MessagePassing.aggregate and cls.update is MessagePassing.update
    if (
        not of_library
        or writes_propagate(cls)
        or has_own_methods(conv)
        or type(conv.aggr_module) not in (SumAggregation, MeanAggregation)
    ):
        return None
    total: Callable[..., Tensor]
    if cls.message is GINEConv.message and "edge_attr" in of_kinds:

        def total(x: tuple[Tensor, Tensor | None], edge_attr: Tensor) -> Tensor:
            shift = edge_attr if conv.lin is None else conv.lin(edge_attr)
            if shift.size(-1) != x[0].size(-1):
                widths = f"{x[0].size(-1)} channels, edges {shift.size(-1)}"
                raise ValueError(f"GINEConv: states have {widths}; give it edge_dim")
            return relabel_sum(x[0], edges, _RELU, shift, kind)

    elif not of_kinds and cls.message in (GINConv.message, SAGEConv.message, GraphConv.message):

        def total(x: tuple[Tensor, Tensor | None], edge_weight: None = None) -> Tensor:
            return neighbor_sum(x[0], edges)

    else:
        return None

    def propagate(edge_index: Tensor, size: Any = None, **values: Any) -> Tensor:
        out = total(**values)
        if type(conv.aggr_module) is MeanAggregation:
            out = out / edges.indptr.diff().clamp(min=1).to(out.dtype).unsqueeze(1)
        return out

    fast = copy.copy(conv)
    fast.propagate = propagate
    return fast
