"""Strings as path graphs, and models of them."""

from .language_model import LanguageModel
from .path_graph import ToPathGraph, path_graph, to_list, to_packed, to_padded
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
    "ToPathGraph",
    "detached",
    "path_graph",
    "to_list",
    "to_packed",
    "to_padded",
]
