"""Strings as path graphs: made, read and closed."""

from .closure import decayed_sum, subsequence_graph
from .path_graph import ToPathGraph, path_graph, to_list, to_packed, to_padded

__all__ = [
    "ToPathGraph",
    "decayed_sum",
    "path_graph",
    "subsequence_graph",
    "to_list",
    "to_packed",
    "to_padded",
]
