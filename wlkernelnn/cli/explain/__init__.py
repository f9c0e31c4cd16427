"""Say of every atom how much it adds to the predictions for its molecule."""

from .verb import ExplainOptions, main

__all__ = ["ExplainOptions", "main"]
