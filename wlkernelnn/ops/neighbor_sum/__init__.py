"""Sums over the neighbours of every node: naive versions that are the equations, and fast ones."""

from .blocked import message_sum
from .csr import neighbor_sum
from .edges import SortedEdges, sort_edges
from .naive import message_sum_naive, neighbor_sum_naive
from .segments import segment_sum

__all__ = [
    "SortedEdges",
    "message_sum",
    "message_sum_naive",
    "neighbor_sum",
    "neighbor_sum_naive",
    "segment_sum",
    "sort_edges",
]
