"""Parts to train on, to validate and to test on."""

from .by_kind import split
from .clusters import butina_clusters, butina_split
from .folds import cv_folds, split_groups
from .identity import molecule_ids, shared_molecules
from .parts import column_split, random_split
from .scaffold import scaffold_split, scaffolds
from .time import time_split

__all__ = [
    "butina_clusters",
    "butina_split",
    "column_split",
    "cv_folds",
    "molecule_ids",
    "random_split",
    "scaffold_split",
    "scaffolds",
    "shared_molecules",
    "split",
    "split_groups",
    "time_split",
]
