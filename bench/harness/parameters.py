"""How large networks are, and the width at which one has a given size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import torch


def count_parameters(net: torch.nn.Module) -> int:
    """How many numbers are trained: frozen word vectors do not count."""
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)


def width_for(make: Callable[[int], torch.nn.Module], parameters: int) -> int:
    """The width at which a network has closest to so many parameters.

    Args:
        make: Makes the network of a width; the wider, the more parameters.
        parameters: Number of parameters to come close to.
    """

    def count(width: int) -> int:
        with torch.device("meta"):  # shapes without memory
            return count_parameters(make(width))

    wider = bisect_left(range(4096), parameters, lo=2, key=count)
    return min(wider - 1, wider, key=lambda width: abs(count(width) - parameters))
