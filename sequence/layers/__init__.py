"""Layers of strings."""

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
from .string_rnn import Bidirectional, StringRNN
from .sync_filters import SyncFilters
from .weight_drop import WeightDrop

__all__ = [
    "RKM",
    "ArcCosineKernel",
    "Bidirectional",
    "GaussianKernel",
    "LinearKernel",
    "PolynomialKernel",
    "RecurrentKernel",
    "RecurrentKernelMachine",
    "Stack",
    "StringKernelConv",
    "StringModel",
    "StringRNN",
    "SyncFilters",
    "TanhKernel",
    "WeightDrop",
    "detached",
]
