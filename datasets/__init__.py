"""Data sets: from SMILES files to packed graphs and mini-batches."""

from .download import cache_folder, content_sha256, download, find_file
from .features import Features, get_features
from .featurize import featurize
from .loader import PackedLoader
from .molecules import load_molecules, molecules_from, smiles_column_of, write_rejects
from .packed import Arrays, Description, PackedGraphs, Reject, sorted_edge_index
from .published import MOLECULE_SETS, MoleculeSet
from .resample import BucketResampler
from .splits import column_split, random_split, scaffold_split, scaffolds, split
from .table import binary_targets, numeric_targets, read_table
from .tu import load_tu

__all__ = [
    "MOLECULE_SETS",
    "Arrays",
    "BucketResampler",
    "Description",
    "Features",
    "MoleculeSet",
    "PackedGraphs",
    "PackedLoader",
    "Reject",
    "binary_targets",
    "cache_folder",
    "column_split",
    "content_sha256",
    "download",
    "featurize",
    "find_file",
    "get_features",
    "load_molecules",
    "load_tu",
    "molecules_from",
    "numeric_targets",
    "random_split",
    "read_table",
    "scaffold_split",
    "scaffolds",
    "smiles_column_of",
    "sorted_edge_index",
    "split",
    "write_rejects",
]
