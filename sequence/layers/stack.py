"""Sequence models on top of each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import check_dropout, check_one_of

from .dropout import locked_mask
from .string_model import State, StringModel, check_model, check_states


class Stack(StringModel):
    r"""Layers that read what the layer before wrote, with dropout between them.

    Args:
        layers: At least one.
        dropout: Probability of dropping a value between two layers.
        jumping: What is read of the layers: the ``"last"`` output, the ``"sum"`` of all, or all side by side,
            ``"cat"`` (Xu et al. 2018, jumping knowledge), as of graph networks.
        locked: Dropout drops the same values at all tokens of a string.

    Shapes:
        - input: as of the first layer; the state is a tuple of the layers' states
        - output: ``[N, out_channels]`` or ``[B, T, out_channels]``, and the states

    Raises:
        ValueError: An argument is out of its range, or a layer reads another width than the one before
            writes.
    """

    def __init__(
        self, layers: Sequence[StringModel], dropout: float = 0.0, jumping: str = "last", locked: bool = False
    ) -> None:
        super().__init__()
        if not layers:
            raise ValueError("expected at least one layer, got none")
        for i, layer in enumerate(layers):
            check_model(f"layer {i}", layer)
        check_dropout(dropout)
        check_one_of("jumping", jumping, ("last", "sum", "cat"))
        widths = [layer.out_channels for layer in layers]
        if jumping == "sum" and len(set(widths)) > 1:
            raise ValueError(f'jumping="sum" needs layers of one width, got {widths}')
        for i, (below, above) in enumerate(itertools.pairwise(layers)):
            if above.in_channels not in (-1, below.out_channels):
                raise ValueError(
                    f"layer {i} writes {below.out_channels} values, layer {i + 1} reads {above.in_channels}"
                )
        self.layers = torch.nn.ModuleList(layers)
        self.dropout = dropout
        self.jumping = jumping
        self.locked = locked
        self.branches = all(layer.branches for layer in layers)
        self.in_channels = layers[0].in_channels
        self.out_channels = sum(widths) if jumping == "cat" else widths[-1]

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        before = check_states(state, len(self.layers), "layers")
        outputs, after = [], []
        for i, (layer, of_layer) in enumerate(zip(self.layers, before, strict=True)):
            if i:
                x = self._dropped(x, steps)
            x, last = layer(x, steps, of_layer)
            outputs.append(x)
            after.append(last)
        if self.jumping == "sum":
            x = torch.stack(outputs).sum(0)
        return torch.cat(outputs, -1) if self.jumping == "cat" else x, tuple(after)

    def _dropped(self, x: Tensor, steps: Steps) -> Tensor:
        if not (self.locked and self.training):
            return torch.nn.functional.dropout(x, self.dropout, self.training)
        return x * steps.of_tokens(locked_mask(steps.num_strings, x.size(1), self.dropout, x))
