"""Strings as path graphs, and models of them."""

from .path_graph import path_graph

__all__ = ["path_graph"]
