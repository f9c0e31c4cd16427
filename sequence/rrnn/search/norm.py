"""Normalisation of nodes, without which products of products overflow."""

from __future__ import annotations

import torch
from torch import Tensor

NORMS = ("layer", "batch")
#: What keeps nodes from overflowing: a norm, or the bound of a :class:`~.space.Space`.
BOUNDS = (*NORMS, "max")


class NodeNorm(torch.nn.Module):
    """Normalises each node when it is made, with a scale and a shift for each of ``num_rounds`` rounds.

    Args:
        kind: ``"layer"``: over the channels of a node. ``"batch"``: over the strings of a step, in evaluation
            with running means and variances of the round; so is a single string.
        bias_std: Standard deviation of the shifts at first.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, kind: str, num_rounds: int, channels: int, bias_std: float = 0.0) -> None:
        super().__init__()
        self.kind = kind
        self.bias_std = bias_std
        self.weight = torch.nn.Parameter(torch.empty(num_rounds, channels))
        self.bias = torch.nn.Parameter(torch.empty(num_rounds, channels))
        if kind == "batch":
            self.register_buffer("running_mean", torch.zeros(num_rounds, channels))
            self.register_buffer("running_var", torch.ones(num_rounds, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.ones_(self.weight)
        torch.nn.init.normal_(self.bias, std=self.bias_std)
        if self.kind == "batch":
            self.running_mean.zero_()
            self.running_var.fill_(1)

    def forward(self, node: Tensor, k: int, learn: bool = True) -> Tensor:
        """The node ``[B, p]`` of round k, counted from 0; without ``learn`` running statistics stay."""
        weight, bias = self.weight[k], self.bias[k]
        if self.kind == "layer":
            return torch.nn.functional.layer_norm(node, node.shape[1:], weight, bias)
        mean, var = self.running_mean[k], self.running_var[k]
        batch = self.training and len(node) > 1
        if not (batch and learn):  # the statistics may also change before the backward pass
            mean, var = mean.clone(), var.clone()
        return torch.nn.functional.batch_norm(node, mean, var, weight, bias, batch)
