"""From what describes a whole molecule to a vector."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from wlkernelnn.utils.checks import check_count

# Numbers further from their mean than so many standard deviations say no more than that.
_FAR = 5.0


class FingerprintEncoder(torch.nn.Module):
    r"""relu of a linear map of what describes a graph.

    Of integers, the counts of a fingerprint, it sees :math:`\log(1 + x)`; of other numbers, such as
    descriptors, :math:`\mathrm{arsinh}(x)`, scaled by mean and standard deviation.

    Args:
        num_values: How many values.
        channels: Width of the result.
        dropout: Probability that an entry of the result is dropped.

    Shapes:
        - input: ``[B, num_values]``
        - output: ``[B, channels]``

    Raises:
        ValueError: ``num_values`` is no integer of at least 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, num_values: int, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_count("num_values", num_values)
        self.lin = Linear(num_values, channels)
        self.dropout = torch.nn.Dropout(dropout)
        self.register_buffer("mean", torch.zeros(num_values))
        self.register_buffer("std", torch.ones(num_values))

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def scale(self, x: Tensor) -> None:
        """Take mean and standard deviation of the numbers ``[G, num_values]`` of a data set."""
        values = x.double().asinh()
        std, mean = torch.std_mean(values, 0, correction=0)
        self.mean.copy_(mean)
        # Equal numbers differ from their mean by rounding: that is no scale.
        self.std.copy_(torch.where(std > 1e-6 * (1 + mean.abs()), std, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        values = x.to(self.lin.weight.dtype)
        if x.is_floating_point():
            values = ((values.asinh() - self.mean) / self.std).clamp(-_FAR, _FAR)
        else:
            values = values.log1p()
        return self.dropout(self.lin(values).relu())
