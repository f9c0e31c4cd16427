"""Scores as they are printed."""

from __future__ import annotations


def score_text(score: float) -> str:
    """Four digits behind the point, or, of errors as small as targets in mol/L can have, four that count."""
    return f"{score:.4g}" if 0 < abs(score) < 1e-3 else f"{score:.4f}"
