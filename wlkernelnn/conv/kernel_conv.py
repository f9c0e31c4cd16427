"""What all layers share: their arguments, and who watches their messages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.inits import reset

from wlkernelnn.ops.colours import Quotient
from wlkernelnn.utils.checks import check_count, check_widths

from .edge_map import EdgeMap
from .graph import Graph, QuotientGraph, checked_edge_type

Features = Tensor | tuple[Tensor, Tensor]
AnyGraph = Graph | QuotientGraph

# What a layer does with its messages, and where that is written, unless a subclass has its own.
_STEPS = ("message", "aggregate", "update")
_OWN = (str(__package__), MessagePassing.__module__)


def check_types(edge_type: Tensor, num_edge_types: int) -> None:
    """Refuse codes outside [0, num_edge_types)."""
    if not edge_type.numel():
        return
    low, high = edge_type.aminmax()
    if low < 0 or high >= num_edge_types:
        raise IndexError(
            f"edge_type has values {int(low)} … {int(high)}, "
            f"expected 0 … {num_edge_types - 1} (num_edge_types={num_edge_types})"
        )


class KernelConv(MessagePassing):
    """Base of the layers.

    Args:
        in_channels: Width of the node features, −1 for lazy, or a pair for a bipartite graph.
        out_channels: Width of the result.
        num_edge_types: Edges carry codes ``edge_type`` in [0, num_edge_types), or ``None``.
        edge_dim: Edges carry floats ``edge_attr [E, edge_dim]``, or ``None``.

    Raises:
        ValueError: A width is no integer of at least 1, or edges are to carry both.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_edge_types: int | None,
        edge_dim: int | None,
    ) -> None:
        super().__init__(aggr="add")
        check_widths(in_channels, out_channels)
        if num_edge_types is not None and edge_dim is not None:
            raise ValueError(
                f"give either num_edge_types or edge_dim, not both (got {num_edge_types} and {edge_dim})"
            )
        for name, value in (("num_edge_types", num_edge_types), ("edge_dim", edge_dim)):
            if value is not None:
                check_count(name, value)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_edge_types = num_edge_types
        self.edge_dim = edge_dim

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for child in self.children():
            reset(child)

    def edge_map(self, out_channels: int, factor: bool = False) -> EdgeMap | None:
        """A linear map of this layer's edge features, if it has any."""
        if self.num_edge_types is None and self.edge_dim is None:
            return None
        return EdgeMap(out_channels, self.num_edge_types, self.edge_dim, factor)

    def graph(
        self,
        x: Features,
        edge_index: Tensor | AnyGraph | Quotient,
        edge_attr: Tensor | None,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
    ) -> AnyGraph:
        """Check the inputs of ``forward`` and sort the edges, once for everything that a layer does."""
        if isinstance(edge_index, AnyGraph):
            return edge_index
        name = type(self).__name__
        if self.flow != "source_to_target":
            raise ValueError(f'{name} sums over sources: flow must be "source_to_target", got {self.flow!r}')
        if isinstance(edge_index, Quotient):
            self._check_quotient(x, edge_index, edge_attr, edge_type, edge_weight)
            return QuotientGraph.of(edge_index)
        for nodes in x if isinstance(x, tuple) else (x,):
            if nodes is None or nodes.dim() != 2:
                came = "nothing" if nodes is None else f"shape {list(nodes.shape)}"
                raise ValueError(f"{name} needs x of shape [N, in_channels] (or a pair of such), got {came}")
        size = (x[0].size(0), x[1].size(0)) if isinstance(x, tuple) else (x.size(0), x.size(0))
        if self.num_edge_types is None and edge_type is not None:
            raise ValueError(f"{name} got edge_type, but was made without num_edge_types")
        if self.edge_dim is None and edge_attr is not None:
            raise ValueError(f"{name} got edge_attr, but was made without edge_dim")
        if self.num_edge_types is not None:
            edge_type = checked_edge_type(name, edge_type)
            if edge_type.is_cpu and not torch.compiler.is_compiling():
                check_types(edge_type, self.num_edge_types)
        if self.edge_dim is not None and (
            edge_attr is None or edge_attr.dim() != 2 or edge_attr.size(1) != self.edge_dim
        ):
            came = "nothing" if edge_attr is None else f"shape {list(edge_attr.shape)}"
            raise ValueError(f"{name} needs edge_attr of shape [E, {self.edge_dim}], got {came}")
        if edge_weight is not None:
            # numpy's float64 would make states of float64 where they are multiplied by it.
            edge_weight = edge_weight.to((x[0] if isinstance(x, tuple) else x).dtype)
        return Graph(edge_index, size, edge_weight, edge_attr, edge_type)

    def _check_quotient(self, x: Features, quotient: Quotient, *edge_features: Tensor | None) -> None:
        name = type(self).__name__
        if any(value is not None for value in edge_features):
            raise ValueError(
                f"{name}: a quotient carries its edge types itself; give no edge features beside it"
            )
        if self.edge_dim is not None:
            raise ValueError(f"{name}: a quotient has edge types, this layer was made with edge_dim")
        if isinstance(x, tuple) or x.dim() != 2 or x.size(0) != quotient.first.numel():
            came = "a pair" if isinstance(x, tuple) else f"shape {list(x.shape)}"
            raise ValueError(
                f"{name}: x must have a row per first colour ({quotient.first.numel()}), got {came}"
            )
        if is_watched(self):
            raise ValueError(f"{name}: whoever watches single messages needs nodes; give edge_index")
        if self.num_edge_types is not None and quotient.node.is_cpu and not torch.compiler.is_compiling():
            for level in quotient.levels:
                check_types(level.edge_type, self.num_edge_types)

    @property
    def watched(self) -> bool:
        """Somebody wants to see or change messages or sums: an explainer, a hook of PyG's, a subclass, or
        another aggregation.
        """
        return bool(
            self.explain
            or self._propagate_forward_pre_hooks
            or self._propagate_forward_hooks
            or self._message_forward_pre_hooks
            or self._message_forward_hooks
            or self._aggregate_forward_pre_hooks
            or self._aggregate_forward_hooks
            or type(self.aggr_module) is not SumAggregation
            or any(not getattr(type(self), step).__module__.startswith(_OWN) for step in _STEPS)
        )


def is_watched(module: torch.nn.Module) -> bool:
    """Whether somebody watches messages of the module or of a layer in it."""
    return any(part.watched for part in module.modules() if isinstance(part, KernelConv))
