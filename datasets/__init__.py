"""Data sets: from files of molecules, graphs or text to packed stores and mini-batches."""

from .arrays import Arrays
from .bptt import BPTTLoader
from .corpus import EOS, Corpus, load_ptb, load_text, load_wikitext
from .description import Description, Reject
from .documents import (
    DOCUMENT_SETS,
    DocumentSet,
    document_files,
    document_tokens,
    load_documents,
)
from .download import cache_folder, content_sha256, download, find_file
from .endless import EndlessShuffle
from .epochs import EpochLoader
from .features import Features, get_features
from .featurize import featurize
from .glove import WordVectors, load_glove
from .load_molecules import load_molecules
from .loader import PackedLoader
from .molecules import molecules_from
from .ogb import load_ogb
from .ogb_sets import OGB_SETS, OGBSet
from .packed import PackedGraphs
from .published import MOLECULE_SETS, MoleculeSet
from .random_bptt import RandomBPTTLoader
from .rejects import write_rejects
from .resample import BucketResampler
from .signals import Signals, SubjectSplit, load_signals
from .smiles_column import smiles_column_of
from .snippets import draw_snippets
from .sorted_edge_index import sorted_edge_index
from .splits import column_split, random_split, scaffold_split, scaffolds, split
from .sst import Phrase, Tree, load_sst, read_trees
from .string_loader import StringLoader
from .strings import LabelledStrings, PackedStrings
from .table import binary_targets, numeric_targets, read_table
from .tu import load_tu
from .vocabulary import Vocabulary
from .walk_encodings import walk_encodings

__all__ = [
    "DOCUMENT_SETS",
    "EOS",
    "MOLECULE_SETS",
    "OGB_SETS",
    "Arrays",
    "BPTTLoader",
    "BucketResampler",
    "Corpus",
    "Description",
    "DocumentSet",
    "EndlessShuffle",
    "EpochLoader",
    "Features",
    "LabelledStrings",
    "MoleculeSet",
    "OGBSet",
    "PackedGraphs",
    "PackedLoader",
    "PackedStrings",
    "Phrase",
    "RandomBPTTLoader",
    "Reject",
    "Signals",
    "StringLoader",
    "SubjectSplit",
    "Tree",
    "Vocabulary",
    "WordVectors",
    "binary_targets",
    "cache_folder",
    "column_split",
    "content_sha256",
    "document_files",
    "document_tokens",
    "download",
    "draw_snippets",
    "featurize",
    "find_file",
    "get_features",
    "load_documents",
    "load_glove",
    "load_molecules",
    "load_ogb",
    "load_ptb",
    "load_signals",
    "load_sst",
    "load_text",
    "load_tu",
    "load_wikitext",
    "molecules_from",
    "numeric_targets",
    "random_split",
    "read_table",
    "read_trees",
    "scaffold_split",
    "scaffolds",
    "smiles_column_of",
    "sorted_edge_index",
    "split",
    "walk_encodings",
    "write_rejects",
]
