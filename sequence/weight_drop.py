"""Recurrent weights that are dropped."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from wlkernelnn.ops.scan import Steps

from .string_model import State, StringModel


class WeightDrop(StringModel):
    r"""DropConnect on a weight of a sequence model (Merity et al. 2018, section 2).

    In training each value of the weight is 0 with probability p for a whole forward pass, the same at all
    tokens of all strings; those that are left are divided by 1 − p, so that their mean is the weight. In
    evaluation mode nothing is dropped.

    Args:
        model: The sequence model. Its parameters keep their names, behind ``model.``.
        weight: Name of its parameter.
        dropout: p.

    Shapes:
        - input and output: those of ``model``, and its state

    Raises:
        ValueError: ``dropout`` is not in [0, 1), or the parameter is lazy.
        AttributeError: ``model`` has no such parameter.
    """

    def __init__(self, model: StringModel, weight: str, dropout: float) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        if is_lazy(model.get_parameter(weight)):
            raise ValueError(f"{weight} has no shape yet: give {type(model).__name__} its in_channels")
        self.in_channels, self.out_channels = model.in_channels, model.out_channels
        self.model = model
        self.weight = weight
        self.dropout = dropout

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        if not self.training:
            return self.model.run(x, steps, state)
        weight = torch.nn.functional.dropout(self.model.get_parameter(self.weight), self.dropout)
        return torch.func.functional_call(
            _Run(self.model), {f"model.{self.weight}": weight}, (x, steps, state)
        )


class _Run(torch.nn.Module):
    """``run`` of a sequence model as ``forward``, for :func:`torch.func.functional_call`."""

    def __init__(self, model: StringModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        return self.model.run(x, steps, state)
