"""The tuples (L, R, b) that all nodes share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch_geometric.nn.inits import uniform


class Tuples(torch.nn.Module):
    """Matrices for left and right children, and biases: ``weight[0, r]`` is :math:`L_r`, ``weight[1, r]`` is
    :math:`R_r`, and ``bias[r]`` is :math:`b_r`.

    Args:
        channels: Width p of the nodes.
        num_tuples: Number of tuples that are learned.
        identity: Whether (I, I, 0) stands behind them, which is not learned.
        bias_std: Standard deviation of the biases at first; default: as of :class:`torch.nn.Linear`.
    """

    def __init__(self, channels: int, num_tuples: int, identity: bool, bias_std: float | None = None) -> None:
        super().__init__()
        self.identity = identity
        self.bias_std = bias_std
        self.weight = torch.nn.Parameter(torch.empty(2, num_tuples, channels, channels))
        self.bias = torch.nn.Parameter(torch.empty(num_tuples, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in (self.weight, self.bias):
            uniform(self.bias.size(1), parameter)
        if self.bias_std is not None:
            torch.nn.init.normal_(self.bias, std=self.bias_std)

    def __len__(self) -> int:
        return len(self.bias) + self.identity

    def project(self, nodes: Tensor) -> Tensor:
        """:math:`L_r c` and :math:`R_r c` of all r, ``[…, 2, tuples, p]``, of nodes ``[…, p]``."""
        products = linear(nodes.reshape(-1, nodes.size(-1)), self.weight.flatten(0, 2))
        # Under autocast only products are of lower precision.
        products = products.to(nodes.dtype).view(*nodes.shape[:-1], *self.weight.shape[:3])
        if not self.identity:
            return products
        same = nodes[..., None, None, :].expand(*products.shape[:-2], 1, -1)
        return torch.cat([products, same], -2)

    def biases(self) -> Tensor:
        """``[tuples, p]``."""
        return torch.nn.functional.pad(self.bias, (0, 0, 0, int(self.identity)))
