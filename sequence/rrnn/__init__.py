"""Recursive-recurrent neural networks: cells that are grown as trees, token by token."""

from .alternate import alternate
from .cells import CELLS, GRU, LSTM, TORCH_GRU, Cell
from .counts import tree_counts, tuple_choices
from .distance import tree_distances
from .draw import draw_tree
from .gradients import GradientConstants, gradient_constants, state_gradients
from .imitation import imitation
from .record import Record
from .rrnn import RRNN
from .rrnn_gru import RRNNGRU
from .space import Construction, Space
from .tree_loss import TreeLoss
from .trees import Leaf, Node, Tree, internal_nodes, isomorphic, tree_distance, tree_of, vector_difference

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "RRNN",
    "RRNNGRU",
    "TORCH_GRU",
    "Cell",
    "Construction",
    "GradientConstants",
    "Leaf",
    "Node",
    "Record",
    "Space",
    "Tree",
    "TreeLoss",
    "alternate",
    "draw_tree",
    "gradient_constants",
    "imitation",
    "internal_nodes",
    "isomorphic",
    "state_gradients",
    "tree_counts",
    "tree_distance",
    "tree_distances",
    "tree_of",
    "tuple_choices",
    "vector_difference",
]
