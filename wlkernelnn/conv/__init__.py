"""Layers: graph kernels as PyG ``MessagePassing`` modules."""

from .deep import DeepKernelConv
from .random_walk import RandomWalkKernelConv
from .wl import WLKernelConv

__all__ = ["DeepKernelConv", "RandomWalkKernelConv", "WLKernelConv"]
