"""Repeated cross-validation of one model or several, and how sure their difference is."""

from .run import cross_validate
from .summary import corrected_t_test

__all__ = ["corrected_t_test", "cross_validate"]
