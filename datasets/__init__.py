"""Data sets: from SMILES files to packed graphs and mini-batches."""

from .loader import PackedLoader
from .packed import Arrays, Description, PackedGraphs, sorted_edge_index

__all__ = ["Arrays", "Description", "PackedGraphs", "PackedLoader", "sorted_edge_index"]
