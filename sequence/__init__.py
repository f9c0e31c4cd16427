"""Strings as path graphs, and models of them."""

from .language_model import LanguageModel
from .path_graph import path_graph
from .stack import Stack
from .string_kernel import StringKernelConv
from .string_kernel_network import StringKernelNetwork
from .string_model import StringModel, detached
from .text_classifier import TextClassifier

__all__ = [
    "LanguageModel",
    "Stack",
    "StringKernelConv",
    "StringKernelNetwork",
    "StringModel",
    "TextClassifier",
    "detached",
    "path_graph",
]
