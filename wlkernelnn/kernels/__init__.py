"""Exact kernels of graphs and strings, which the layers were derived from."""

from .base import StructureKernel, objects
from .composition import ArcCosine, Composition, Exponential, Identity, Inverse, Polynomial
from .graphs import (
    CountKernel,
    DeepGraphKernel,
    DescriptorKernel,
    MoleculeKernel,
    PathKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLKernel,
    WLSubtreeKernel,
    WLVectorizer,
)
from .networkx_data import from_networkx
from .strings import DeepStringKernel, StringKernel
from .transformer import GramTransformer

__all__ = [
    "ArcCosine",
    "Composition",
    "CountKernel",
    "DeepGraphKernel",
    "DeepStringKernel",
    "DescriptorKernel",
    "Exponential",
    "GramTransformer",
    "Identity",
    "Inverse",
    "MoleculeKernel",
    "PathKernel",
    "Polynomial",
    "RandomWalkKernel",
    "ShortestPathKernel",
    "StringKernel",
    "StructureKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "WLVectorizer",
    "from_networkx",
    "objects",
]
