"""Decayed scans along strings: naive versions that are the equations, and fast ones."""

from .equations import GatedCell
from .feedback import feedback_scan
from .gated import gated_scan
from .levels import Levels
from .naive import (
    decayed_scan_naive,
    feedback_scan_naive,
    gated_scan_naive,
    ngram_graph_naive,
    ngram_scan_naive,
)
from .ngram import decayed_scan, ngram_scan
from .steps import Steps
from .windows import filtered, last_tokens, windows

__all__ = [
    "GatedCell",
    "Levels",
    "Steps",
    "decayed_scan",
    "decayed_scan_naive",
    "feedback_scan",
    "feedback_scan_naive",
    "filtered",
    "gated_scan",
    "gated_scan_naive",
    "last_tokens",
    "ngram_graph_naive",
    "ngram_scan",
    "ngram_scan_naive",
    "windows",
]
