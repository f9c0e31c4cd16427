"""From a molecule's fingerprint to a vector."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.linear import Linear


class FingerprintEncoder(torch.nn.Module):
    r"""relu of a linear map of :math:`\log(1 + x)`, x the counts of a graph's fingerprint.

    Args:
        num_values: Width of the fingerprint.
        channels: Width of the result.
        dropout: Probability that an entry of the result is dropped.

    Shapes:
        - input: ``[B, num_values]``
        - output: ``[B, channels]``
    """

    def __init__(self, num_values: int, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.lin = Linear(num_values, channels)
        self.dropout = torch.nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.lin(x.to(self.lin.weight.dtype).log1p()).relu())
