"""Linear maps of edges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import reset, uniform

from .graph import EdgeFeatures


class EdgeMap(torch.nn.Module):
    r"""A linear map without bias of what is known about an edge, :math:`W e_{uv}`.

    For edge codes it is a table with a row per code (the product with a one-hot vector), for floats a matrix.

    Args:
        out_channels: Width of the result.
        num_edge_types: Number of codes, or ``None``.
        edge_dim: Number of float features, or ``None``; exactly one of the two is given.
        factor: The result multiplies a message: a table starts near 1, so that codes matter little at first
            (a matrix cannot: there is no bias).
    """

    def __init__(
        self,
        out_channels: int,
        num_edge_types: int | None,
        edge_dim: int | None,
        factor: bool = False,
    ) -> None:
        super().__init__()
        self.factor = factor
        self.table: torch.nn.Parameter | None = None
        self.lin: Linear | None = None
        if num_edge_types is not None:
            self.table = torch.nn.Parameter(torch.empty(num_edge_types, out_channels))
        else:
            self.lin = Linear(edge_dim, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset(self.lin)
        if self.table is not None:
            uniform(self.table.size(1), self.table)
            if self.factor:
                self.table.data += 1.0

    def forward(self, features: EdgeFeatures) -> Tensor:
        """The result for every edge, ``[E, out_channels]``."""
        if self.table is not None and features.type is not None:
            return self.table.index_select(0, features.type)
        assert self.lin is not None
        return self.lin(features.attr)
