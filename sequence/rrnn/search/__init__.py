"""One round of growing: candidates, scores, and the choice among them."""

from .space import Construction, Space

__all__ = [
    "Construction",
    "Space",
]
