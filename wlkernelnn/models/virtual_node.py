"""A node that all nodes of a graph are joined to."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import reset

from wlkernelnn.ops.graph.segments import segment_sum


class VirtualNode(torch.nn.Module):
    r"""One more node per graph, which hears all others and is heard by them (Gilmer et al. 2017).

    .. math::
        g' = g + \mathrm{relu}(W \, \mathrm{norm}(g + \textstyle\sum_v h_v) + b) \qquad h'_v = h_v + g'

    Args:
        channels: Width of the states.

    Shapes:
        - input: states ``h [N, channels]``, those of the virtual nodes ``g [B, channels]``, ``ptr [B+1]`` and
          ``batch [N]``
        - output: new ``h [N, channels]`` and ``g [B, channels]``
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(channels)
        self.lin = Linear(channels, channels)

    def reset_parameters(self) -> None:
        reset(self.norm)
        reset(self.lin)

    def forward(self, h: Tensor, g: Tensor, ptr: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        heard = self.norm(g + segment_sum(h, ptr, batch))
        g = g + self.lin(heard).relu()
        return h + g.index_select(0, batch), g
