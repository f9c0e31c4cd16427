"""Any network of PyG by Weisfeiler-Lehman colours, each of which is computed once."""

from .colouring import Colouring, Step, colouring
from .network import ColourNetwork, to_colours

__all__ = ["ColourNetwork", "Colouring", "Step", "colouring", "to_colours"]
