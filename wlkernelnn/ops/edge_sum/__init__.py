"""Sums over edges that layers are made of: fused where numba or a GPU's Triton is, composed elsewhere."""

from .gated import gated_sum
from .naive import gated_message, gated_sum_naive, relabel_message, relabel_sum_naive
from .relabel import relabel_sum

__all__ = [
    "gated_message",
    "gated_sum",
    "gated_sum_naive",
    "relabel_message",
    "relabel_sum",
    "relabel_sum_naive",
]
