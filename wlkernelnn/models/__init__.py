"""Networks: what turns a batch of graphs into predictions."""

from .base.colour_cache import ColourCache
from .base.encoder import CodeEncoder, FeatureEncoder
from .base.graph_network import GraphNetwork
from .export import ExportableNetwork, export_inputs, export_network
from .graph_kernel_network import GraphKernelNetwork
from .kernel_stack import KernelStack
from .kernel_stack_network import KernelStackNetwork
from .wl_kernel_nn import WLKernelNN

#: Networks by the names that users give them.
SHORT_NAMES: dict[str, type[GraphNetwork]] = {"wl": GraphKernelNetwork, "stack": KernelStackNetwork}
#: Networks that checkpoints may hold, by the names of their classes.
NETWORKS: dict[str, type[GraphNetwork]] = {network.__name__: network for network in SHORT_NAMES.values()}

__all__ = [
    "NETWORKS",
    "SHORT_NAMES",
    "CodeEncoder",
    "ColourCache",
    "ExportableNetwork",
    "FeatureEncoder",
    "GraphKernelNetwork",
    "GraphNetwork",
    "KernelStack",
    "KernelStackNetwork",
    "WLKernelNN",
    "export_inputs",
    "export_network",
]
