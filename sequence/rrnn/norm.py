"""Batch normalisation of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

#: What bounds nodes, see :class:`~wlkernelnn.sequence.RRNN`.
NORMS = ("max", "batch")


class NodeNorm(torch.nn.Module):
    """Normalises each node over the strings of a step, with a scale and a shift for each round.

    In evaluation, and of a single string, with running means and variances of the round.

    Args:
        num_rounds: How many nodes are made.
        channels: Width p of the nodes.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_rounds: int, channels: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(num_rounds, channels))
        self.bias = torch.nn.Parameter(torch.empty(num_rounds, channels))
        self.register_buffer("running_mean", torch.zeros(num_rounds, channels))
        self.register_buffer("running_var", torch.ones(num_rounds, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Neither scale nor shift, and no statistics."""
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, node: Tensor, k: int, learn: bool = True) -> Tensor:
        """The node ``[B, p]`` of round k, counted from 0.

        Args:
            node, k: Which node.
            learn: Whether the running statistics, in training, move to this node's.
        """
        mean, var = self.running_mean[k], self.running_var[k]
        batch = self.training and len(node) > 1
        if not (batch and learn):  # the statistics may also change before the backward pass
            mean, var = mean.clone(), var.clone()
        return torch.nn.functional.batch_norm(node, mean, var, self.weight[k], self.bias[k], batch)
