"""Any network of PyG by Weisfeiler-Lehman colours: each is computed once."""

from .colouring import Colouring, Step, colour_batch
from .network import ColourNetwork, to_colours
from .transform import Colours

__all__ = ["ColourNetwork", "Colouring", "Colours", "Step", "colour_batch", "to_colours"]
