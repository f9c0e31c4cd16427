"""Weisfeiler-Lehman colours, exact, and batches by their colours."""

from .known import KnownColours
from .naive import wl_colours_naive
from .origin import Origin
from .quotient import Level, Quotient, is_of, quotient_of, wl_quotient
from .refine import packed_columns, wl_colours

__all__ = [
    "KnownColours",
    "Level",
    "Origin",
    "Quotient",
    "is_of",
    "packed_columns",
    "quotient_of",
    "wl_colours",
    "wl_colours_naive",
    "wl_quotient",
]
