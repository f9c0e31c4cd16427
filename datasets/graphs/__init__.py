"""Packed graphs: the store, its loader, its splits."""

from .endless import EndlessShuffle
from .epochs import EpochLoader
from .loader import PackedLoader
from .packed import PackedGraphs
from .resample import BucketResampler
from .sorted_edge_index import sorted_edge_index
from .splits import column_split, random_split, scaffold_split, scaffolds, split
from .tu import load_tu
from .walk_encodings import walk_encodings

__all__ = [
    "BucketResampler",
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
