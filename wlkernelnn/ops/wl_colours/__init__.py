"""Weisfeiler-Lehman colours: the naive version that is the definition, and the fast one; both exact."""

from .exact import wl_colours
from .naive import wl_colours_naive

__all__ = ["wl_colours", "wl_colours_naive"]
