"""Networks that grow a cell at every token, and the base that they share."""

from .merging_rrnn import MergingRRNN
from .rrnn import RRNN
from .rrnn_gru import RRNNGRU
from .tree_model import TreeModel

__all__ = [
    "RRNN",
    "RRNNGRU",
    "MergingRRNN",
    "TreeModel",
]
