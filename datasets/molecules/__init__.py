"""Molecules: from SMILES and published sets to packed graphs."""

from .benchmarks import OGB_SETS, OGBSet, load_lrgb, load_ogb
from .features import Features, get_features
from .from_table import molecules_from
from .load import load_molecules
from .published import MOLECULE_SETS, MoleculeSet
from .smiles import featurize

__all__ = [
    "MOLECULE_SETS",
    "OGB_SETS",
    "Features",
    "MoleculeSet",
    "OGBSet",
    "featurize",
    "get_features",
    "load_lrgb",
    "load_molecules",
    "load_ogb",
    "molecules_from",
]
