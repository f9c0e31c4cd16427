"""Exact kernels of strings."""

from .deep_string import DeepStringKernel
from .string import StringKernel

__all__ = [
    "DeepStringKernel",
    "StringKernel",
]
