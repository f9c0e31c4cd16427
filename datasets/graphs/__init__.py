"""Packed graphs: the store and its loader."""

from .arrays import Arrays
from .description import Description
from .epochs import BucketResampler, EndlessShuffle, EpochLoader, LengthGroupedShuffle
from .loader import PackedLoader
from .packed import PackedGraphs
from .pyg import sorted_edge_index
from .random_walks import walk_encodings
from .tu import load_tu

__all__ = [
    "Arrays",
    "BucketResampler",
    "Description",
    "EndlessShuffle",
    "EpochLoader",
    "LengthGroupedShuffle",
    "PackedGraphs",
    "PackedLoader",
    "load_tu",
    "sorted_edge_index",
    "walk_encodings",
]
