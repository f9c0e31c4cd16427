"""Weisfeiler-Lehman colours, exact, and batches by their colours."""

from .known import KnownColours
from .naive import wl_colours_naive
from .quotient import Level, Quotient, is_of, quotient_of, wl_quotient
from .refine import packed_columns, wl_colours
from .seal import Seal

__all__ = [
    "KnownColours",
    "Level",
    "Quotient",
    "Seal",
    "is_of",
    "packed_columns",
    "quotient_of",
    "wl_colours",
    "wl_colours_naive",
    "wl_quotient",
]
