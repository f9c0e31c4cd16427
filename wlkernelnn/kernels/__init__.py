"""Exact kernels of graphs and strings, which the layers were derived from."""

from .base import StructureKernel, objects
from .composition import ArcCosine, Composition, Exponential, Identity, Inverse, Polynomial
from .deep_graph import DeepGraphKernel
from .deep_string import DeepStringKernel
from .random_walk import RandomWalkKernel
from .string import StringKernel
from .transformer import GramTransformer
from .wl import WLKernel
from .wl_subtree import WLSubtreeKernel
from .wl_vectorizer import WLVectorizer

__all__ = [
    "ArcCosine",
    "Composition",
    "DeepGraphKernel",
    "DeepStringKernel",
    "Exponential",
    "GramTransformer",
    "Identity",
    "Inverse",
    "Polynomial",
    "RandomWalkKernel",
    "StringKernel",
    "StructureKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "WLVectorizer",
    "objects",
]
