"""Molecule sets that come as graphs: those of OGB and of LRGB."""

from .lrgb import load_lrgb
from .ogb import load_ogb
from .ogb_sets import OGB_SETS, OGBSet

__all__ = ["OGB_SETS", "OGBSet", "load_lrgb", "load_ogb"]
