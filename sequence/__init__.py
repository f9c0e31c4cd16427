"""Strings as path graphs, and models of them."""

from . import graphs, layers, models
from .graphs import *  # noqa: F403
from .layers import *  # noqa: F403
from .models import *  # noqa: F403
from .rrnn import RRNN, RRNNGRU, MergingRRNN

# The names of two networks in older programs and checkpoints.
StringClassifier, TextClassifier = models.StringNetwork, models.TextNetwork

__all__ = ["RRNN", "RRNNGRU", "MergingRRNN"]
__all__ += graphs.__all__
__all__ += layers.__all__
__all__ += models.__all__
