"""Tables, texts and downloads: reading files."""

from .download import cache_folder, content_sha256, download, find_file
from .rejects import Reject, write_rejects
from .table import read_table, smiles_column_of
from .targets import binary_targets, numeric_targets

__all__ = [
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
