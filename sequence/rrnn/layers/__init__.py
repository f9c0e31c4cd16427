"""Layers that grow a cell at every token."""

from .rrnn import RRNN
from .rrnn_gru import RRNNGRU

__all__ = [
    "RRNN",
    "RRNNGRU",
]
