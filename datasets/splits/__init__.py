"""Parts to train on, to validate and to test on."""

from .by_kind import split
from .identity import molecule_ids, shared_molecules
from .parts import column_split, random_split
from .scaffold import scaffold_split, scaffolds

__all__ = [
    "column_split",
    "molecule_ids",
    "random_split",
    "scaffold_split",
    "scaffolds",
    "shared_molecules",
    "split",
]
