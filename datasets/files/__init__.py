"""Tables, texts and downloads: reading files."""

from .arrays import Arrays
from .description import Description, Reject
from .download import cache_folder, content_sha256, download, find_file
from .rejects import write_rejects
from .smiles_column import smiles_column_of
from .table import binary_targets, numeric_targets, read_table

__all__ = [
    "Arrays",
    "Description",
    "Reject",
    "binary_targets",
    "cache_folder",
    "content_sha256",
    "download",
    "find_file",
    "numeric_targets",
    "read_table",
    "smiles_column_of",
    "write_rejects",
]
