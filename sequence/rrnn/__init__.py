"""Recursive-recurrent neural networks: cells that are grown as trees, token by token."""

from . import search, training, trees
from .layers import RRNN, RRNNGRU, MergingRRNN
from .search import *  # noqa: F403
from .training import *  # noqa: F403
from .trees import *  # noqa: F403

__all__ = ["RRNN", "RRNNGRU", "MergingRRNN"]
__all__ += search.__all__
__all__ += training.__all__
__all__ += trees.__all__
