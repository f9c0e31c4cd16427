"""Grown trees: their structure, known cells written as trees, counts, distances and pictures."""

from .cells import CELLS, GRU, LSTM, TORCH_GRU, Cell
from .distance import tree_distances
from .draw import draw_tree
from .record import Record, tree_counts, tuple_choices
from .trees import Leaf, Node, Tree, internal_nodes, isomorphic, tree_distance, tree_of, vector_difference

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "TORCH_GRU",
    "Cell",
    "Leaf",
    "Node",
    "Record",
    "Tree",
    "draw_tree",
    "internal_nodes",
    "isomorphic",
    "tree_counts",
    "tree_distance",
    "tree_distances",
    "tree_of",
    "tuple_choices",
    "vector_difference",
]
