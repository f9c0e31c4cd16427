"""Exact kernels of graphs and strings, which the layers were derived from."""

from .base import StructureKernel, objects
from .composition import ArcCosine, Composition, Exponential, Identity, Inverse, Polynomial
from .deep_graph import DeepGraphKernel
from .random_walk import RandomWalkKernel
from .wl import WLKernel
from .wl_subtree import WLSubtreeKernel

__all__ = [
    "ArcCosine",
    "Composition",
    "DeepGraphKernel",
    "Exponential",
    "Identity",
    "Inverse",
    "Polynomial",
    "RandomWalkKernel",
    "StructureKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "objects",
]
