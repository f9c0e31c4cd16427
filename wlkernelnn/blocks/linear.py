"""Linear maps of all layers."""

from __future__ import annotations

import torch_geometric.nn
from torch import Tensor

from wlkernelnn.ops.products import linear


class Linear(torch_geometric.nn.Linear):
    """PyG's, which may learn its width from the first input, with our products.

    Shapes:
        - input: ``[…, in_channels]``
        - output: ``[…, out_channels]``
    """

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
