"""Exact kernels of graphs."""

from .count_kernel import CountKernel
from .deep_graph import DeepGraphKernel
from .descriptors import DescriptorKernel
from .molecules import MoleculeKernel
from .paths import PathKernel
from .random_walk import RandomWalkKernel
from .shortest_paths import ShortestPathKernel
from .wl import WLKernel
from .wl_subtree import WLSubtreeKernel, WLVectorizer

__all__ = [
    "CountKernel",
    "DeepGraphKernel",
    "DescriptorKernel",
    "MoleculeKernel",
    "PathKernel",
    "RandomWalkKernel",
    "ShortestPathKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "WLVectorizer",
]
