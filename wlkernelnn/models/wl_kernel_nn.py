"""Layers of the Weisfeiler-Lehman kernel, one upon another, in the manner of PyG's models."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor
from torch_geometric.nn.models.basic_gnn import BasicGNN

from wlkernelnn.conv import WLKernelConv


class WLKernelNN(BasicGNN):
    r"""A model of PyG, as :class:`torch_geometric.nn.GIN` is one, of :class:`~wlkernelnn.WLKernelConv`.

    With one iteration, a layer computes for each node the random walk kernel of what lies around it (Lei et
    al. 2017, eq. 6); its result, through norm and activation, labels the nodes of the next layer.

    Args:
        in_channels: Width of the node features; −1 for lazy.
        hidden_channels: Width of the states between layers.
        num_layers: Number of layers.
        out_channels: Width of the result; default ``hidden_channels``.
        dropout: Probability that an entry of a state is dropped.
        act, act_first, act_kwargs, norm, norm_kwargs, jk: As of PyG's models: the activation (default
            ``"relu"``), a norm such as ``"batch_norm"`` or ``"layer_norm"``, and jumping knowledge,
            ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``.
        **kwargs: Arguments of each layer. Others than the layer's own defaults are ``num_iterations=1`` and
            ``all_lengths=True``, so that a node without neighbours counts; PyG's ``to_hetero``, whose edges
            join nodes of two kinds, needs ``all_lengths=False``. Edges have features, floats, if there is an
            ``edge_dim``.

    Shapes:
        - input: ``x [N, in_channels]``, ``edge_index [2, E]``, and by name ``edge_weight [E]`` and
          ``edge_attr [E, edge_dim]``; ``batch [N]`` for norms of graphs
        - output: ``[N, out_channels]``

    Raises:
        ValueError: An argument is out of its range, or features have another width.
        TypeError: ``num_edge_types``: PyG's models pass features of edges, not codes.
    """

    supports_edge_weight: Final[bool] = True
    supports_edge_attr: Final[bool] = True

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> WLKernelConv:
        """One layer."""
        if kwargs.get("num_edge_types") is not None:
            raise TypeError(
                "num_edge_types: edges of this model have edge_attr; give one-hot rows and edge_dim"
            )
        return WLKernelConv(in_channels, out_channels, **{"num_iterations": 1, "all_lengths": True} | kwargs)

    def inference_per_layer(self, layer: int, x: Tensor, edge_index: Tensor, batch_size: int) -> Tensor:
        """States of the first ``batch_size`` nodes, of PyG's ``inference``: it loads their neighbours alone.

        Raises:
            ValueError: A layer sees further than to the neighbours.
        """
        if (hops := self.convs[layer].num_steps) > 1:
            raise ValueError(
                f"inference loads the neighbours alone, and a layer sees {hops} edges far: call the model on "
                "the whole graph, or make it with num_iterations=1 and walk_length=2"
            )
        return super().inference_per_layer(layer, x, edge_index, batch_size)
