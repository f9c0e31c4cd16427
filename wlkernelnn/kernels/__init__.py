"""Exact kernels of graphs and strings, which the layers were derived from."""

from .base import StructureKernel, objects
from .composition import ArcCosine, Composition, Exponential, Identity, Inverse, Polynomial
from .graphs import DeepGraphKernel, RandomWalkKernel, WLKernel, WLSubtreeKernel, WLVectorizer
from .strings import DeepStringKernel, StringKernel
from .transformer import GramTransformer

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
