"""Networks: what turns a batch of graphs into predictions."""

from .colour_cache import ColourCache
from .encoder import CodeEncoder
from .graph_kernel_network import GraphKernelNetwork

__all__ = ["CodeEncoder", "ColourCache", "GraphKernelNetwork"]
