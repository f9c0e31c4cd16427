"""Predicted intervals: how many measurements lie in them."""
