"""How a state and a new projection become one: the ∘ of graph and string layers."""

from __future__ import annotations

import torch
from torch import Tensor

#: What :func:`composed` knows.
COMPOSE = ("mul", "add")


def composed(state: Tensor, new: Tensor, compose: str, out: Tensor | None = None) -> Tensor:
    r""":math:`c \circ u`: the product for ``"mul"``, the sum for ``"add"``."""
    return (torch.mul if compose == "mul" else torch.add)(state, new, out=out)
