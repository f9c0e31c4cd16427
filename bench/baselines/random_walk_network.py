"""The network that is made of one random walk kernel layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.conv import RandomWalkKernelConv
from wlkernelnn.models import GraphNetwork
from wlkernelnn.ops.colours import Quotient


class RandomWalkNetwork(GraphNetwork):
    r"""A :class:`~wlkernelnn.RandomWalkKernelConv` between the encoder, pooling and head of our networks.

    :math:`h^{(0)} = \mathrm{relu}(W f)`, the layer, and the sum over nodes (Lei et al. 2017, section 3.2).

    Args:
        node_dims: As of :class:`~wlkernelnn.models.GraphNetwork`.
        hidden_channels: Width of everything.
        walk_length: Number of nodes of a walk.
        decay, all_lengths: As of the layer.
        **shared: Any other argument of :class:`~wlkernelnn.models.GraphNetwork`.
    """

    def __init__(
        self,
        node_dims: Sequence[int],
        hidden_channels: int = 175,
        walk_length: int = 5,
        decay: float | str = "gated",
        all_lengths: bool = True,
        **shared: Any,
    ) -> None:
        super().__init__(
            node_dims, hidden_channels, num_steps=walk_length - 1, **{"quotient": "auto"} | shared
        )
        self.conv = RandomWalkKernelConv(
            hidden_channels,
            hidden_channels,
            walk_length,
            decay,
            num_edge_types=self.num_edge_types,
            all_lengths=all_lengths,
        )

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        h = self.encoder(codes).relu()
        edge_index, edge_type = self.edges(graph)
        return self.conv(h, edge_index, edge_type=edge_type)
