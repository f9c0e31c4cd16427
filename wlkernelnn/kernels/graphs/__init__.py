"""Exact kernels of graphs."""

from .deep_graph import DeepGraphKernel
from .random_walk import RandomWalkKernel
from .wl import WLKernel
from .wl_subtree import WLSubtreeKernel, WLVectorizer

__all__ = [
    "DeepGraphKernel",
    "RandomWalkKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "WLVectorizer",
]
