"""Linear maps of all layers: PyG's, which may learn their width from the first input."""

from torch_geometric.nn import Linear

__all__ = ["Linear"]
