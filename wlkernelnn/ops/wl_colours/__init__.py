"""Weisfeiler-Lehman colours: the definition and the fast version, both exact; batches by their colours."""

from .exact import wl_colours
from .naive import wl_colours_naive
from .quotient import Level, Quotient, wl_quotient

__all__ = ["Level", "Quotient", "wl_colours", "wl_colours_naive", "wl_quotient"]
