"""Sums over the neighbours of every node: naive versions that are the equations, and fast ones."""

from .edges import SortedEdges, sort_edges
from .blocked import message_sum
from .naive import message_sum_naive, neighbor_sum_naive
from .csr import neighbor_sum

__all__ = [
    "SortedEdges",
    "message_sum",
    "message_sum_naive",
    "neighbor_sum",
    "neighbor_sum_naive",
    "sort_edges",
]
