"""Recurrent weights that are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import check_dropout

from .string_model import State, StringModel


class WeightDrop(StringModel):
    """DropConnect on a weight of a sequence model (Merity et al. 2018, section 2).

    In training each value of the weight is 0 with probability p for a whole forward pass, or else divided by
    1 − p.

    Args:
        model: The sequence model. Its parameters keep their names, behind ``model.``.
        weight: Name of its parameter, which may be parametrised (by weight normalisation, for example).
        dropout: p.

    Shapes:
        - input and output: those of ``model``, and its state

    Raises:
        ValueError: ``dropout`` is not in [0, 1), or the parameter is lazy.
        AttributeError: ``model`` has no such parameter.
    """

    def __init__(self, model: StringModel, weight: str, dropout: float) -> None:
        super().__init__()
        check_dropout(dropout)
        value = getattr(*_place(model, weight))
        if not isinstance(value, Tensor):
            raise AttributeError(f"{weight} of {type(model).__name__} is no parameter")
        if is_lazy(value):
            raise ValueError(f"{weight} has no shape yet: give {type(model).__name__} its in_channels")
        self.in_channels, self.out_channels = model.in_channels, model.out_channels
        self.branches = model.branches
        self.model = model
        self.weight = weight
        self.dropout = dropout

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        if not self.training:
            return self.model(x, steps, state)
        # No parameter where somebody else calls the model with another tensor in its place.
        owner, name = _place(self.model, self.weight)
        weight = torch.nn.functional.dropout(getattr(owner, name), self.dropout)
        if is_parametrized(owner, name):
            parametrization = cast(torch.nn.ModuleList, owner.get_submodule(f"parametrizations.{name}"))
            with _resulting_in(weight, parametrization):
                return self.model(x, steps, state)
        return torch.func.functional_call(self.model, {self.weight: weight}, (x, steps, state))


def _place(model: StringModel, weight: str) -> tuple[torch.nn.Module, str]:
    """The part of a model that has a weight, and the weight's name there."""
    where, _, name = weight.rpartition(".")
    return model.get_submodule(where), name


@contextmanager
def _resulting_in(weight: Tensor, parametrization: torch.nn.ModuleList) -> Iterator[None]:
    """A parametrised tensor is ``weight`` in the block; to set it would write into what it is made of."""
    parametrization.append(_Known(weight))
    try:
        yield
    finally:
        del parametrization[-1]


class _Known(torch.nn.Module):
    """The last step of a parametrisation whose result is known."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, _: Tensor) -> Tensor:
        return self.weight
