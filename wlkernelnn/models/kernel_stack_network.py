"""The network for whole graphs that is made of a stack of deep kernel layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.ops.colours import Quotient
from wlkernelnn.utils.checks import check_count, check_dropout

from .base.graph_network import GraphNetwork
from .kernel_stack import KernelStack


class KernelStackNetwork(GraphNetwork):
    r"""Predicts properties of graphs by a :class:`KernelStack`.

    Encoder, pooling, norm, head and the way by colours are those of :class:`GraphKernelNetwork`.

    Args:
        node_dims, num_edge_types, num_tasks, task: As there.
        hidden_channels: Width of everything.
        num_layers: Number of layers: with walks of 2 nodes, a node sees that many edges far.
        walk_length: Number of nodes of the walks of a layer: 2 is one edge.
        decay: λ, the factor of every edge of a walk: a number from 0 to 1, ``"learned"``, or ``"gated"``.
        compose: How a node's own features join a walk, ``"mul"`` or ``"add"``.
        jumping: What is read of the layers: the ``"last"`` states, the ``"sum"`` of all, or all side by side,
            ``"cat"``.
        virtual_node: Between layers, all atoms of a molecule hear from each other. Every node is then
            computed, not every colour once, so ``quotient`` cannot be ``True``.
        layer_dropout: Probability that an entry of a layer's result is dropped; of a colour, not of a node,
            where colours are computed once.
        residual, layer_norm: As of :class:`KernelStack`; ``norm`` is the one before the head.
        pooling, norm, dropout, num_node_values, num_graph_values, quotient: As there.
        in_channels, loss, quantiles, edge_values: As there.

    Shapes:
        - input and output: as there

    Raises:
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        node_dims: Sequence[int] = (),
        num_edge_types: int | None = None,
        num_tasks: int = 1,
        task: Literal["regression", "classification", "multiclass", "ordinal"] = "regression",
        hidden_channels: int = 128,
        num_layers: int = 4,
        walk_length: int = 2,
        decay: float | str = "gated",
        compose: Literal["mul", "add"] = "mul",
        jumping: Literal["last", "sum", "cat"] = "cat",
        virtual_node: bool = False,
        layer_dropout: float = 0.0,
        residual: bool = True,
        layer_norm: bool = True,
        pooling: Literal["sum", "mean"] = "sum",
        norm: bool = True,
        dropout: float = 0.0,
        num_node_values: int = 0,
        num_graph_values: int = 0,
        quotient: bool | str = "auto",
        in_channels: int = 0,
        loss: Literal["squared", "mve", "quantile"] = "squared",
        quantiles: Sequence[float] | None = None,
        edge_values: Sequence[Sequence[float]] = (),
    ) -> None:
        check_count("hidden_channels", hidden_channels)
        check_dropout(layer_dropout, "layer_dropout")
        stack = KernelStack(
            hidden_channels,
            num_layers=num_layers,
            walk_length=walk_length,
            decay=decay,
            compose=compose,
            num_edge_types=num_edge_types,
            dropout=layer_dropout,
            jumping=jumping,
            virtual_node=virtual_node,
            residual=residual,
            layer_norm=layer_norm,
        )
        super().__init__(
            node_dims,
            hidden_channels,
            num_steps=None if virtual_node else stack.num_steps,
            state_channels=stack.out_channels,
            num_edge_types=num_edge_types,
            num_tasks=num_tasks,
            task=task,
            pooling=pooling,
            norm=norm,
            dropout=dropout,
            num_node_values=num_node_values,
            num_graph_values=num_graph_values,
            quotient=quotient,
            in_channels=in_channels,
            loss=loss,
            quantiles=quantiles,
            edge_values=edge_values,
        )
        self.stack = stack

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        members = () if isinstance(graph, Quotient) else (graph.ptr, graph.batch)
        return self.stack(self.encoder(codes), *self.edges(graph), *members)
