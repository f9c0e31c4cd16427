"""Strings as path graphs, and models of them."""

from . import layers, models
from .layers import *  # noqa: F403
from .models import *  # noqa: F403
from .rrnn import RRNN, RRNNGRU

__all__ = ["RRNN", "RRNNGRU"]
__all__ += layers.__all__
__all__ += models.__all__
