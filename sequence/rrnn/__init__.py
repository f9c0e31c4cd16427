"""Recursive-recurrent neural networks: cells that are grown as trees, token by token."""

from .alternate import alternate
from .cells import CELLS, GRU, LSTM, TORCH_GRU, Cell
from .distance import tree_distances
from .record import Record
from .rrnn import RRNN
from .rrnn_gru import RRNNGRU
from .space import Construction, Space
from .tree_loss import TreeLoss
from .trees import Leaf, Node, Tree, isomorphic, tree_distance, vector_difference

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "RRNN",
    "RRNNGRU",
    "TORCH_GRU",
    "Cell",
    "Construction",
    "Leaf",
    "Node",
    "Record",
    "Space",
    "Tree",
    "TreeLoss",
    "alternate",
    "isomorphic",
    "tree_distance",
    "tree_distances",
    "vector_difference",
]
