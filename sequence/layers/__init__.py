"""Layers of strings."""

from .path_graph import ToPathGraph, path_graph, to_list, to_packed, to_padded
from .recurrent_kernel_machine import RecurrentKernelMachine
from .recurrent_kernels import (
    ArcCosineKernel,
    GaussianKernel,
    LinearKernel,
    PolynomialKernel,
    RecurrentKernel,
    TanhKernel,
)
from .rkm import RKM
from .stack import Stack
from .string_kernel import StringKernelConv
from .string_model import StringModel, detached
from .sync_filters import SyncFilters
from .weight_drop import WeightDrop

__all__ = [
    "RKM",
    "ArcCosineKernel",
    "GaussianKernel",
    "LinearKernel",
    "PolynomialKernel",
    "RecurrentKernel",
    "RecurrentKernelMachine",
    "Stack",
    "StringKernelConv",
    "StringModel",
    "SyncFilters",
    "TanhKernel",
    "ToPathGraph",
    "WeightDrop",
    "detached",
    "path_graph",
    "to_list",
    "to_packed",
    "to_padded",
]
