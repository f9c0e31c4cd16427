"""The network that says how good a candidate is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from wlkernelnn.ops.products import linear


class Scorer(torch.nn.Module):
    """α: two layers with a ReLU between them. The last one has no bias: only differences of scores count.

    Args:
        channels: Width p of the candidates.
        hidden_channels: Width between the layers.

    Shapes:
        - input: ``[…, p]``
        - output: ``[…]``
    """

    def __init__(self, channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, hidden_channels)
        self.out = torch.nn.Linear(hidden_channels, 1, bias=False)

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        reset(self.lin)
        reset(self.out)

    def forward(self, candidates: Tensor) -> Tensor:
        """Score candidates."""
        rows = candidates.reshape(-1, candidates.size(-1))
        hidden = torch.relu_(linear(rows, self.lin.weight, self.lin.bias))
        return self.out(hidden).view(candidates.shape[:-1]).to(candidates.dtype)
