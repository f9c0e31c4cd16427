"""Packed graphs: the store, its loader, its splits."""

from .arrays import Arrays
from .description import Description
from .epochs import BucketResampler, EndlessShuffle, EpochLoader
from .loader import PackedLoader
from .packed import PackedGraphs
from .pyg import sorted_edge_index
from .random_walks import walk_encodings
from .splits import column_split, random_split, scaffold_split, scaffolds, split
from .tu import load_tu

__all__ = [
    "Arrays",
    "BucketResampler",
    "Description",
    "EndlessShuffle",
    "EpochLoader",
    "PackedGraphs",
    "PackedLoader",
    "column_split",
    "load_tu",
    "random_split",
    "scaffold_split",
    "scaffolds",
    "sorted_edge_index",
    "split",
    "walk_encodings",
]
