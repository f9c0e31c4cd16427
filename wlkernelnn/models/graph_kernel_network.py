"""The kernel network for whole graphs: encoder, Weisfeiler-Lehman kernel layer, pooling, head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.conv import WLKernelConv
from wlkernelnn.ops.colours import Quotient

from .base.graph_network import GraphNetwork


class GraphKernelNetwork(GraphNetwork):
    r"""Predicts properties of graphs with codes or features of nodes and codes of edges, such as molecules.

    :math:`h^{(0)} = \mathrm{relu}(W f)`, a :class:`~wlkernelnn.WLKernelConv` of :math:`h^{(0)}`, its sum or
    mean over the nodes of a graph, and a two-layer perceptron (Lei et al. 2017, sections 3.4 and 6.3).

    Args:
        node_dims: Number of values of each column of node codes (integers in ``x``).
        num_edge_types: Number of edge codes, ``None`` for graphs without.
        num_tasks: Number of targets; of a target with several classes, that of its classes.
        task: ``"regression"``, ``"classification"`` (every target is 0 or 1), ``"multiclass"`` (one target,
            classes 0, 1, …) or ``"ordinal"`` (the same, of classes that have an order).
        hidden_channels: Width of everything.
        num_iterations: Weisfeiler-Lehman iterations: with walks of 2 nodes, a node sees that many edges far.
        walk_length: Number of nodes of a walk: 2 is one edge.
        decay: λ, the factor of every edge of a walk: a number from 0 to 1, ``"learned"``, or ``"gated"``
            (computed from the edge and its two nodes).
        readout: What is read of the iterations: their ``"sum"``, the ``"last"`` one, or ``"cat"`` (side by
            side; hidden_channels must be divisible by num_iterations).
        share_walk_weights: One set of walk weights and gates for all iterations instead of one each.
        all_lengths: Count walks of up to walk_length nodes, so that single nodes count, not only those of
            exactly walk_length.
        gate_scale: Factor of a gated decay; the authors' release uses 10.
        pooling: ``"sum"`` or ``"mean"`` over the nodes of a graph. Where a norm follows they hardly differ:
            it takes the length of the vector away.
        norm: Layer normalisation of a graph's vector before the head.
        dropout: Probability that a hidden value of the head is dropped.
        num_node_values: Further columns of the codes that are numbers, in units of 1/255, such as walk
            encodings.
        num_graph_values: Width of a graph's own features, such as a fingerprint; 0 for none.
        quotient: Compute every Weisfeiler-Lehman colour of a batch once instead of every node: exact,
            gradients included. ``"auto"`` where it can be done at no great cost (not where the float
            features of over half of the nodes differ), ``True`` or ``False``.
        in_channels: Number of float features of a node, in the place of ``node_dims``: ``x`` is then what a
            layer of PyG takes. ``from_data`` standardises those that go beyond −1 … 1.
        loss: Of a regression: ``"squared"``; ``"mve"``, the likelihood of a Gaussian whose mean and deviation
            are both predicted (:class:`~wlkernelnn.models.base.outputs.MeanVariance`); or ``"quantile"``, the
            pinball loss (:class:`~wlkernelnn.models.base.outputs.Quantiles`).
        quantiles: Levels of the latter, by default 0.05, 0.5 and 0.95; the median is the prediction.
        edge_values: The row of ``edge_attr`` that each code of an edge stands for, where a store has numbered
            them: ``fit`` and ``predict`` read graphs of PyG by these.

    Shapes:
        - input: a batch with ``x [N, len(node_dims) + num_node_values]`` or floats ``[N, in_channels]``,
          ``edge_index [2, E]``, ``edge_type [E]`` (not needed without edges), ``batch [N]`` and ``ptr [B+1]``
          (a single graph has neither of the last two), and with num_graph_values ``graph_x [B,
          num_graph_values]``
        - output: ``[B, num_tasks]``: regression in the unit of the targets, classes as logits; ``"mve"``:
          ``[B, num_tasks, 2]``, mean and deviation; ``"quantile"``: ``[B, num_tasks, len(quantiles)]``,
          rising; ``"ordinal"``: ``[B, num_tasks - 1]``, cumulative logits

    Raises:
        ValueError: An argument is out of its range, or something is missing in a batch.
        IndexError: A code of an atom or the type of an edge is unknown.
    """

    def __init__(
        self,
        node_dims: Sequence[int] = (),
        num_edge_types: int | None = None,
        num_tasks: int = 1,
        task: Literal["regression", "classification", "multiclass", "ordinal"] = "regression",
        hidden_channels: int = 176,
        num_iterations: int = 4,
        walk_length: int = 2,
        decay: float | str = "gated",
        readout: Literal["sum", "last", "cat"] = "last",
        share_walk_weights: bool = True,
        all_lengths: bool = True,
        gate_scale: float = 1.0,
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
        super().__init__(
            node_dims,
            hidden_channels,
            num_steps=num_iterations + walk_length - 2,
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
        self.conv = WLKernelConv(
            hidden_channels,
            hidden_channels,
            num_iterations=num_iterations,
            walk_length=walk_length,
            decay=decay,
            num_edge_types=num_edge_types,
            readout=readout,
            share_walk_weights=share_walk_weights,
            all_lengths=all_lengths,
            gate_scale=gate_scale,
        )

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        h = self.encoder(codes).relu()
        edge_index, edge_type = self.edges(graph)
        return self.conv(h, edge_index, edge_type=edge_type)
