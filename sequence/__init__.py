"""Strings as path graphs, and models of them."""

from .language_model import LanguageModel
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
from .rrnn import RRNN, RRNNGRU
from .stack import Stack
from .string_classifier import StringClassifier
from .string_kernel import StringKernelConv
from .string_kernel_network import StringKernelNetwork
from .string_model import StringModel, detached
from .sync_filters import SyncFilters
from .text_classifier import TextClassifier
from .weight_drop import WeightDrop

__all__ = [
    "RKM",
    "RRNN",
    "RRNNGRU",
    "ArcCosineKernel",
    "GaussianKernel",
    "LanguageModel",
    "LinearKernel",
    "PolynomialKernel",
    "RecurrentKernel",
    "RecurrentKernelMachine",
    "Stack",
    "StringClassifier",
    "StringKernelConv",
    "StringKernelNetwork",
    "StringModel",
    "SyncFilters",
    "TanhKernel",
    "TextClassifier",
    "ToPathGraph",
    "WeightDrop",
    "detached",
    "path_graph",
    "to_list",
    "to_packed",
    "to_padded",
]
