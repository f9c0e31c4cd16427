"""Networks: what turns a batch of graphs into predictions."""

from .encoder import CodeEncoder
from .graph_kernel_network import GraphKernelNetwork

__all__ = ["CodeEncoder", "GraphKernelNetwork"]
