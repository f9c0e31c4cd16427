"""How a state and a new projection become one: the ∘ of graph and string layers."""

from collections.abc import Callable

import torch
from torch import Tensor

#: The operations by their names.
COMPOSE: dict[str, Callable[..., Tensor]] = {"mul": torch.mul, "add": torch.add}
