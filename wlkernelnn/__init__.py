"""Neural networks derived from kernels, for PyTorch Geometric."""

from importlib.metadata import version

from .conv import DeepKernelConv, RandomWalkKernelConv, WLKernelConv

__version__ = version("wlkernelnn")

__all__ = ["DeepKernelConv", "RandomWalkKernelConv", "WLKernelConv", "__version__"]
