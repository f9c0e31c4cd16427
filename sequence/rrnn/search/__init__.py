"""Growing trees (Qian et al., Algorithm 1): candidates, their scores, and the choice among them."""

from .space import Construction, Space

__all__ = [
    "Construction",
    "Space",
]
