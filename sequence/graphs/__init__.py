"""Strings as path graphs: made, read and closed."""

from .path_graph import ToPathGraph, path_graph, to_list, to_packed, to_padded

__all__ = ["ToPathGraph", "path_graph", "to_list", "to_packed", "to_padded"]
