"""Sums over the edges and neighbours of a graph: naive versions that are the equations, and fast ones."""

from .edges import SortedEdges, sort_edges
from .fused import gated_sum, relabel_sum
from .naive import (
    gated_message,
    gated_sum_naive,
    message_sum_naive,
    neighbor_sum_naive,
    relabel_message,
    relabel_sum_naive,
)
from .neighbor_sum import message_sum, neighbor_sum
from .segments import segment_sum

__all__ = [
    "SortedEdges",
    "gated_message",
    "gated_sum",
    "gated_sum_naive",
    "message_sum",
    "message_sum_naive",
    "neighbor_sum",
    "neighbor_sum_naive",
    "relabel_message",
    "relabel_sum",
    "relabel_sum_naive",
    "segment_sum",
    "sort_edges",
]
